#pragma once

// The model behind an agent. Providers live in their own headers; scripted_model.h has one that
// needs no key and plays a script.

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rouse/message.h"
#include "rouse/result.h"
#include "rouse/tool.h"

namespace rouse {

// The conversation in two parts, so that a long history is never copied: what was said before this
// turn, and the turn. Every tool call in it has its result. Good until generate() returns.
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
};

class Model {
 public:
    virtual ~Model() = default;

    // One answer. Text goes to `on_text` as it comes; an error from there ends the call with it.
    //   unavailable, timeout   may work later
    //   invalid, denied        will not, with the provider's words
    using OnText = std::function<Result<void>(std::string_view)>;
    virtual Task<Result<ModelResponse>> generate(ModelRequest request, const OnText& on_text) = 0;
};

}  // namespace rouse
