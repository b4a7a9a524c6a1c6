#include "domain/status.h"

#include <algorithm>

namespace rouse {
namespace {

bool has_passed(const std::optional<Timestamp>& at, Timestamp now) {
    return at && now >= *at;
}

BoardState board_state(SessionStatus status, RunPhase phase) {
    switch (status) {
        case SessionStatus::running: return BoardState::running;
        case SessionStatus::waiting: return BoardState::waiting_for_input;
        case SessionStatus::interrupted_startup:
        case SessionStatus::interrupted_waiting: return BoardState::error;
        case SessionStatus::idle: break;
    }
    switch (phase) {
        case RunPhase::completed: return BoardState::completed;
        case RunPhase::failed: return BoardState::error;
        case RunPhase::cancelled: return BoardState::cancelled;
        default: return BoardState::created;
    }
}

Activity activity_of(const SessionState& state, SessionStatus status) {
    Activity activity;
    if (status == SessionStatus::running) {
        activity.type = state.run->retry ? ActivityType::retry : ActivityType::busy;
        activity.retry = state.run->retry;
    } else if (status == SessionStatus::waiting) {
        const auto open = [](const PendingCall& call) { return is_open(call.status); };
        const auto oldest = std::ranges::find_if(state.pending, open);
        if (oldest == state.pending.end()) return activity;
        activity.type = ActivityType::waiting_async;
        activity.pending_id = oldest->pending_id;
        activity.tool = oldest->tool;
        activity.since = oldest->created_at;
        activity.timeout = oldest->expires_at;
    }
    return activity;
}

}  // namespace

SessionStatus project_status(const RunFacts& run, const BootId& boot, Timestamp now) {
    switch (run.phase) {
        case RunPhase::none:
        case RunPhase::completed:
        case RunPhase::failed:
        case RunPhase::cancelled: return SessionStatus::idle;
        case RunPhase::interrupted:
            return run.interrupted == InterruptReason::wait_timeout
                       ? SessionStatus::interrupted_waiting
                       : SessionStatus::interrupted_startup;
        case RunPhase::parked: {
            // A parked run needs no process, so its boot does not matter.
            const bool resumable = run.token == TokenStatus::active &&
                                   !has_passed(run.token_expires_at, now) &&
                                   !has_passed(run.deadline_at, now);
            return resumable ? SessionStatus::waiting : SessionStatus::interrupted_waiting;
        }
        case RunPhase::active:
            // What was computing when its process died cannot still be running.
            return run.boot_id == boot ? SessionStatus::running
                                       : SessionStatus::interrupted_startup;
    }
    return SessionStatus::idle;
}

SessionView project(const SessionState& state, const BootId& boot, Timestamp now) {
    const RunFacts run = run_facts(state);
    SessionView view;
    view.status = project_status(run, boot, clamped(state, now));
    view.state = board_state(view.status, run.phase);
    view.activity = activity_of(state, view.status);
    view.seq = state.last_seq;
    return view;
}

}  // namespace rouse
