#pragma once

// What people, models and tools say to one another: messages made of content blocks. Blocks that we
// know are typed; any other (a provider's thinking block, say) is kept byte for byte.

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json.h"
#include "domain/codec.h"
#include "domain/ids.h"

namespace rouse {

struct TextBlock {
    static constexpr std::string_view kType = "text";
    std::string text;
    Extra extra;
    friend bool operator==(const TextBlock&, const TextBlock&) = default;
    static constexpr auto fields() { return std::tuple(required("text", &TextBlock::text)); }
};

struct ToolUseBlock {
    static constexpr std::string_view kType = "tool_use";
    CallId id;
    std::string name;
    RawJson input;
    Extra extra;
    friend bool operator==(const ToolUseBlock&, const ToolUseBlock&) = default;
    static constexpr auto fields() {
        return std::tuple(required("id", &ToolUseBlock::id), required("name", &ToolUseBlock::name),
                          required("input", &ToolUseBlock::input));
    }
};

struct ToolResultBlock {
    static constexpr std::string_view kType = "tool_result";
    CallId tool_use_id;
    RawJson content;
    bool is_error = false;
    Extra extra;
    friend bool operator==(const ToolResultBlock&, const ToolResultBlock&) = default;
    static constexpr auto fields() {
        return std::tuple(required("tool_use_id", &ToolResultBlock::tool_use_id),
                          field("content", &ToolResultBlock::content),
                          field("is_error", &ToolResultBlock::is_error));
    }
};

struct ImageBlock {
    static constexpr std::string_view kType = "image";
    RawJson source;
    Extra extra;
    friend bool operator==(const ImageBlock&, const ImageBlock&) = default;
    static constexpr auto fields() { return std::tuple(required("source", &ImageBlock::source)); }
};

// A block of a type that we do not know: the whole object, unchanged.
struct UnknownBlock {
    RawJson object;
    friend bool operator==(const UnknownBlock&, const UnknownBlock&) = default;
};

class Block {
 public:
    using Kinds = std::variant<TextBlock, ToolUseBlock, ToolResultBlock, ImageBlock, UnknownBlock>;

    Block() = default;
    template <class Kind>
        requires std::constructible_from<Kinds, Kind>
    Block(Kind kind) : kind_(std::move(kind)) {}  // NOLINT: a text block is a block

    template <class Kind>
    const Kind* get_if() const {
        return std::get_if<Kind>(&kind_);
    }
    friend bool operator==(const Block&, const Block&) = default;

    void write_json(std::string& out) const;
    bool read_json(std::string_view token);

 private:
    Kinds kind_;
};

using Content = std::vector<Block>;

Content text_content(std::string text);

enum class Role : std::uint8_t { user, assistant, system };
template <>
inline constexpr std::string_view kEnumNames<Role>[] = {"user", "assistant", "system"};

struct Message {
    Role role = Role::user;
    Content content;
    Extra extra = {};
    friend bool operator==(const Message&, const Message&) = default;
    static constexpr auto fields() {
        return std::tuple(required("role", &Message::role), required("content", &Message::content));
    }
};

// What a tool gave back. Equality of the digest is what "the same result again" means.
struct ToolResult {
    RawJson content;  // a string or an array of blocks
    bool is_error = false;
    std::string display = {};
    RawJson metadata = {};
    Extra extra = {};
    friend bool operator==(const ToolResult&, const ToolResult&) = default;
    static constexpr auto fields() {
        return std::tuple(
            required("content", &ToolResult::content), field("is_error", &ToolResult::is_error),
            field("display", &ToolResult::display), field("metadata", &ToolResult::metadata));
    }
};

ToolResult text_result(std::string_view text);
ToolResult error_result(std::string_view message);

// SHA-256 over the result's tokens; absent metadata counts as {}.
std::string digest_of(const ToolResult& result);

struct Usage {
    std::int64_t input_tokens = 0;
    std::int64_t output_tokens = 0;
    std::int64_t cache_read_tokens = 0;
    std::int64_t cache_write_tokens = 0;
    Extra extra = {};
    friend bool operator==(const Usage&, const Usage&) = default;
    Usage& operator+=(const Usage& other);
    static constexpr auto fields() {
        return std::tuple(field("input_tokens", &Usage::input_tokens),
                          field("output_tokens", &Usage::output_tokens),
                          field("cache_read_tokens", &Usage::cache_read_tokens),
                          field("cache_write_tokens", &Usage::cache_write_tokens));
    }
};

// Adds what counts against a budget: input and output as the provider counts them.
void add_paid_tokens(std::int64_t& total, const Usage& usage);

}  // namespace rouse
