// What the coordinator does though nobody asks: at the boot, when something is due, for children
// whose parent gave up.

#include <algorithm>
#include <iterator>

#include "domain/child.h"
#include "domain/fold.h"
#include "domain/history.h"
#include "domain/mail.h"
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

// The session that the call waits for, if it is one.
std::optional<SessionId> whom_it_asks(const PendingCall& call) {
    if (call.waits_for == WaitsFor::child) {
        const std::optional<ChildWish> wish = read_wish(call.metadata);
        if (wish) return wish->session_id;
    } else if (call.waits_for == WaitsFor::message) {
        const std::optional<Letter> letter = read_letter(call.metadata);
        if (letter && letter->to.size() == 1) return letter->to.front().session_id;
    }
    return std::nullopt;
}

}  // namespace

Task<void> Coordinator::sweep(SessionId id) {
    const Plan plan = [this](const SessionState& state) -> Result<Change> {
        Change change;
        SessionState noted = state;
        parts_.notes.apply_to(noted);
        change.records = plan_due(noted, parts_.boot, now());
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
    if (!state) co_return;
    const std::shared_ptr<const SessionState> noted = parts_.notes.over(*state);
    parts_.sweeper.set(id, parts_.companions.due_of(summarize(*noted)));
}

Task<void> Coordinator::cancel_children(SessionId parent, RunId run) {
    const Children children = children_of(parent);
    if (children.empty()) co_return;  // most have none, and their logs are not read
    const Result<std::vector<Record>> log = read_records(*parts_.store, parent);
    const Runs runs = log ? with_those_it_continues(*log, run) : Runs{run};  // else it was deleted
    for (const std::shared_ptr<const SessionState>& child : children) {
        if (!runs.contains(child->run->parent_run)) continue;
        Unwanted unwanted = asked_by_any(runs);
        co_await cancel_unwanted(child->id, std::move(unwanted));
    }
}

// Those whose latest run is open or interrupted.
Coordinator::Children Coordinator::children_of(const SessionId& parent) {
    SessionFilter filter;
    filter.parent = parent;
    filter.limit = std::numeric_limits<std::size_t>::max();
    Children found;
    for (const SessionSummary& row : parts_.store->list(filter)) {
        if (!row.is_active() && row.run.phase != RunPhase::interrupted) continue;
        const Result<std::shared_ptr<const SessionState>> child = parts_.store->load(row.id);
        if (child && (*child)->run) found.push_back(*child);
    }
    return found;
}

// One that somebody else went on with since is nobody's to give up.
Coordinator::Children Coordinator::asked_by(const SessionId& parent, const Runs& runs) {
    Children children = children_of(parent);
    std::erase_if(children, [&](const std::shared_ptr<const SessionState>& child) {
        return !runs.contains(child->run->parent_run);
    });
    return children;
}

Coordinator::Unwanted Coordinator::asked_by_any(Runs runs) {
    return [runs = std::move(runs)](const SessionState& child) {
        return runs.contains(child.run->parent_run);
    };
}

Coordinator::Unwanted Coordinator::left_by(ChildrenLeft left) {
    return [this, left = std::move(left)](const SessionState& child) {
        const RunId& run = child.run->run_id;
        if (std::ranges::find(left.only, run) != left.only.end()) return true;
        const Result<std::vector<Record>> log = read_records(*parts_.store, child.id);
        return log && reads_only_asks_of(*log, run, left.run_id, left.calls);
    };
}

// Again when the end of its run lets the next one begin, if that is unwanted too.
Task<void> Coordinator::cancel_unwanted(SessionId child, Unwanted unwanted) {
    const Plan plan = [this, unwanted](const SessionState& state) -> Result<Change> {
        if (state.run_is_open() && !unwanted(state)) {
            return Error(ErrorKind::precondition, "not_running", "somebody wants it to go on");
        }
        return change_of_cancel(state, CancelMode::discard);
    };
    for (;;) {
        const Result<Reply> cancelled = co_await change(child, plan, kNoNote);
        if (cancelled) continue;
        const std::string_view why = cancelled.error().reason;
        if (why == "not_running" || why == "session_gone") co_return;
        parts_.env.log.warn("child.not_cancelled",
                            {{"session", child.text()}, {"error", cancelled.error().message}});
        co_return;
    }
}

// An interrupted run goes on in the log alone, and is cancelled with the same commit.
Task<void> Coordinator::cancel_interrupted(SessionId child, Unwanted unwanted) {
    const RunId run = ids_.make<RunId>();
    const Plan plan = [this, run](const SessionState& state) -> Result<Change> {
        Result<Records> records = plan_continue(state, run, parts_.boot);
        if (!records) return records.error();
        SessionState after = state;
        for (const RecordBody& record : *records)
            fold(after, RecordView(after.last_seq + 1, clamped(after, now()), record));
        Result<Records> cancelled = plan_cancel(after, CancelMode::discard, parts_.boot);
        if (!cancelled) return cancelled.error();
        Change change;
        change.run = run;
        change.records = *std::move(records);
        std::ranges::move(*cancelled, std::back_inserter(change.records));
        return change;
    };
    const Result<std::shared_ptr<const SessionState>> state = parts_.store->load(child);
    if (!state || (*state)->run_is_open() || !(*state)->recovery.interruption) co_return;
    if (!unwanted(**state)) co_return;
    const Result<Reply> done = co_await change(child, plan, kNoNote);
    if (done) co_return;
    parts_.env.log.warn("child.not_cancelled",
                        {{"session", child.text()}, {"error", done.error().message}});
}

std::vector<SessionSummary> Coordinator::left_behind(ResumePolicy policy) {
    SessionFilter filter;
    filter.status = SessionStatus::interrupted_startup;
    filter.boot = parts_.boot;
    filter.now = now();
    filter.limit = std::numeric_limits<std::size_t>::max();
    std::vector<SessionSummary> left;
    for (const SessionSummary& session : parts_.store->list(filter)) {
        // An earlier boot may have died before it came to them.
        const bool not_looked_at = parts_.system.ask(
            [&](const SystemState& state) { return state.is_left(session.run.boot_id); });
        const bool shut_down = session.run.interrupted == InterruptReason::process_exit;
        if (shut_down || not_looked_at || policy == ResumePolicy::all) left.push_back(session);
    }
    return left;
}

void Coordinator::meet(const SessionSummary& session) {
    if (const auto due = parts_.companions.due_of(session)) parts_.sweeper.set(session.id, due);
    if (!session.parent.empty()) met_parents_.push_back(session.parent);
    const bool asks = std::ranges::any_of(session.pending, [](const PendingSummary& call) {
        return call.waits_for == WaitsFor::child || call.waits_for == WaitsFor::message;
    });
    if (asks) met_askers_.push_back(session.id);
}

Task<void> Coordinator::start(BootReport report, ResumePolicy policy) {
    parts_.sweeper.start();
    std::vector<SessionSummary> left;
    if (policy != ResumePolicy::off) left = left_behind(policy);
    std::vector<SessionId> parents = std::move(met_parents_);
    for (const SessionSummary& session : left) {
        if (!session.parent.empty()) parents.push_back(session.parent);
    }
    // First of all: what nobody wants any more must not do anything.
    const Orphans orphans = find_orphans(std::move(parents));
    for (const auto& [child, unwanted] : orphans) {
        co_await cancel_unwanted(child, unwanted);
        co_await cancel_interrupted(child, unwanted);
    }
    for (const SessionId& session : report.to_drive) {
        if (!orphans.contains(session)) parts_.driver.drive(session);
    }
    std::vector<SessionId> wanted;
    for (const SessionSummary& session : left) {
        if (!orphans.contains(session.id)) wanted.push_back(session.id);
    }
    std::vector<SessionId> askers = std::move(met_askers_);
    co_await answer_for_the_lost(std::move(askers));
    to_continue_ = 1;  // this very look at them
    continue_all(std::move(wanted));
    co_await note_continued();
}

// The oldest first, which their ids are sorted by. Each begins its run when there is room for it.
void Coordinator::continue_all(std::vector<SessionId> sessions) {
    std::ranges::sort(sessions);
    for (const SessionId& session : sessions) {
        const auto begin = [this, session] { return continue_one(session); };
        ++to_continue_;
        if (!parts_.driver.begin_and_drive(session, begin)) --to_continue_;
    }
}

Task<void> Coordinator::continue_one(SessionId session) {
    const Result<std::shared_ptr<const SessionState>> state = parts_.store->load(session);
    const bool waits_for_it =
        state && (*state)->recovery.interruption && !(*state)->recovery.interruption->exhausted;
    if (waits_for_it) {
        const Result<Reply> continued = co_await go_on(session, kNoNote);
        if (!continued) {
            parts_.env.log.warn("recovery.not_continued", {{"session", session.text()},
                                                           {"error", continued.error().message}});
        }
    }
    co_await note_continued();
}

// One less to go on with; the last one ends this boot's look at what it found.
Task<void> Coordinator::note_continued() {
    if (--to_continue_ > 0) co_return;
    RecordBody continued = to_record(BootContinued{parts_.boot});
    const Result<void> noted = co_await parts_.system.append(std::move(continued));
    if (noted) {
        parts_.env.log.info("boot.continued", {{"boot", parts_.boot.text()}});
    } else {
        parts_.env.log.warn("boot.not_noted", {{"error", noted.error().message}});
    }
}

// A parent's run was given up, and the process died before its children heard of it. Those that an
// orphan asked are orphans too.
Coordinator::Orphans Coordinator::find_orphans(std::vector<SessionId> parents) {
    std::map<SessionId, Runs> given_up;
    std::ranges::sort(parents);
    parents.erase(std::ranges::unique(parents).begin(), parents.end());
    for (const SessionId& parent : parents) {
        const Result<std::vector<Record>> log = read_records(*parts_.store, parent);
        if (!log) continue;
        for (const Record& record : *log) {
            const RunId* run = given_up_run(record.body);
            if (run != nullptr) given_up[parent].merge(with_those_it_continues(*log, *run));
        }
    }
    const auto left = parts_.system.ask([](const SystemState& state) { return state.children; });
    for (const ChildrenLeft& children : left) {
        if (children.only.empty()) given_up[children.parent].insert(children.run_id);
    }
    Orphans orphans;
    const auto spread = [&] {
        while (!given_up.empty()) {
            const auto next = given_up.extract(given_up.begin());
            for (const auto& child : asked_by(next.key(), next.mapped())) {
                if (!orphans.emplace(child->id, asked_by_any(next.mapped())).second) continue;
                given_up[child->id].insert(child->run->run_id);
            }
        }
    };
    spread();
    for (const ChildrenLeft& children : left) {
        if (children.only.empty()) continue;
        const Unwanted unwanted = left_by(children);
        for (const auto& child : children_of(children.parent)) {
            if (!unwanted(*child) || !orphans.emplace(child->id, unwanted).second) continue;
            given_up[child->id].insert(child->run->run_id);
        }
    }
    spread();
    return orphans;
}

// A session that a boot gave up may not have told those who wait for it: what an earlier version
// left, or what is set aside, or was and is deleted now.
Task<void> Coordinator::answer_for_the_lost(std::vector<SessionId> askers,
                                            std::optional<SessionId> one) {
    for (const SessionId& asker : askers) {
        const Result<std::shared_ptr<const SessionState>> state = parts_.store->load(asker);
        if (!state) continue;
        for (const PendingCall& call : (*state)->pending) {
            const std::optional<SessionId> asked = whom_it_asks(call);
            if (!is_open(call.status) || !asked || (one && *asked != *one)) continue;
            const Result<std::shared_ptr<const SessionState>> lost = parts_.store->load(*asked);
            if (lost && !is_given_up(**lost)) continue;
            // A disk that cannot be read just now says nothing of the session.
            const bool is_there = !lost && lost.error().kind != ErrorKind::not_found &&
                                  lost.error().kind != ErrorKind::corrupt;
            if (is_there) continue;
            std::string error = "The session was interrupted and does not go on";
            if (!lost && lost.error().reason == "session_gone") error = "The session was deleted";
            if (call.waits_for == WaitsFor::child) error = child_error(*asked, error);
            Settlement failure = CallFailure{std::move(error)};
            (void)co_await settle(call.pending_id, std::move(failure), kNoNote);
        }
    }
}

}  // namespace rouse
