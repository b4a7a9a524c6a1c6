#pragma once

// Sessions that agents start. The tool only says what it wants: the child is made by the very
// commit that records the call, and the child's end settles that call by the commit that ends it.

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "domain/rules.h"
#include "domain/state.h"

namespace rouse {

// What start_session leaves in the metadata of its call or result.
struct ChildWish {
    SessionId session_id;
    std::string agent;
    std::string message;
    bool continues = false;  // a session that is there already
    friend bool operator==(const ChildWish&, const ChildWish&) = default;
    static constexpr auto fields() {
        using S = ChildWish;
        return std::tuple(required("session_id", &S::session_id), field("agent", &S::agent),
                          required("message", &S::message), field("continues", &S::continues));
    }
};
inline constexpr std::string_view kStartSessionTool = "start_session";
inline constexpr std::string_view kChildWish = "start_session";  // the member that holds it

RawJson wish_metadata(const ChildWish& wish);
std::optional<ChildWish> read_wish(const RawJson& metadata);

// What the parent is told: the child's last words and how to go on with it.
ToolResult child_result(const SessionId& child, std::string_view text);
std::string child_error(const SessionId& child, std::string_view what);

// The run that this record gives up: the children that it asked have nobody to answer.
const RunId* given_up_run(const RecordBody& record);

// A run with the interrupted ones that it goes on from: what those asked for is its own to give up.
std::set<RunId> with_those_it_continues(const std::vector<Record>& log, const RunId& run);

// The parent's open calls that the end of the child's run answers: not those whose message still
// waits for a run to read it.
std::vector<PendingId> find_answered_calls(const SessionState& parent, const SessionState& child);

}  // namespace rouse
