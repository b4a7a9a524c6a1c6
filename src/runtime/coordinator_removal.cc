// How the coordinator removes sessions: those that somebody deletes, and those that have been
// finished for long.

#include <limits>
#include <set>

#include "domain/session_rules.h"
#include "domain/system_records.h"
#include "runtime/coordinator.h"

namespace rouse {

Task<Result<Reply>> Coordinator::remove(SessionId id) {
    Result<Reply> answer = co_await remove_whole(id, std::nullopt);
    if (!answer && answer.error().reason == "session_damaged") {
        answer = co_await remove_damaged(id);
    }
    co_return answer;
}

Task<Result<Reply>> Coordinator::remove_whole(SessionId id, std::optional<Timestamp> unused_since) {
    const Plan plan = [unused_since](const SessionState& state) -> Result<Change> {
        if (unused_since && (state.run_is_open() || state.updated_at >= *unused_since)) {
            return Error(ErrorKind::precondition, "session_busy", "somebody uses it again");
        }
        Result<DeletePlan> deleted = plan_delete(state);
        if (!deleted) return deleted.error();
        Change change;
        change.records = std::move(deleted->session);
        change.system = std::move(deleted->system);
        change.status = 204;
        change.run = run_of(state);
        change.stop = state.run_is_open();
        change.urgency = Urgency::may_use_reserve;
        return change;
    };
    Result<Reply> answer = co_await change(id, plan, kNoNote);
    if (answer) parts_.driver.forget(id);
    co_return answer;
}

// Its own log takes nothing any more: that it is gone stands in the system log alone. So those who
// wait for it, and those it waits for, are told behind that; a boot looks for them too. Which runs
// asked for its children, they know themselves: the log may be damaged before it says so.
Task<Result<Reply>> Coordinator::remove_damaged(SessionId id) {
    const Children children = children_of(id);
    Runs runs;
    for (const std::shared_ptr<const SessionState>& child : children)
        runs.insert(child->run->parent_run);
    runs.erase(RunId());
    Records records(1, SessionDeleted{id, {}});
    for (const RunId& run : runs)
        records.push_back(to_record(ChildrenLeft{id, run}));
    const Result<void> done =
        co_await parts_.system.append_all(std::move(records), Urgency::may_use_reserve);
    if (!done) co_return done.error();
    parts_.driver.forget(id);
    for (const std::shared_ptr<const SessionState>& child : children) {
        Unwanted unwanted = asked_by_any(runs);
        co_await cancel_unwanted(child->id, std::move(unwanted));
    }
    std::vector<SessionId> askers = who_asks();
    co_await answer_for_the_lost(std::move(askers), id);
    Reply answer;
    answer.status = 204;
    answer.session = std::move(id);
    co_return answer;
}

// Every session that waits for another one.
std::vector<SessionId> Coordinator::who_asks() const {
    std::set<SessionId> askers;
    for (const WaitsFor whom : {WaitsFor::child, WaitsFor::message}) {
        PendingFilter filter;
        filter.waits_for = whom;
        filter.limit = std::numeric_limits<std::size_t>::max();
        for (const OpenPending& one : parts_.store->pending(filter))
            askers.insert(one.session);
    }
    return {askers.begin(), askers.end()};
}

// What is damaged stays for a person to see, however old it is, and what somebody has begun to use
// since the list was made stays, too.
Task<void> Coordinator::remove_finished(Milliseconds after) {
    SessionFilter filter;
    filter.status = SessionStatus::idle;
    filter.boot = parts_.boot;
    filter.now = now();
    filter.updated_before = now() - after;
    filter.limit = std::numeric_limits<std::size_t>::max();
    for (const SessionSummary& session : parts_.store->list(filter)) {
        const Result<Reply> removed = co_await remove_whole(session.id, filter.updated_before);
        const std::string_view why = removed ? "" : removed.error().reason;
        if (removed || why == "session_gone" || why == "session_busy") continue;
        parts_.env.log.warn("retention.failed",
                            {{"session", session.id.text()}, {"error", removed.error().message}});
    }
}

}  // namespace rouse
