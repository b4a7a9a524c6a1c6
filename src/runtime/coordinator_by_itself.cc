// What the coordinator does though nobody asks: at the boot, when something is due, for children
// whose parent gave up.

#include <algorithm>

#include "domain/child.h"
#include "domain/fold.h"
#include "domain/status.h"
#include "runtime/coordinator.h"

namespace rouse {
namespace {

// A sweep that the store refused is tried again so much later.
constexpr std::chrono::seconds kSweepAgain{1};

// Interrupted, and nobody will go on with it by itself.
bool is_given_up(const SessionState& state) {
    const std::optional<Interruption>& interruption = state.recovery.interruption;
    if (state.run_is_open() || !interruption) return false;
    return interruption->exhausted || interruption->reason == InterruptReason::wait_timeout;
}

bool gives_up(const Record& record) {
    return std::holds_alternative<RunCancelled>(record.body) ||
           std::holds_alternative<RunFailed>(record.body);
}

}  // namespace

Task<void> Coordinator::remove_finished(Milliseconds after) {
    SessionFilter filter;
    filter.status = SessionStatus::idle;
    filter.boot = parts_.boot;
    filter.now = now();
    filter.limit = std::numeric_limits<std::size_t>::max();
    for (const SessionSummary& session : parts_.store->list(filter)) {
        if (session.updated_at + after > now()) continue;
        const Result<Reply> removed = co_await remove(session.id);
        if (removed || removed.error().reason == "session_gone") continue;
        parts_.env.log.warn("retention.failed",
                            {{"session", session.id.text()}, {"error", removed.error().message}});
    }
}

Task<void> Coordinator::sweep(SessionId id) {
    const Plan plan = [this](const SessionState& state) -> Result<Change> {
        Change change;
        change.records = plan_due(state, parts_.boot, now());
        if (change.records.empty() && parts_.companions.wants_warnings()) {
            change.records = plan_warnings(state, now());
        }
        change.urgency = Urgency::may_use_reserve;
        change.run = run_of(state);
        SessionState after = state;
        for (const RecordBody& record : change.records)
            fold(after, RecordView(after.last_seq + 1, clamped(after, now()), record));
        change.drive = state.is_parked() && after.run_is_open() && !after.is_parked();
        change.stop = state.run_is_open() && !after.run_is_open();
        return change;
    };
    const Result<Reply> swept = co_await change(id, plan, kNoNote);
    if (!swept) {
        parts_.env.log.warn("sweep.failed",
                            {{"session", id.text()}, {"error", swept.error().message}});
        const bool is_there =
            swept.error().kind != ErrorKind::not_found && swept.error().kind != ErrorKind::corrupt;
        if (is_there) parts_.sweeper.set(id, now() + kSweepAgain);
        co_return;
    }
    // Nothing was due after all, or not everything: look at it again in time.
    const Result<std::shared_ptr<const SessionState>> state = parts_.store->load(id);
    if (state) parts_.sweeper.set(id, parts_.companions.due_of(summarize(**state)));
}

Task<void> Coordinator::cancel_children(SessionId parent) {
    SessionFilter filter;
    filter.parent = parent;
    filter.limit = std::numeric_limits<std::size_t>::max();
    for (const SessionSummary& child : parts_.store->list(filter)) {
        if (!child.is_active()) continue;
        const Result<Reply> cancelled = co_await cancel(child.id, CancelMode::discard, kNoNote);
        if (cancelled || cancelled.error().reason == "not_running") continue;
        parts_.env.log.warn("child.not_cancelled",
                            {{"session", child.id.text()}, {"error", cancelled.error().message}});
    }
}

std::vector<SessionId> Coordinator::left_behind(ResumePolicy policy) {
    SessionFilter filter;
    filter.status = SessionStatus::interrupted_startup;
    filter.boot = parts_.boot;
    filter.now = now();
    filter.limit = std::numeric_limits<std::size_t>::max();
    const std::optional<Timestamp> continued =
        parts_.system.ask([](const SystemState& state) { return state.continued_at; });
    std::vector<SessionId> left;
    for (const SessionSummary& session : parts_.store->list(filter)) {
        // An earlier boot may have died before it came to them.
        const bool not_looked_at = !continued || session.updated_at > *continued;
        const bool shut_down = session.run.interrupted == InterruptReason::process_exit;
        if (shut_down || not_looked_at || policy == ResumePolicy::all) left.push_back(session.id);
    }
    return left;
}

void Coordinator::meet(const SessionSummary& session) {
    if (const auto due = parts_.companions.due_of(session)) parts_.sweeper.set(session.id, due);
    if (!session.parent.empty()) met_parents_.push_back(session.parent);
    const bool asks = std::ranges::any_of(session.pending, [](const PendingSummary& call) {
        return call.waits_for == WaitsFor::child;
    });
    if (asks) met_askers_.push_back(session.id);
}

Task<void> Coordinator::start(BootReport report, ResumePolicy policy) {
    parts_.sweeper.start();
    for (const SessionId& session : report.to_drive)
        parts_.driver.drive(session);
    if (policy != ResumePolicy::off) {
        std::vector<SessionId> left = left_behind(policy);
        co_await continue_all(std::move(left));
    }
    std::vector<SessionId> parents = std::move(met_parents_);
    co_await cancel_orphans(std::move(parents));
    std::vector<SessionId> askers = std::move(met_askers_);
    co_await answer_for_lost_children(std::move(askers));
    RecordBody continued = to_record(BootContinued{report.boot});
    const Result<void> noted = co_await parts_.system.append(std::move(continued));
    if (!noted) parts_.env.log.warn("boot.not_noted", {{"error", noted.error().message}});
}

Task<void> Coordinator::continue_all(std::vector<SessionId> sessions) {
    for (const SessionId& session : sessions) {
        const Result<std::shared_ptr<const SessionState>> state = parts_.store->load(session);
        if (!state) continue;
        const std::optional<Interruption>& interruption = (*state)->recovery.interruption;
        if (!interruption || interruption->exhausted) continue;
        const Result<Reply> continued = co_await go_on(session, kNoNote);
        if (continued) {
            // It may be a child whose parent gave up meanwhile.
            if ((*state)->parent) met_parents_.push_back((*state)->parent->session_id);
            continue;
        }
        parts_.env.log.warn("recovery.not_continued",
                            {{"session", session.text()}, {"error", continued.error().message}});
    }
}

// A parent's run was given up, and the process died before its children heard of it.
Task<void> Coordinator::cancel_orphans(std::vector<SessionId> parents) {
    std::ranges::sort(parents);
    parents.erase(std::ranges::unique(parents).begin(), parents.end());
    for (const SessionId& parent : parents) {
        Result<std::vector<Record>> log = read_records(*parts_.store, parent);
        const bool gone = !log && log.error().kind == ErrorKind::not_found;
        if (!log && !gone) continue;
        if (log && !std::ranges::any_of(*log, gives_up)) continue;
        std::vector<Record> records;
        if (log) records = *std::move(log);
        co_await cancel_children_of(parent, std::move(records));
    }
}

Task<void> Coordinator::cancel_children_of(SessionId parent, std::vector<Record> log) {
    SessionFilter filter;
    filter.parent = parent;
    filter.limit = std::numeric_limits<std::size_t>::max();
    for (const SessionSummary& row : parts_.store->list(filter)) {
        if (!row.is_active()) continue;
        const Result<std::shared_ptr<const SessionState>> child = parts_.store->load(row.id);
        if (!child || !(*child)->parent) continue;
        const RunId run = (*child)->parent->run_id;
        const bool given_up = log.empty() || std::ranges::any_of(log, [&](const Record& record) {
                                  const auto* cancelled = std::get_if<RunCancelled>(&record.body);
                                  const auto* failed = std::get_if<RunFailed>(&record.body);
                                  return (cancelled != nullptr && cancelled->run_id == run) ||
                                         (failed != nullptr && failed->run_id == run);
                              });
        if (given_up) (void)co_await cancel(row.id, CancelMode::discard, kNoNote);
    }
}

// A child that a boot gave up has not told its parent: recovery writes to one session at a time.
Task<void> Coordinator::answer_for_lost_children(std::vector<SessionId> parents) {
    for (const SessionId& parent : parents) {
        const Result<std::shared_ptr<const SessionState>> state = parts_.store->load(parent);
        if (!state) continue;
        for (const PendingCall& call : (*state)->pending) {
            const std::optional<ChildWish> wish = read_wish(call.metadata);
            if (!is_open(call.status) || !wish) continue;
            const Result<std::shared_ptr<const SessionState>> child =
                parts_.store->load(wish->session_id);
            if (child && !is_given_up(**child)) continue;
            Settlement lost = CallFailure{
                child_error(wish->session_id, "The session was interrupted and does not go on")};
            (void)co_await settle(call.pending_id, std::move(lost), kNoNote);
        }
    }
}

}  // namespace rouse
