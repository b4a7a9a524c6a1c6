#pragma once

// When a run starts, ends, is cancelled or goes on.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "domain/rules.h"
#include "domain/token_rules.h"

namespace rouse {

// What a new user message does to a session that waits, or works.
enum class OnWaiting : std::uint8_t { supersede, reject, queue };
enum class OnRunning : std::uint8_t { queue, reject };

struct MessageCommand {
    MessageUser message;
    RunId new_run;
    BootId boot;
    OnWaiting on_waiting = OnWaiting::supersede;
    OnRunning on_running = OnRunning::queue;
    Timestamp now{};
};

struct MessagePlan {
    Records records;
    RunId run_id;          // the run that will read the message
    bool started = false;  // a new run
    bool resumed = false;  // the message was what the run waited for
    bool queued = false;
    std::vector<PendingId> superseded;
};

// conflict: session_busy | input_on_suspended_session. not_found: session_gone.
Result<MessagePlan> plan_message(const SessionState& state, const MessageCommand& command);

// An interrupted session goes on from its last durable step. precondition: not_interrupted.
Result<Records> plan_continue(const SessionState& state, const RunId& new_run, const BootId& boot);

// precondition "not_running": that run is not open any more. conflict "open_calls": completing a
// turn while a call has no result; "suspended_session": while it waits.
Result<Records> plan_complete(const SessionState& state, const RunId& run);
Result<Records> plan_fail(const SessionState& state, const RunId& run, std::string_view reason,
                          std::string_view error);

// The run that reads what was queued: goes into the commit that ends the run before it. Nothing
// when no message is queued.
std::optional<RecordBody> plan_next_run(const SessionState& ended, const RunId& new_run,
                                        const BootId& boot);

// discard closes the turn without another model call; acknowledge gives a parked run its open calls
// back as errors, and the agent answers once.
enum class CancelMode : std::uint8_t { discard, acknowledge };
Result<Records> plan_cancel(const SessionState& state, CancelMode mode, const BootId& boot);

}  // namespace rouse
