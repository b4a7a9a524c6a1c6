#include "domain/wait_rules.h"

#include <algorithm>

#include "base/digest.h"
#include "base/limits.h"
#include "domain/run_rules.h"

namespace rouse {
namespace {

Error unknown_pending_id() {
    return {ErrorKind::not_found, "unknown_pending_id", "Unknown pending ID"};
}

Error not_waiting(PendingStatus status) {
    return {ErrorKind::precondition, "not_waiting",
            "Not waiting: the call is " + std::string(to_string(status))};
}

Error conflicting_result() {
    return {ErrorKind::conflict, "conflicting_result",
            "the call was settled before with another result, which stays"};
}

Error no_suspended_turn() {
    return {ErrorKind::precondition, "no_suspended_turn",
            "the session does not wait for anything; send it a message instead"};
}

WaitKind kind_of_calls(const std::vector<WaitsFor>& calls) {
    if (calls.empty()) return WaitKind::user_input;
    const bool agree = std::ranges::all_of(calls, [&](WaitsFor w) { return w == calls[0]; });
    if (!agree) return WaitKind::tool_result;
    switch (calls[0]) {
        case WaitsFor::external: return WaitKind::external;
        case WaitsFor::person: return WaitKind::person;
        case WaitsFor::timer: return WaitKind::timer;
        case WaitsFor::child: return WaitKind::child;
        case WaitsFor::message: return WaitKind::message;
    }
    return WaitKind::tool_result;
}

// The wait outlives its calls by an hour, but not the last year that the log can write.
Timestamp with_grace(Timestamp latest) {
    const Timestamp kEndOfTime = from_epoch_ms(253'402'300'799'999);  // 9999-12-31T23:59:59.999Z
    return latest < kEndOfTime - limits::kWaitGrace ? latest + limits::kWaitGrace : kEndOfTime;
}

// One call that never expires makes it endless.
std::optional<Timestamp> deadline_of(const std::vector<std::optional<Timestamp>>& expiries) {
    Timestamp latest{};
    for (const std::optional<Timestamp>& at : expiries) {
        if (!at) return std::nullopt;
        latest = std::max(latest, *at);
    }
    return with_grace(latest);
}

bool wait_has_passed(const SessionState& state, Timestamp now) {
    return state.is_parked() && state.run->wait->deadline_at &&
           clamped(state, now) >= *state.run->wait->deadline_at;
}

// The wait ends: its token goes and its run goes on, in the same commit.
void resume_run(const SessionState& state, ResumeReason reason, std::string digest,
                const BootId& boot, Records& records) {
    const Wait& wait = *state.run->wait;
    records.emplace_back(
        TokenConsumed{wait.resume_token_id, wait.wait_id, reason, std::move(digest), {}});
    records.emplace_back(RunResumed{state.run->run_id, boot, wait.wait_id, reason, {}});
}

std::string digest_of(const Settlement& settlement) {
    if (const auto* result = std::get_if<ToolResult>(&settlement)) return rouse::digest_of(*result);
    if (const auto* failure = std::get_if<CallFailure>(&settlement)) {
        return sha256_hex(failure->error);
    }
    return {};
}

RecordBody settle_record(const PendingCall& call, const Settlement& settlement) {
    if (const auto* result = std::get_if<ToolResult>(&settlement)) {
        return PendingCompleted{
            call.pending_id, call.call_id, *result, rouse::digest_of(*result), {}};
    }
    if (const auto* failure = std::get_if<CallFailure>(&settlement)) {
        return PendingFailed{
            call.pending_id, call.call_id, failure->error, sha256_hex(failure->error), {}};
    }
    return PendingCancelled{
        call.pending_id, call.call_id, "cancelled", std::string(kCancelledByUser), {}};
}

// Adds what follows from the settling of one open call that `plan` already records.
void finish_settle(const SessionState& state, ResumeReason reason, const BootId& boot,
                   SettlePlan& plan) {
    plan.resumed = state.is_parked() && state.open_calls() == 1;
    if (plan.resumed) resume_run(state, reason, {}, boot, plan.records);
}

// The digest of a whole set of results, whatever order they came in.
std::string digest_of(const std::vector<std::pair<CallId, ToolResult>>& results) {
    std::vector<std::string> lines;
    lines.reserve(results.size());
    for (const auto& [call, result] : results) {
        lines.push_back(to_json_string(call.text) + rouse::digest_of(result) + "\n");
    }
    std::ranges::sort(lines);
    std::string all;
    for (const std::string& line : lines)
        all += line;
    return sha256_hex(all);
}

Result<const PendingCall*> find_call_of_wait(const SessionState& state, const CallId& id) {
    const auto found = std::ranges::find_if(state.pending, [&](const PendingCall& call) {
        return call.call_id == id && call.run_id == state.run->run_id;
    });
    if (found != state.pending.end()) return &*found;
    return Error(ErrorKind::conflict, "unknown_pending_tool_call",
                 "no call " + id.text +
                     " is pending; nothing was taken. The session shows which "
                     "calls are open");
}

// Each call was settled with just this result, whoever brought it.
bool all_given_before(const SessionState& state,
                      const std::vector<std::pair<CallId, ToolResult>>& results) {
    return !results.empty() && std::ranges::all_of(results, [&](const auto& given) {
        const Result<const PendingCall*> call = find_call_of_wait(state, given.first);
        return call && !is_open((*call)->status) &&
               (*call)->digest == rouse::digest_of(given.second);
    });
}

// A token that was used: the same results again are a duplicate, others a conflict.
Result<ResumePlan> answer_used_token(const SessionState& state, const ResumeCommand& command,
                                     Timestamp now) {
    const Result<void> valid = validate_token(state, *command.token, now);
    if (valid) return no_suspended_turn();
    if (valid.error().reason != "token_consumed") return valid.error();
    const Token* token = state.find_token(command.token->token_id);
    if (token->digest != digest_of(command.results) && !all_given_before(state, command.results)) {
        // Whoever brings results for calls that the other door settled brings other ones.
        const bool knows_calls = std::ranges::all_of(command.results, [&](const auto& given) {
            const Result<const PendingCall*> call = find_call_of_wait(state, given.first);
            return call && !(*call)->digest.empty();
        });
        if (token->digest.empty() && (command.results.empty() || !knows_calls)) {
            return valid.error();
        }
        return conflicting_result();
    }
    ResumePlan plan;
    plan.duplicate = true;
    return plan;
}

Result<const PendingCall*> find_open(const SessionState& state, const PendingId& id) {
    const PendingCall* call = state.find_pending(id);
    if (call == nullptr) return unknown_pending_id();
    if (!is_open(call->status)) return not_waiting(call->status);
    return call;
}

void expire_calls(const SessionState& state, Timestamp now, Records& records) {
    std::vector<const PendingCall*> due;
    for (const PendingCall& call : state.pending) {
        if (is_open(call.status) && call.expires_at && now >= *call.expires_at) {
            due.push_back(&call);
        }
    }
    std::ranges::stable_sort(due, {}, [](const PendingCall* call) { return *call->expires_at; });
    for (const PendingCall* call : due) {
        if (call->waits_for == WaitsFor::timer) {
            // For a timer this is the answer.
            const ToolResult result =
                text_result("It is " + to_rfc3339(*call->expires_at) + " now.");
            records.push_back(settle_record(*call, result));
        } else {
            records.emplace_back(
                PendingExpired{call->pending_id, call->call_id, std::string(kTimedOut), {}});
        }
    }
}

void return_lost_leases(const SessionState& state, Timestamp now, Records& records) {
    for (const PendingCall& call : state.pending) {
        const bool expired = call.expires_at && now >= *call.expires_at;
        if (call.status != PendingStatus::processing || expired) continue;
        if (!call.lease_until || now < *call.lease_until) continue;
        records.emplace_back(
            PendingWaiting{call.pending_id, "lease_expired", {}, {}, {}, {}, {}, {}});
    }
}

void interrupt_wait(const SessionState& state, Timestamp now, Records& records) {
    close_calls(state, "interrupted", kTimedOut, records);
    const Token* token = state.find_token(state.run->wait->resume_token_id);
    if (token != nullptr && token->status == TokenStatus::active) {
        if (token->expires_at && now >= *token->expires_at) {
            records.emplace_back(TokenExpired{token->token_id, {}});
        } else {
            records.emplace_back(TokenRevoked{token->token_id, "interrupted", {}});
        }
    }
    records.emplace_back(
        RunInterrupted{state.run->run_id, InterruptReason::wait_timeout, false, {}});
    records.emplace_back(StatusDerived{SessionStatus::interrupted_waiting, {}});
}

}  // namespace

Result<Records> plan_park(const SessionState& state, const ParkCommand& command) {
    if (!state.run_is_open() || state.run->run_id != command.run_id || state.run->wait) {
        return Error(ErrorKind::precondition, "not_running",
                     "run " + command.run_id.text() + " is not running");
    }
    std::vector<WaitsFor> kinds;
    std::vector<std::optional<Timestamp>> expiries;
    for (const PendingCall& call : state.pending) {
        if (!is_open(call.status)) continue;
        kinds.push_back(call.waits_for);
        expiries.push_back(call.expires_at);
    }
    Records records;
    for (const PendingCreated& call : command.calls) {
        kinds.push_back(call.waits_for);
        expiries.push_back(call.expires_at);
        records.emplace_back(call);
    }
    if (kinds.empty() && !command.for_user_input) return records;
    const WaitKind kind = kind_of_calls(kinds);
    const std::optional<Timestamp> deadline =
        kinds.empty() ? command.deadline_at : deadline_of(expiries);
    records.emplace_back(TokenMinted{command.token.token_id,
                                     command.token.hash,
                                     command.run_id,
                                     command.wait_id,
                                     kind,
                                     deadline,
                                     {}});
    records.emplace_back(RunWaiting{command.run_id,
                                    command.wait_id,
                                    kind,
                                    command.token.token_id,
                                    deadline,
                                    kinds.empty() ? command.prompt : std::string(),
                                    {}});
    return records;
}

Result<SettlePlan> answer_settled(PendingStatus status, std::string_view digest,
                                  const Settlement& settlement) {
    const bool cancelled_again =
        status == PendingStatus::cancelled && std::holds_alternative<CallCancelled>(settlement);
    const bool answered = status == PendingStatus::completed || status == PendingStatus::failed;
    if (!cancelled_again && !answered) return not_waiting(status);
    if (answered && std::holds_alternative<CallCancelled>(settlement)) return not_waiting(status);
    if (answered && digest != digest_of(settlement)) return conflicting_result();
    SettlePlan plan;
    plan.duplicate = true;
    return plan;
}

Result<SettlePlan> plan_settle(const SessionState& state, const PendingId& pending_id,
                               const Settlement& settlement, const BootId& boot, Timestamp now) {
    if (Result<void> live = require_live(state); !live) return live.error();
    const PendingCall* call = state.find_pending(pending_id);
    if (call == nullptr) return unknown_pending_id();
    if (!is_open(call->status)) return answer_settled(call->status, call->digest, settlement);
    if (wait_is_over(state, now)) return not_waiting(PendingStatus::expired);
    if (call->reason == "approval_required" && std::holds_alternative<ToolResult>(settlement)) {
        return Error(ErrorKind::precondition, "decision_required",
                     "the call waits for approval; approve or deny it");
    }
    SettlePlan plan;
    plan.records.push_back(settle_record(*call, settlement));
    const bool cancel = std::holds_alternative<CallCancelled>(settlement);
    finish_settle(state, cancel ? ResumeReason::cancelled : ResumeReason::result, boot, plan);
    return plan;
}

Result<SettlePlan> plan_decide(const SessionState& state, const PendingId& pending_id,
                               const Decision& decision, const BootId& boot, Timestamp now) {
    if (Result<void> live = require_live(state); !live) return live.error();
    const PendingCall* call = state.find_pending(pending_id);
    if (call == nullptr) return unknown_pending_id();
    if (call->reason != "approval_required") {
        if (!is_open(call->status)) return not_waiting(call->status);
        return Error(ErrorKind::precondition, "result_required",
                     "the call asks for no approval: it waits for a result");
    }
    if (!decision.approve) {
        const std::string message = decision.message.empty() ? "Denied" : decision.message;
        return plan_settle(state, pending_id, CallFailure{message}, boot, now);
    }
    if (!decision.input_digest.empty() && decision.input_digest != call->input_digest) {
        return Error(ErrorKind::conflict, "digest_mismatch",
                     "the call's input is not the one that was approved; look at it again");
    }
    const std::string digest =
        decision.input.absent() ? call->input_digest : sha256_hex(decision.input.text());
    if (!is_open(call->status)) {
        const bool denied = call->status == PendingStatus::failed;
        if (!call->approved && !denied) return not_waiting(call->status);
        if (denied || call->digest != digest) return conflicting_result();
        SettlePlan duplicate;
        duplicate.duplicate = true;
        return duplicate;
    }
    if (wait_is_over(state, now)) return not_waiting(PendingStatus::expired);
    SettlePlan plan;
    plan.records.emplace_back(
        PendingApproved{call->pending_id, call->call_id, digest, decision.input, {}, {}});
    finish_settle(state, ResumeReason::result, boot, plan);
    return plan;
}

namespace {

Result<ResumePlan> plan_input(const SessionState& state, const ResumeCommand& command,
                              Timestamp now) {
    const MessageCommand message{*command.input,    {}, command.boot, OnWaiting::reject,
                                 OnRunning::reject, now};
    Result<MessagePlan> plan = plan_message(state, message);
    if (!plan) return plan.error();
    return ResumePlan{std::move(plan->records), {}, false, plan->resumed};
}

}  // namespace

Result<ResumePlan> plan_resume(const SessionState& state, const ResumeCommand& command,
                               Timestamp now) {
    if (Result<void> live = require_live(state); !live) return live.error();
    if (!state.is_parked()) {
        if (command.token) return answer_used_token(state, command, now);
        return no_suspended_turn();
    }
    if (command.token) {
        const Result<void> valid = validate_token(state, *command.token, now);
        if (!valid) return answer_used_token(state, command, now);
    }
    if (wait_is_over(state, now)) return no_suspended_turn();
    const bool asks_a_person = state.run->wait->kind == WaitKind::user_input;
    if (asks_a_person && (!command.input || !command.results.empty())) {
        return Error(ErrorKind::precondition, "resume_required",
                     "the session waits until somebody says something: resume it with input alone, "
                     "or send it a message");
    }
    if (command.input) return plan_input(state, command, now);
    if (command.results.empty()) {
        return Error(ErrorKind::precondition, "resume_required",
                     "the session waits for results; give one for each open call");
    }
    ResumePlan plan;
    std::vector<const PendingCall*> taken;
    for (const auto& [id, result] : command.results) {
        const Result<const PendingCall*> call = find_call_of_wait(state, id);
        if (!call) return call.error();
        const auto same_call = [&](const auto& given) { return given.first == id; };
        const auto first = std::ranges::find_if(command.results, same_call);
        if (rouse::digest_of(first->second) != rouse::digest_of(result))
            return conflicting_result();
        const Result<SettlePlan> one =
            plan_settle(state, (*call)->pending_id, result, command.boot, now);
        if (!one) return one.error();
        if (one->duplicate || std::ranges::find(taken, *call) != taken.end()) continue;
        taken.push_back(*call);
        plan.records.push_back(one->records.front());
    }
    for (const PendingCall& call : state.pending) {
        if (!is_open(call.status) || std::ranges::find(taken, &call) != taken.end()) continue;
        plan.remaining.push_back(call.call_id);
    }
    plan.duplicate = taken.empty();
    plan.resumed = plan.remaining.empty();
    if (plan.resumed) {
        resume_run(state, ResumeReason::result, digest_of(command.results), command.boot,
                   plan.records);
    }
    return plan;
}

Result<Records> plan_rotate_token(const SessionState& state, const NewToken& token) {
    if (Result<void> live = require_live(state); !live) return live.error();
    if (!state.is_parked()) return no_suspended_turn();
    const Wait& wait = *state.run->wait;
    Records records;
    if (std::optional<RecordBody> revoked = revoke_open_token(state, "rotated")) {
        records.push_back(*std::move(revoked));
    }
    records.emplace_back(TokenMinted{token.token_id,
                                     token.hash,
                                     state.run->run_id,
                                     wait.wait_id,
                                     wait.kind,
                                     wait.deadline_at,
                                     {}});
    records.emplace_back(RunWaiting{state.run->run_id,
                                    wait.wait_id,
                                    wait.kind,
                                    token.token_id,
                                    wait.deadline_at,
                                    wait.prompt,
                                    {}});
    return records;
}

Result<Records> plan_extend(const SessionState& state, Timestamp deadline_at, Timestamp now) {
    if (Result<void> live = require_live(state); !live) return live.error();
    if (!state.is_parked() || wait_is_over(state, now)) return no_suspended_turn();
    if (deadline_at <= clamped(state, now)) {
        return Error(ErrorKind::invalid, "invalid_deadline", "the new deadline is in the past");
    }
    const Wait& wait = *state.run->wait;
    Records records;
    std::vector<std::optional<Timestamp>> expiries;
    for (const PendingCall& call : state.pending) {
        if (!is_open(call.status) || !call.expires_at) continue;
        // A timer is not given more time: its end is what is waited for.
        const bool moves = call.waits_for != WaitsFor::timer;
        expiries.push_back(moves ? deadline_at : call.expires_at);
        if (!moves) continue;
        records.emplace_back(
            PendingWaiting{call.pending_id, "extended", {}, {}, deadline_at, {}, {}, {}});
    }
    if (records.empty() && !expiries.empty()) {
        return Error(ErrorKind::conflict, "no_deadline",
                     "the call waits for a time of its own, which is not moved; a result or a "
                     "cancel ends it sooner");
    }
    if (!wait.deadline_at && records.empty()) {
        return Error(ErrorKind::conflict, "no_deadline",
                     "the wait has no deadline, and none of its calls expires: it goes on until "
                     "it is answered or cancelled");
    }
    if (!wait.deadline_at) return records;  // a call that never expires keeps it endless
    const std::optional<Timestamp> wait_until =
        expiries.empty() ? deadline_at : deadline_of(expiries);
    records.emplace_back(RunWaiting{state.run->run_id,
                                    wait.wait_id,
                                    wait.kind,
                                    wait.resume_token_id,
                                    wait_until,
                                    wait.prompt,
                                    {}});
    return records;
}

Result<Records> plan_claim(const SessionState& state, const PendingId& pending_id,
                           std::string_view worker, Timestamp lease_until, Timestamp now) {
    if (Result<void> live = require_live(state); !live) return live.error();
    const Result<const PendingCall*> call = find_open(state, pending_id);
    if (!call) return call.error();
    const bool held = (*call)->status == PendingStatus::processing && (*call)->lease_until &&
                      clamped(state, now) < *(*call)->lease_until;
    if (held && (*call)->worker != worker) {
        return Error(ErrorKind::conflict, "lease_held",
                     "another worker holds the call until " + to_rfc3339(*(*call)->lease_until));
    }
    return Records{PendingProcessing{pending_id, std::string(worker), lease_until, {}}};
}

Result<Records> plan_release(const SessionState& state, const PendingId& pending_id,
                             std::string_view worker) {
    if (Result<void> live = require_live(state); !live) return live.error();
    const Result<const PendingCall*> call = find_open(state, pending_id);
    if (!call) return call.error();
    if ((*call)->status == PendingStatus::waiting) return Records{};
    if ((*call)->worker != worker) {
        return Error(ErrorKind::conflict, "lease_held", "another worker holds the call");
    }
    return Records{PendingWaiting{pending_id, "released", {}, {}, {}, {}, {}, {}}};
}

Records plan_warnings(const SessionState& state, Timestamp now) {
    Records records;
    if (!state.is_parked()) return records;
    for (const PendingCall& call : state.pending) {
        const std::optional<Timestamp> at = warning_time(call.created_at, call.expires_at);
        if (!is_open(call.status) || call.warned || !at) continue;
        const Timestamp seen = clamped(state, now);
        if (seen >= *at && seen < *call.expires_at) {
            records.emplace_back(PendingExpiring{call.pending_id, *call.expires_at, {}});
        }
    }
    return records;
}

Records plan_due(const SessionState& state, const BootId& boot, Timestamp now) {
    now = clamped(state, now);
    Records records;
    if (!state.run_is_open()) return records;
    expire_calls(state, now, records);
    const std::size_t expired = records.size();
    return_lost_leases(state, now, records);
    if (!state.is_parked()) return records;

    const bool all_settled = expired > 0 && expired == state.open_calls();
    if (all_settled) {
        const bool timed_out = std::ranges::any_of(records, [](const RecordBody& record) {
            return std::holds_alternative<PendingExpired>(record);
        });
        const ResumeReason reason = timed_out ? ResumeReason::expired : ResumeReason::result;
        resume_run(state, reason, {}, boot, records);
    } else if (wait_has_passed(state, now)) {
        records.clear();
        interrupt_wait(state, now, records);
    }
    return records;
}

}  // namespace rouse
