#pragma once

// The tool by which agents write to one another. It only says what it wants: the letter goes out
// with the commit that records the call.

#include <functional>
#include <memory>

#include "domain/mail.h"
#include "rouse/tool.h"

namespace rouse {

struct BroadcastQuestion {
    SessionId from;
    std::string message;
    std::string to;
    std::string reply_to;
    std::optional<bool> resume;
    bool wait = false;
};
using PlanLetter = std::function<Result<Letter>(const BroadcastQuestion&)>;

// `timeout` is how long an answer is waited for.
std::shared_ptr<Tool> broadcast_tool(PlanLetter plan, std::optional<Milliseconds> timeout);

}  // namespace rouse
