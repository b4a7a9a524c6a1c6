#pragma once

// How a run parks and how it goes on: pending calls, their results, deadlines, leases, and the two
// doors through which a result may come (the pending id, or the wait's resume token). Both doors
// end in the same records, and the first commit wins.

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "domain/rules.h"
#include "domain/token_rules.h"

namespace rouse {

// ---- parking --------------------------------------------------------------------------------

struct ParkCommand {
    RunId run_id;
    WaitId wait_id;
    NewToken token;
    std::vector<PendingCreated> calls;     // that are not in the log yet
    bool for_user_input = false;           // waits for a message instead of calls
    std::optional<Timestamp> deadline_at;  // with for_user_input; else it follows from the calls
    std::string prompt = {};               // the same
};

// Empty when nothing is left to wait for: all results are there, and the turn goes on.
// precondition: not_running.
Result<Records> plan_park(const SessionState& state, const ParkCommand& command);

// ---- settling one call ----------------------------------------------------------------------

struct CallFailure {
    std::string error;
};
struct CallCancelled {};
using Settlement = std::variant<ToolResult, CallFailure, CallCancelled>;

struct SettlePlan {
    Records records;         // empty for a duplicate
    bool duplicate = false;  // the same answer was given before
    bool resumed = false;    // it was the last open call
};

// By the pending id.
//   not_found     unknown_pending_id: not among the calls of the latest wait (history.h has the
//   rest) conflict      conflicting_result: settled before with another result precondition
//   not_waiting: expired, cancelled, or the wait's deadline has passed precondition
//   decision_required: the call asks for approval, not for a result
Result<SettlePlan> plan_settle(const SessionState& state, const PendingId& pending_id,
                               const Settlement& settlement, const BootId& boot, Timestamp now);

// What a call settled as `status` with `digest` answers to `settlement`: duplicate or refusal.
Result<SettlePlan> answer_settled(PendingStatus status, std::string_view digest,
                                  const Settlement& settlement);

// ---- approval -------------------------------------------------------------------------------

struct Decision {
    bool approve = false;
    RawJson input;             // the edited input, if any
    std::string input_digest;  // what the person saw; checked when given
    std::string message;       // for a denial
};

// conflict: digest_mismatch. Otherwise as plan_settle; not_waiting also when it asks for no
// approval.
Result<SettlePlan> plan_decide(const SessionState& state, const PendingId& pending_id,
                               const Decision& decision, const BootId& boot, Timestamp now);

// ---- the wait's own door --------------------------------------------------------------------

struct ResumeCommand {
    std::optional<PresentedToken> token;  // absent only for callers who may do without
    std::vector<std::pair<CallId, ToolResult>> results;
    BootId boot;
    std::optional<MessageUser> input = {};  // what a wait for a person's words waits for
};

struct ResumePlan {
    Records records;
    std::vector<CallId> remaining;
    bool duplicate = false;
    bool resumed = false;
};

// All or nothing: one bad call id and no result is taken.
//   precondition  no_suspended_turn | resume_required | token_…
//   conflict      unknown_pending_tool_call | conflicting_result | input_on_suspended_session
//   denied        invalid_token
Result<ResumePlan> plan_resume(const SessionState& state, const ResumeCommand& command,
                               Timestamp now);

// precondition: no_suspended_turn.
Result<Records> plan_rotate_token(const SessionState& state, const NewToken& token);

// Moves the wait, its open calls and its token to `deadline_at`. invalid "invalid_deadline": in the
// past. precondition: no_suspended_turn.
Result<Records> plan_extend(const SessionState& state, Timestamp deadline_at, Timestamp now);

// ---- workers --------------------------------------------------------------------------------

// conflict: lease_held. precondition: not_waiting. not_found: unknown_pending_id.
Result<Records> plan_claim(const SessionState& state, const PendingId& pending_id,
                           std::string_view worker, Timestamp lease_until, Timestamp now);
Result<Records> plan_release(const SessionState& state, const PendingId& pending_id,
                             std::string_view worker);

// ---- time -----------------------------------------------------------------------------------

// What is due at `now`, in the order of its times, a call before its wait. Empty: nothing is.
Records plan_due(const SessionState& state, const BootId& boot, Timestamp now);

// The calls of which most of the time is over and nobody was told.
Records plan_warnings(const SessionState& state, Timestamp now);

}  // namespace rouse
