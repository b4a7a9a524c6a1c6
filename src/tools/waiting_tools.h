#pragma once

// Tools that do nothing but wait: for whoever answers, for a time, for another session. None of
// them reaches the outside, so the commit of the suspension is all that starts them.

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "domain/child.h"
#include "rouse/tool.h"

namespace rouse {

// Suspends and calls nobody: workers pull it, or systems or people answer.
std::shared_ptr<Tool> external_tool(ToolSpec spec, WaitsFor waits_for);

// wait_until{at|seconds}
std::shared_ptr<Tool> wait_until_tool(Clock& clock);

// start_session{agent, message, session_id?, wait?}. `plan` says whether the child may be started,
// and under which id; a known session_id is continued.
struct ChildQuestion {
    SessionId parent;
    std::string agent;
    std::string message;
    std::optional<SessionId> session_id;
};
using PlanChild = std::function<Result<ChildWish>(const ChildQuestion&)>;
std::shared_ptr<Tool> start_session_tool(PlanChild plan);

}  // namespace rouse
