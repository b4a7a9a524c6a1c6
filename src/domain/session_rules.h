#pragma once

// Making, changing, forking, compacting and deleting a session.

#include <optional>
#include <string>

#include "domain/rules.h"
#include "domain/transcript.h"

namespace rouse {

// invalid "nothing_to_update" when the command changes nothing.
Result<Records> plan_update(const SessionState& state, const SessionUpdated& update);

// The fork's first records: its own identity, the origin, and the conversation up to `at_seq`, with
// the summary of what the model is not shown any more.
// Calls that had no result by then are closed with an error; tokens, pending calls and mail stay
// behind.
Records plan_fork(const SessionCreated& fork, const ForkOrigin& origin,
                  const Transcript& source_up_to_seq);

// Everything before the last `keep_last` entries gives way to `summary` in the model's context.
// conflict "suspended_session": while it waits.  precondition "nothing_to_compact".
Result<Records> plan_compact(const SessionState& state, const Transcript& transcript,
                             std::size_t keep_last, const std::string& summary);

// What ends the session's log, and the tombstone for the system log; one commit.
struct DeletePlan {
    Records session;
    Records system;
};
// not_found "session_gone": deleted before.
Result<DeletePlan> plan_delete(const SessionState& state);

}  // namespace rouse
