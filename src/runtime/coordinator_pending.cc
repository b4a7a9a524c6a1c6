// What may be done to a pending call: results, decisions, progress, claims.

#include <algorithm>

#include "agent/result_check.h"
#include "domain/fold.h"
#include "domain/history.h"
#include "runtime/answers.h"
#include "runtime/coordinator.h"

namespace rouse {
namespace {

// The id is not one of ours, or names a session that does not exist: the same to whoever guesses.
Error unknown_pending_id() {
    return {ErrorKind::not_found, "unknown_pending_id",
            "Unknown pending ID: no call waits under it, and none ever did"};
}

Error as_pending_error(const Error& error) {
    return error.reason == "unknown_session" ? unknown_pending_id() : error;
}

Error not_waiting(PendingStatus status) {
    return {ErrorKind::precondition, "not_waiting",
            "Not waiting: the call is " + std::string(to_string(status))};
}

}  // namespace

// For what can only be done to a call that waits: it may have been settled long ago.
Error Coordinator::refuse_past(const PendingId& id, Error refusal) {
    if (refusal.reason == "unknown_session") return unknown_pending_id();
    if (refusal.reason != "unknown_pending_id") return refusal;
    const Result<SessionId> session = session_of(id);
    const Result<std::vector<Record>> log =
        session ? read_back_to(*parts_.store, *session, id) : Result<std::vector<Record>>();
    const std::optional<PendingCall> call = log ? find_settled_call(*log, id) : std::nullopt;
    return call ? not_waiting(call->status) : unknown_pending_id();
}

Result<void> Coordinator::check_result(const PendingCall& call,
                                       const Settlement& settlement) const {
    const auto* result = std::get_if<ToolResult>(&settlement);
    if (result == nullptr) return {};
    const std::shared_ptr<const Catalogue> catalogue = parts_.registry.catalogue();
    const ToolDefinition* tool = catalogue->find_tool(call.tool);
    if (tool == nullptr || !tool->result_check) return {};
    const Result<void> fits = check_fits(*tool->result_check, *result);
    if (fits) return {};
    return Error(ErrorKind::invalid, "result_validation_failed",
                 "the result does not fit the tool's result_schema; the call still waits: " +
                     fits.error().message);
}

// The call may have been settled in a wait that is long over.
Result<Coordinator::Change> Coordinator::plan_past_settlement(const SessionId& session,
                                                              const PendingId& id,
                                                              const Settlement& settlement,
                                                              const Error& refusal) {
    const Result<std::vector<Record>> log = read_back_to(*parts_.store, session, id);
    if (!log) return log.error();
    const std::optional<PendingCall> call = find_settled_call(*log, id);
    if (!call) return refusal.reason == "unknown_pending_id" ? unknown_pending_id() : refusal;
    const Result<SettlePlan> plan = answer_settled(call->status, call->digest, settlement);
    if (!plan) return plan.error();
    Change change;
    change.status = 200;
    change.run = call->run_id;
    change.answer = to_json(answers::Settled{true, session, true});
    return change;
}

void Coordinator::add_last_progress(const PendingCall& call, Records& settles) const {
    std::optional<Progress> progress = parts_.notes.unrecorded(call);
    if (!progress || settles.empty()) return;
    settles.insert(settles.begin(), PendingProgress{call.pending_id, *std::move(progress)});
}

Task<Result<Reply>> Coordinator::settle(PendingId id, Settlement settlement, Note note) {
    const Result<SessionId> session = session_of(id);
    if (!session) co_return unknown_pending_id();
    const Plan plan = [this, id, settlement](const SessionState& state) -> Result<Change> {
        const PendingCall* call = state.find_pending(id);
        const bool open = call != nullptr && is_open(call->status);
        if (open) {
            if (Result<void> fits = check_result(*call, settlement); !fits) return fits.error();
        }
        Result<SettlePlan> planned = plan_settle(state, id, settlement, parts_.boot, now());
        if (!planned && planned.error().reason == "unknown_pending_id") {
            return plan_past_settlement(state.id, id, settlement, planned.error());
        }
        if (!planned) return planned.error();
        Change change;
        change.status = 200;
        change.run = run_of(state);
        change.drive = planned->resumed;
        if (std::holds_alternative<CallCancelled>(settlement)) {
            change.urgency = Urgency::may_use_reserve;
        }
        change.answer = to_json(answers::Settled{true, state.id, planned->duplicate});
        change.records = std::move(planned->records);
        if (open) add_last_progress(*call, change.records);
        return change;
    };
    Result<Reply> answer = co_await change(*session, plan, std::move(note));
    if (!answer) co_return as_pending_error(answer.error());
    co_return answer;
}

// The call may have been decided in a turn that is long over.
Result<Coordinator::Change> Coordinator::plan_past_decision(const SessionState& state,
                                                            const PendingId& id,
                                                            const Decision& decision) {
    const Result<std::vector<Record>> log = read_back_to(*parts_.store, state.id, id);
    if (!log) return log.error();
    std::optional<PendingCall> call = find_settled_call(*log, id);
    if (!call) return unknown_pending_id();
    Change change;
    change.run = call->run_id;
    SessionState then = state;
    then.pending.assign(1, *std::move(call));
    const Result<SettlePlan> planned = plan_decide(then, id, decision, parts_.boot, now());
    if (!planned) return planned.error();
    change.answer = to_json(
        answers::Decided{change.run, state.id, seq_of_settlement(*log, id), planned->duplicate});
    return change;
}

Task<Result<Reply>> Coordinator::decide(PendingId id, Decision decision, Note note) {
    const Result<SessionId> session = session_of(id);
    if (!session) co_return unknown_pending_id();
    const Plan plan = [this, id, decision](const SessionState& state) -> Result<Change> {
        Result<SettlePlan> planned = plan_decide(state, id, decision, parts_.boot, now());
        if (!planned && planned.error().reason == "unknown_pending_id") {
            return plan_past_decision(state, id, decision);
        }
        if (!planned) return planned.error();
        Change change;
        change.run = run_of(state);
        change.drive = planned->resumed;
        change.answer = to_json(answers::Decided{
            change.run, state.id, state.last_seq + planned->records.size(), planned->duplicate});
        change.records = std::move(planned->records);
        return change;
    };
    Result<Reply> answer = co_await change(*session, plan, std::move(note));
    if (!answer) co_return refuse_past(id, answer.error());
    co_return answer;
}

Task<Result<Reply>> Coordinator::progress(PendingId id, Progress progress) {
    const Result<SessionId> session = session_of(id);
    if (!session) co_return unknown_pending_id();
    enum class Goes : std::uint8_t { nowhere, to_the_log, to_the_notes };
    Goes goes = Goes::nowhere;
    Progress before;
    const Plan plan = [&](const SessionState& state) -> Result<Change> {
        SessionState noted = state;
        parts_.notes.apply_to(noted);
        const PendingCall* call = noted.find_pending(id);
        if (call == nullptr) return unknown_pending_id();
        if (!is_open(call->status)) return not_waiting(call->status);
        Change change;
        change.status = 200;
        change.answer = to_json(answers::Settled{true, state.id, false});
        before = state.find_pending(id)->progress;
        goes = Goes::nowhere;
        if (call->progress == progress) return change;
        const bool lately = parts_.notes.was_recorded_lately(id, now());
        goes = lately ? Goes::to_the_notes : Goes::to_the_log;
        if (!lately) change.records = {PendingProgress{id, progress}};
        return change;
    };
    Result<Reply> answer = co_await change(*session, plan, kNoNote);
    if (!answer) co_return refuse_past(id, answer.error());
    if (goes == Goes::to_the_log) parts_.notes.recorded(id, now());
    if (goes == Goes::to_the_notes) {
        parts_.notes.report(id, before, progress);
        if (parts_.on_progress) parts_.on_progress(*session, id, progress);
    }
    co_return answer;
}

Task<Result<Reply>> Coordinator::claim(PendingId id, std::string worker, Milliseconds lease,
                                       Claim which) {
    const Result<SessionId> session = session_of(id);
    if (!session) co_return unknown_pending_id();
    std::optional<Timestamp> renewed;  // this lease, without a record
    Timestamp until{};
    const Plan plan = [&](const SessionState& state) -> Result<Change> {
        SessionState noted = state;
        parts_.notes.apply_to(noted);
        const PendingCall* call = state.find_pending(id);
        if (which == Claim::fresh && call != nullptr && call->status != PendingStatus::waiting) {
            return Error(ErrorKind::conflict, "lease_held", "somebody was faster with this call");
        }
        until = now() + lease;
        Result<Records> records = plan_claim(noted, id, worker, until, now());
        if (!records) return records.error();
        Change change;
        change.status = 200;
        change.answer = to_json(answers::Settled{true, state.id, false});
        // The log need not know of every renewal: half of the lease is left there.
        const bool holds = call->status == PendingStatus::processing && call->worker == worker &&
                           call->lease_until && *call->lease_until - now() >= lease / 2;
        const bool is_longer = holds && until >= *noted.find_pending(id)->lease_until;
        renewed = is_longer ? call->lease_until : std::nullopt;
        if (!renewed) change.records = *std::move(records);
        return change;
    };
    Result<Reply> answer = co_await change(*session, plan, kNoNote);
    if (!answer) co_return refuse_past(id, answer.error());
    if (renewed) {
        parts_.notes.renew(id, *renewed, until);
    } else {
        parts_.notes.forget_lease(id);
    }
    co_return answer;
}

Task<Result<Reply>> Coordinator::release(PendingId id, std::string worker) {
    const Result<SessionId> session = session_of(id);
    if (!session) co_return unknown_pending_id();
    const Plan plan = [id, worker](const SessionState& state) -> Result<Change> {
        Result<Records> records = plan_release(state, id, worker);
        if (!records) return records.error();
        Change change;
        change.status = 200;
        change.records = *std::move(records);
        change.answer = to_json(answers::Settled{true, state.id, change.records.empty()});
        return change;
    };
    Result<Reply> answer = co_await change(*session, plan, kNoNote);
    if (!answer) co_return refuse_past(id, answer.error());
    parts_.notes.forget_lease(id);
    co_return answer;
}

}  // namespace rouse
