#include "agent/recovery_manager.h"

#include <algorithm>

#include "domain/fold.h"
#include "domain/recovery_plan.h"

namespace rouse {
namespace {

bool is_expiry(const RecordBody& record) {
    return std::holds_alternative<PendingExpired>(record);
}

void count(const RecoveryPlan& plan, const SessionId& id, BootReport& report) {
    switch (plan.action) {
        case RecoveryAction::interrupted:
            ++report.interrupted;
            report.to_continue.push_back(id);
            break;
        case RecoveryAction::redriven:
        case RecoveryAction::resumed: report.to_drive.push_back(id); break;
        case RecoveryAction::parked:
        case RecoveryAction::repaired:
        case RecoveryAction::none: ++report.waiting; break;
    }
}

}  // namespace

// Most sessions with an open run are parked and untouched by the restart: their row alone says so.
bool RecoveryManager::needs_attention(const SessionSummary& session, const BootId& boot,
                                      Timestamp now) const {
    if (session.run.phase == RunPhase::active) return session.run.boot_id != boot;
    for (const PendingSummary& call : session.pending) {
        if (call.local || call.status == PendingStatus::processing) return true;
    }
    const std::optional<Timestamp> due = next_due(session);
    return due && std::max(now, session.updated_at) >= *due;
}

Result<void> RecoveryManager::recover_session(const SessionId& id, BootReport& report) {
    IdSource ids(env_.clock, env_.random);
    const Result<std::shared_ptr<const SessionState>> state = store_.load(id);
    if (!state && state.error().kind == ErrorKind::corrupt) {
        report.set_aside.push_back(id);
        return {};
    }
    if (!state) return state.error();
    const Secret unseen =
        ids.secret();  // nobody gets to see it: a rotation mints one that is shown
    const BootFacts facts{report.boot,
                          env_.clock.now(),
                          ids.make<WaitId>(),
                          {ids.make<TokenId>(), hash_of_secret(unseen)}};
    RecoveryPlan plan = plan_recovery(**state, facts);
    // What ran in the process that died is settled, too, and did not expire.
    const bool expired =
        plan.action == RecoveryAction::resumed && std::ranges::any_of(plan.records, is_expiry);
    if (plan.records.empty()) {
        count(plan, id, report);
        return {};
    }
    SessionState after = **state;
    for (const RecordBody& record : plan.records)
        fold(after, RecordView(after.last_seq + 1, clamped(after, facts.now), record));
    Commit commit = make_commit(id, (*state)->last_seq, std::move(plan.records));
    commit.urgency = Urgency::may_use_reserve;
    Companions::Then then;
    if (companions_ != nullptr) {
        Result<Companions::Then> joined = companions_->join(after, commit);
        if (!joined) return joined.error();
        then = *std::move(joined);
    }
    const Result<Committed> committed = store_.commit_and_wait(std::move(commit));
    if (!committed) return committed.error();
    if (then) then();
    count(plan, id, report);
    if (expired) ++report.expired;
    return {};
}

Result<BootReport> RecoveryManager::recover(const BootId& boot, const Meet& meet) {
    BootReport report;
    report.boot = boot;
    report.started_at = env_.clock.now();
    Commit started = make_commit(system_log(), std::nullopt, {BootStarted{boot, {}, {}}});
    started.urgency = Urgency::may_use_reserve;
    Result<Committed> committed = store_.commit_and_wait(std::move(started));
    if (!committed) return committed.error();

    std::vector<SessionId> work;
    store_.visit_active([&](const SessionSummary& session) {
        if (meet) meet(session);
        if (needs_attention(session, boot, report.started_at)) {
            work.push_back(session.id);
        } else {
            ++report.waiting;
        }
    });
    for (const SessionId& id : work) {
        if (Result<void> done = recover_session(id, report); !done) return done.error();
    }

    Commit recovered = make_commit(system_log(), std::nullopt,
                                   {BootRecovered{boot,
                                                  report.waiting,
                                                  report.expired,
                                                  report.interrupted,
                                                  report.to_drive.size(),
                                                  report.set_aside,
                                                  {}}});
    recovered.urgency = Urgency::may_use_reserve;
    committed = store_.commit_and_wait(std::move(recovered));
    if (!committed) return committed.error();
    report.took = env_.clock.now() - report.started_at;
    env_.log.info("boot.recovered", {{"boot", boot.text()},
                                     {"waiting", report.waiting},
                                     {"expired", report.expired},
                                     {"interrupted", report.interrupted},
                                     {"to_drive", report.to_drive.size()},
                                     {"set_aside", report.set_aside.size()}});
    return report;
}

}  // namespace rouse
