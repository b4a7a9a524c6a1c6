#pragma once

// What comes back from Chat Completions: a completion, whole or in chunks.

#include <string>
#include <vector>

#include "models/provider_api.h"

namespace rouse {

Result<ModelResponse> read_chat_completion(const RawJson& body);

// An answer as it was put together, from either form.
struct ChatAnswer {
    struct Call {
        std::int64_t index = 0;
        std::string id;
        std::string name;
        std::string arguments;
    };
    std::string model;
    std::string text;
    std::string refusal;
    std::vector<Call> calls;  // in the order in which they began
    std::string finish_reason;
    Usage usage;

    // unavailable  stream_broken: there is no finish_reason
    Result<ModelResponse> finish() const;
};

class OpenAiChatStream final : public StreamReader {
 public:
    Result<void> take(const SseEvent& event, std::string& text) override;
    Result<ModelResponse> finish() override { return answer_.finish(); }

 private:
    ChatAnswer answer_;
    bool done_ = false;
};

}  // namespace rouse
