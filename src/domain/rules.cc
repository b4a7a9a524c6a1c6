#include "domain/rules.h"

#include "domain/status.h"

namespace rouse {

void close_calls(const SessionState& state, std::string_view reason, std::string_view error,
                 Records& records) {
    for (const PendingCall& call : state.pending) {
        if (!is_open(call.status)) continue;
        records.emplace_back(PendingCancelled{
            call.pending_id, call.call_id, std::string(reason), std::string(error), {}});
    }
    for (const TurnCall& call : state.calls) {
        if (call.phase == CallPhase::pending || call.phase == CallPhase::settled) continue;
        records.emplace_back(ToolFailed{call.call_id, std::string(error), std::string(reason), {}});
    }
}

bool wait_is_over(const SessionState& state, Timestamp now) {
    return state.is_parked() &&
           project(state, state.run->boot_id, now).status != SessionStatus::waiting;
}

Result<void> require_live(const SessionState& state) {
    if (!state.deleted) return {};
    return Error(ErrorKind::not_found, "session_gone", "the session was deleted");
}

}  // namespace rouse
