#pragma once

// What comes back from the Messages API: a message, whole or as a stream of events.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/provider_api.h"

namespace rouse {

Result<ModelResponse> read_anthropic_message(const RawJson& body);

// A block while it grows. Members that no delta touches stay as they came.
class GrowingBlock {
 public:
    // unavailable  stream_broken
    static Result<GrowingBlock> start(const RawJson& block);

    void append_text(std::string_view member, std::string_view more);
    void set_text(std::string_view member, std::string text);
    void append_input(std::string_view json);
    void append_item(std::string_view member, const RawJson& item);

    Result<Block> finish() const;
    bool closed = false;

 private:
    struct Member {
        std::string key;
        std::string value;                // JSON
        std::optional<std::string> text;  // what `value` will be, as text
    };
    Member& member(std::string_view key);

    std::vector<Member> members_;
    std::optional<std::string> input_;
};

class AnthropicStream final : public StreamReader {
 public:
    Result<void> take(const SseEvent& event, std::string& text) override;
    Result<ModelResponse> finish() override;

 private:
    Result<void> start_message(const RawJson& event);
    Result<void> start_block(const RawJson& event, std::string& text);
    Result<void> grow_block(const RawJson& event, std::string& text);
    Result<void> close_block(const RawJson& event);
    Result<void> end_message(const RawJson& event);

    ModelResponse response_;
    bool started_ = false;
    bool stopped_ = false;
    std::map<std::int64_t, GrowingBlock> blocks_;  // by their index
};

}  // namespace rouse
