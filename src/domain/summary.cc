#include "domain/summary.h"

#include <algorithm>

namespace rouse {
namespace {

RunPhase phase_of(const SessionState& state) {
    if (!state.run) return RunPhase::none;
    if (!state.run->outcome) return state.run->wait ? RunPhase::parked : RunPhase::active;
    switch (*state.run->outcome) {
        case RunOutcome::completed: return RunPhase::completed;
        case RunOutcome::failed: return RunPhase::failed;
        case RunOutcome::cancelled: return RunPhase::cancelled;
        case RunOutcome::interrupted: return RunPhase::interrupted;
    }
    return RunPhase::none;
}

}  // namespace

RunFacts run_facts(const SessionState& state) {
    RunFacts facts;
    facts.phase = phase_of(state);
    if (!state.run) return facts;
    facts.boot_id = state.run->boot_id;
    if (state.run->wait) {
        facts.deadline_at = state.run->wait->deadline_at;
        if (const Token* token = state.find_token(state.run->wait->resume_token_id)) {
            facts.token = token->status;
            facts.token_expires_at = token->expires_at;
        }
    }
    if (state.recovery.interruption) facts.interrupted = state.recovery.interruption->reason;
    return facts;
}

SessionSummary summarize(const SessionState& state) {
    SessionSummary row;
    row.id = state.id;
    row.last_seq = state.last_seq;
    row.created_at = state.created_at;
    row.updated_at = state.updated_at;
    row.title = state.title;
    row.agent = state.agent;
    row.task_id = state.task_id;
    row.alias = state.alias;
    row.external_id = state.external_id;
    if (state.parent) row.parent = state.parent->session_id;
    row.run = run_facts(state);
    if (state.run && state.run->wait) row.wait_kind = state.run->wait->kind;
    row.redrive = state.run_is_open() && state.run->resume_unapplied;
    for (const PendingCall& call : state.pending) {
        if (!is_open(call.status)) continue;
        row.pending.push_back({call.pending_id, call.tool, call.status, call.waits_for,
                               call.created_at, call.expires_at, call.lease_until,
                               !call.local_boot.empty(), call.warned});
    }
    return row;
}

std::optional<Timestamp> next_due(const SessionSummary& summary) {
    std::optional<Timestamp> due;
    const auto consider = [&](const std::optional<Timestamp>& at) {
        if (at && (!due || *at < *due)) due = at;
    };
    if (!summary.is_active()) return due;
    consider(summary.run.deadline_at);
    for (const PendingSummary& call : summary.pending) {
        consider(call.expires_at);
        consider(call.lease_until);
    }
    return due;
}

std::optional<Timestamp> next_warning(const SessionSummary& summary) {
    std::optional<Timestamp> next;
    if (summary.run.phase != RunPhase::parked) return next;
    for (const PendingSummary& call : summary.pending) {
        const std::optional<Timestamp> at = warning_time(call.created_at, call.expires_at);
        if (!call.warned && at && (!next || *at < *next)) next = at;
    }
    return next;
}

}  // namespace rouse
