#include "domain/recovery_plan.h"

#include <algorithm>

#include "base/digest.h"
#include "base/limits.h"
#include "domain/fold.h"
#include "domain/wait_rules.h"

namespace rouse {
namespace {

// Appends to the plan and to a copy of the state, so that the next rule sees what was planned.
class Planner {
 public:
    Planner(const SessionState& state, Timestamp now) : state_(state), now_(clamped(state, now)) {}

    void add(Records records) {
        for (RecordBody& body : records) {
            fold(state_, RecordView(state_.last_seq + 1, now_, body));
            plan_.records.push_back(std::move(body));
        }
    }
    const SessionState& state() const { return state_; }
    Timestamp now() const { return now_; }

    RecoveryPlan finish(RecoveryAction action) {
        plan_.action = action;
        return std::move(plan_);
    }
    bool empty() const { return plan_.records.empty(); }

 private:
    SessionState state_;
    Timestamp now_;
    RecoveryPlan plan_;
};

RecordBody interrupted(const SessionState& state, InterruptReason reason) {
    const bool exhausted = state.recovery.in_a_row + 1 >= limits::kInterruptionsInARow;
    return RunInterrupted{state.run->run_id, reason, exhausted, {}};
}

// A call that takes its process along each time is given up at last.
bool may_repeat(const SessionState& state, const PendingCall& call) {
    const auto known = std::ranges::find(state.calls, call.call_id, &TurnCall::call_id);
    return call.repeat_if_unknown && known != state.calls.end() &&
           known->repeats < limits::kInterruptionsInARow;
}

// No lease survives the process that gave it, nor does a call that ran inside that process.
Records release_calls(const SessionState& state, const BootId& boot, Timestamp now) {
    Records records;
    for (const PendingCall& call : state.pending) {
        if (!is_open(call.status)) continue;
        const bool lost = !call.local_boot.empty() && call.local_boot != boot;
        if (lost && may_repeat(state, call)) {
            if (call.expires_at && *call.expires_at <= now) continue;  // due like any other
            records.emplace_back(PendingApproved{
                call.pending_id, call.call_id, call.input_digest, {}, "process_restart", {}});
        } else if (lost && call.ask_if_unknown) {
            PendingWaiting asks{call.pending_id, "outcome_unknown", {}, {}, {}, {}, {}, {}};
            asks.prompt = lost_call_question(call.tool);
            records.emplace_back(std::move(asks));
        } else if (lost) {
            records.emplace_back(PendingFailed{call.pending_id,
                                               call.call_id,
                                               std::string(kOutcomeUnknown),
                                               sha256_hex(kOutcomeUnknown),
                                               {}});
        } else if (call.status == PendingStatus::processing) {
            records.emplace_back(
                PendingWaiting{call.pending_id, "process_restart", {}, {}, {}, {}, {}, {}});
        }
    }
    return records;
}

RecoveryPlan recover_parked(Planner planner, const BootFacts& facts) {
    planner.add(release_calls(planner.state(), facts.boot, planner.now()));
    if (planner.state().open_calls() == 0 && !planner.empty()) {
        const Wait wait = *planner.state().run->wait;
        const RunId run = planner.state().run->run_id;
        planner.add(
            {TokenConsumed{wait.resume_token_id, wait.wait_id, ResumeReason::result, {}, {}},
             RunResumed{run, facts.boot, wait.wait_id, ResumeReason::result, {}}});
        return planner.finish(RecoveryAction::resumed);
    }
    planner.add(plan_due(planner.state(), facts.boot, planner.now()));
    if (planner.empty()) return planner.finish(RecoveryAction::none);
    const SessionState& after = planner.state();
    if (after.run_is_open() && !after.run->wait) return planner.finish(RecoveryAction::resumed);
    return planner.finish(after.run_is_open() ? RecoveryAction::repaired
                                              : RecoveryAction::interrupted);
}

}  // namespace

RecoveryPlan plan_recovery(const SessionState& state, const BootFacts& facts) {
    Planner planner(state, facts.now);
    if (state.deleted || !state.run_is_open()) return planner.finish(RecoveryAction::none);
    if (state.is_parked()) return recover_parked(std::move(planner), facts);
    if (state.run->boot_id == facts.boot) return planner.finish(RecoveryAction::none);

    planner.add(release_calls(state, facts.boot, planner.now()));
    if (state.run->resume_unapplied) {
        planner.add({RunRedriven{state.run->run_id, facts.boot, {}}});
        return planner.finish(RecoveryAction::redriven);
    }
    if (planner.state().open_calls() > 0) {
        Result<Records> parked = plan_park(
            planner.state(),
            ParkCommand{
                state.run->run_id, facts.spare_wait, facts.spare_token, {}, false, std::nullopt});
        if (parked) planner.add(*std::move(parked));
        planner.add(plan_due(planner.state(), facts.boot, planner.now()));
        const bool waits = planner.state().is_parked();
        return planner.finish(waits ? RecoveryAction::parked : RecoveryAction::resumed);
    }
    planner.add({interrupted(planner.state(), InterruptReason::process_restart),
                 StatusDerived{SessionStatus::interrupted_startup, {}}});
    return planner.finish(RecoveryAction::interrupted);
}

std::string lost_call_question(const std::string& tool) {
    return "The process died while " + tool + " ran, and it may have done its work. How did it go?";
}

Records plan_shutdown(const SessionState& state) {
    if (!state.run_is_open() || state.is_parked() || state.run->resume_unapplied) return {};
    if (state.open_calls() > 0) return {};  // the next boot parks it on its calls
    return {interrupted(state, InterruptReason::process_exit),
            StatusDerived{SessionStatus::interrupted_startup, {}}};
}

}  // namespace rouse
