#include "domain/run_rules.h"

#include <algorithm>

namespace rouse {
namespace {

void add(Records& records, std::optional<RecordBody> record) {
    if (record) records.push_back(*std::move(record));
}

Result<void> require_open(const SessionState& state, const RunId& run) {
    if (state.run_is_open() && state.run->run_id == run) return {};
    return Error(ErrorKind::precondition, "not_running",
                 "run " + run.text() + " has ended; look at the session's status");
}

// The run belongs to whoever asked for it.
void attribute(RunStarted& run, const AskedBy& asked) {
    run.parent_run = asked.run_id;
    if (asked.hops < run.hops) return;
    run.chain_id = asked.chain_id;
    run.hops = asked.hops;
}

MessagePlan start_run(const SessionState& state, const MessageCommand& command) {
    MessagePlan plan;
    plan.run_id = command.new_run;
    plan.started = true;
    if (state.run_is_open()) {
        for (const PendingCall& call : state.pending) {
            if (is_open(call.status)) plan.superseded.push_back(call.pending_id);
        }
        close_calls(state, "superseded", "Superseded by a new message", plan.records);
        add(plan.records, revoke_open_token(state, "superseded"));
        plan.records.emplace_back(RunCancelled{state.run->run_id, "superseded", {}});
    } else {
        close_calls(state, "interrupted", kOutcomeUnknown, plan.records);
    }
    plan.records.emplace_back(command.message);
    RunStarted started{command.new_run, command.boot, {}, {}};
    if (command.message.asked_by) attribute(started, *command.message.asked_by);
    plan.records.emplace_back(std::move(started));
    return plan;
}

MessagePlan queue_message(const SessionState& state, const MessageCommand& command) {
    MessagePlan plan;
    plan.run_id = state.run->run_id;
    plan.queued = true;
    MessageUser message = command.message;
    message.queued = true;
    plan.records.emplace_back(std::move(message));
    return plan;
}

// On a user_input wait a message is the answer.
MessagePlan answer_wait(const SessionState& state, const MessageCommand& command) {
    const Wait& wait = *state.run->wait;
    MessagePlan plan;
    plan.run_id = state.run->run_id;
    plan.resumed = true;
    plan.records.emplace_back(command.message);
    plan.records.emplace_back(
        TokenConsumed{wait.resume_token_id, wait.wait_id, ResumeReason::input, {}, {}});
    plan.records.emplace_back(
        RunResumed{state.run->run_id, command.boot, wait.wait_id, ResumeReason::input, {}});
    return plan;
}

}  // namespace

Result<MessagePlan> plan_message(const SessionState& state, const MessageCommand& command) {
    if (Result<void> live = require_live(state); !live) return live.error();
    if (!state.run_is_open()) return start_run(state, command);
    if (!state.is_parked()) {
        if (command.on_running == OnRunning::queue) return queue_message(state, command);
        return Error(
            ErrorKind::conflict, "session_busy",
            "a run is in progress; wait for it, cancel it, or send with on_running: queue");
    }
    if (state.run->wait->kind == WaitKind::user_input) {
        const bool too_late = wait_is_over(state, command.now);
        return too_late ? start_run(state, command) : answer_wait(state, command);
    }
    switch (command.on_waiting) {
        case OnWaiting::supersede: return start_run(state, command);
        case OnWaiting::queue: return queue_message(state, command);
        case OnWaiting::reject: break;
    }
    return Error(ErrorKind::conflict, "input_on_suspended_session",
                 "the session waits for tool results; resume it with them, cancel it, or send the "
                 "message with on_waiting: supersede");
}

Result<Records> plan_continue(const SessionState& state, const RunId& new_run, const BootId& boot) {
    if (Result<void> live = require_live(state); !live) return live.error();
    if (!state.run || state.run->outcome != RunOutcome::interrupted) {
        return Error(ErrorKind::precondition, "not_interrupted",
                     "the session is not interrupted; send it a message instead");
    }
    const Run& left = *state.run;
    return Records{
        RunStarted{new_run, boot, left.run_id, left.chain_id, left.hops, left.parent_run, {}}};
}

Result<Records> plan_complete(const SessionState& state, const RunId& run) {
    if (Result<void> open = require_open(state, run); !open) return open.error();
    if (state.is_parked()) {
        return Error(ErrorKind::conflict, "suspended_session",
                     "run " + run.text() + " waits; it completes after it was resumed");
    }
    const bool settled = std::ranges::all_of(
        state.calls, [](const TurnCall& call) { return call.phase == CallPhase::settled; });
    if (!settled || state.open_calls() > 0) {
        return Error(ErrorKind::conflict, "open_calls",
                     "a tool call of run " + run.text() + " has no result yet");
    }
    return Records{RunCompleted{run, {}}};
}

Result<Records> plan_fail(const SessionState& state, const RunId& run, std::string_view reason,
                          std::string_view error) {
    if (Result<void> open = require_open(state, run); !open) return open.error();
    Records records;
    close_calls(state, "failed", "The run failed: " + std::string(error), records);
    add(records, revoke_open_token(state, "failed"));
    records.emplace_back(RunFailed{run, std::string(reason), std::string(error), {}});
    return records;
}

std::optional<RecordBody> plan_next_run(const SessionState& ended, const RunId& new_run,
                                        const BootId& boot) {
    if (ended.deleted || ended.run_is_open()) return std::nullopt;
    if (ended.run && ended.run->outcome == RunOutcome::interrupted) return std::nullopt;
    if (ended.queued == 0) return std::nullopt;
    RunStarted started{new_run, boot, {}, {}};
    for (const AskedBy& asked : ended.queued_asks)
        attribute(started, asked);
    // What a person asks for too is not the parent's to give up.
    if (ended.queued > ended.queued_asks.size()) started.parent_run = {};
    return started;
}

Result<Records> plan_cancel(const SessionState& state, CancelMode mode, const BootId& boot) {
    if (Result<void> live = require_live(state); !live) return live.error();
    if (!state.run_is_open()) {
        return Error(ErrorKind::precondition, "not_running", "there is no run to cancel");
    }
    Records records;
    if (mode == CancelMode::acknowledge && !state.is_parked()) {
        return Error(ErrorKind::conflict, "session_busy",
                     "acknowledge is for a session that waits: its open calls get errors and the "
                     "agent answers. A run that works can be cancelled with discard");
    }
    // Without a call there is nothing that the agent could be told: a budget is spent, and it would
    // only wait again.
    if (mode == CancelMode::acknowledge && state.open_calls() > 0) {
        const Wait& wait = *state.run->wait;
        close_calls(state, "cancelled", kCancelledByUser, records);  // approved ones must not run
        records.emplace_back(
            TokenConsumed{wait.resume_token_id, wait.wait_id, ResumeReason::cancelled, {}, {}});
        records.emplace_back(
            RunResumed{state.run->run_id, boot, wait.wait_id, ResumeReason::cancelled, {}});
        return records;
    }
    close_calls(state, "cancelled", kCancelledByUser, records);
    add(records, revoke_open_token(state, "cancelled"));
    records.emplace_back(RunCancelled{state.run->run_id, "cancelled", {}});
    return records;
}

}  // namespace rouse
