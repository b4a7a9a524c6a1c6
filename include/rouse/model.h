#pragma once

// The model behind an agent. Providers live in their own headers; scripted_model.h has one that
// needs no key and plays a script.

#include <expected>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rouse/message.h"
#include "rouse/result.h"
#include "rouse/tool.h"

namespace rouse {

// The conversation in two parts, so that a long history is never copied: what was said before this
// turn, and the turn. Every tool call in it has its result, and it keeps the model's rules. Good
// until generate() returns.
struct ModelRequest {
    SessionId session_id;  // empty without a session
    std::string_view system;
    std::span<const Message> history;
    std::span<const Message> turn;
    std::span<const ToolSpec* const> tools;
};

struct ModelResponse {
    Content content;
    std::string model;
    std::string stop_reason;
    Usage usage;
    bool cut = false;  // ended before it was whole, by a limit say: its tool calls must not run
};

struct ModelError : Error {
    std::optional<Milliseconds> retry_after = {};  // as the provider asks

    ModelError() = default;
    ModelError(Error error) : Error(std::move(error)) {}  // NOLINT: an error is one
};

class [[nodiscard]] ModelResult : public std::expected<ModelResponse, ModelError> {
    using Base = std::expected<ModelResponse, ModelError>;

 public:
    using Base::Base;
    ModelResult() = default;
    ModelResult(Error error) : Base(std::unexpect, std::move(error)) {}  // NOLINT: as in Result
    ModelResult(ModelError error) : Base(std::unexpect, std::move(error)) {}  // NOLINT
};

// What a provider demands of a conversation. The agent mends what does not fit before it asks.
struct ConversationRules {
    bool checked = false;       // or nothing is looked at: the model takes anything
    bool alternates = false;    // user, assistant, user, …, a user first
    bool unique_calls = false;  // no call id twice in the whole conversation
    // Of blocks that only some provider knows; the others are left out.
    std::function<bool(std::string_view type)> takes_block = {};
};

class Model {
 public:
    virtual ~Model() = default;

    virtual ConversationRules rules() const { return {}; }

    // It answers by itself: nobody outside this process learns what it is asked.
    virtual bool stays_inside() const { return false; }

    // One answer. Text goes to `on_text` as it comes; an error from there ends the call with it.
    // Nothing of an answer that did not come to its end is given back.
    //   unavailable, timeout   may work later: the agent asks again
    //   invalid, denied        will not, with the provider's words
    using OnText = std::function<Result<void>(std::string_view)>;
    virtual Task<ModelResult> generate(ModelRequest request, const OnText& on_text) = 0;
};

}  // namespace rouse
