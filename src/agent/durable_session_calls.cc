// DurableSession: what it writes of calls, and of their answers.

#include <algorithm>
#include <ranges>

#include "agent/durable_session.h"
#include "base/limits.h"
#include "domain/child.h"
#include "domain/fold.h"
#include "domain/mail.h"
#include "domain/wait_rules.h"

namespace rouse {
namespace {

constexpr std::size_t kPendingRandomBytes = 20;

std::string plain_text(const ToolResult& result) {
    if (const auto text = read_json_string(result.content.text())) return *text;
    return result.content.text();
}

// What settles a pending call of ours with the result that its tool gave at once.
RecordBody settled(const PendingCall& call, const ToolResult& result) {
    return PendingCompleted{call.pending_id, call.call_id, result, digest_of(result)};
}

}  // namespace

Task<Result<void>> DurableSession::calls_starting(std::vector<CallId> calls) {
    const Plan plan = [this, calls = std::move(calls)](const SessionState& state) {
        Records records;
        for (const CallId& id : calls) {
            const auto call = std::ranges::find(state_.calls, id, &TurnCall::call_id);
            const std::string tool = call == state_.calls.end() ? "" : call->tool;
            records.emplace_back(ToolStarted{state.run->run_id, id, tool, {}});
        }
        return Result<Records>(std::move(records));
    };
    co_return co_await write(plan);
}

const PendingCall* DurableSession::open_call(const CallId& id) const {
    const auto call = std::ranges::find_if(state_.pending, [&](const PendingCall& one) {
        return one.call_id == id && is_open(one.status);
    });
    return call == state_.pending.end() ? nullptr : &*call;
}

// True when the call has the input that the model wrote: then the log has it already.
bool DurableSession::is_written(const PendingToolCall& call) const {
    for (const TranscriptEntry& entry : std::views::reverse(turn())) {
        if (entry.role != Role::assistant) continue;
        return std::ranges::any_of(entry.content, [&](const Block& block) {
            const auto* use = block.get_if<ToolUseBlock>();
            return use != nullptr && use->id == call.id && use->input == call.input;
        });
    }
    return false;
}

MessageId DurableSession::latest_step() const {
    const auto entries = std::views::reverse(turn());
    const auto assistant = std::ranges::find(entries, Role::assistant, &TranscriptEntry::role);
    return assistant == entries.end() ? MessageId() : assistant->message_id;
}

PendingCreated DurableSession::created(const PendingToolCall& call, Timestamp at) {
    PendingCreated record;
    record.pending_id = make_pending_id(id_, ids_.random_text(kPendingRandomBytes));
    record.run_id = run_;
    record.call_id = call.id;
    record.message_id = latest_step();
    record.part_id = call.id.text;
    record.tool = call.name;
    record.waits_for = call.waits_for;
    record.reason = to_string(call.reason);
    record.prompt = call.prompt;
    record.metadata = call.metadata;
    record.input_digest = digest_of_input(call.input);
    if (!is_written(call)) record.input = call.input;
    record.by_id = call.callback.by_id;
    record.webhook_url = call.callback.webhook_url;
    record.webhook_secret_env = call.callback.secret_env;
    if (call.timeout_ms > 0) record.expires_at = at + Milliseconds(call.timeout_ms);
    return record;
}

Task<Result<std::vector<PendingId>>> DurableSession::calls_pending(std::vector<Starting> calls) {
    Records records;
    std::vector<PendingId> ids;
    for (const Starting& starting : calls) {
        PendingCreated record = created(starting.call, now());
        if (starting.local) record.local_boot = boot_;
        record.ask_if_unknown = starting.local && starting.ask_if_unknown;
        record.repeat_if_unknown = starting.local && starting.may_run_again;
        ids.push_back(record.pending_id);
        records.emplace_back(std::move(record));
    }
    const Plan plan = [records](const SessionState&) { return Result<Records>(records); };
    if (Result<void> written = co_await write(plan); !written) co_return written.error();
    co_return ids;
}

// True if the turn is not about to park: other calls are under way.
bool DurableSession::others_are_under_way(const CallId& id) const {
    return std::ranges::any_of(state_.calls, [&](const TurnCall& call) {
        if (call.call_id == id) return false;
        // Of those that may run again, the log says nothing before they end.
        if (call.phase == CallPhase::started || call.phase == CallPhase::requested) return true;
        const PendingCall* pending = open_call(call.call_id);
        return pending != nullptr && !pending->started_at;
    });
}

// Goes along with the commit that parks the turn, if that comes next: after a crash in between, the
// call waits all the same.
Task<Result<void>> DurableSession::call_started(Started started) {
    if (open_call(started.call.id) == nullptr) co_return Result<void>();
    PendingWaiting record;
    record.pending_id = started.call.pending_id;
    record.reason = "started";
    record.external_ref = std::move(started.external_ref);
    if (started.estimated) record.estimated_ms = started.estimated->count();
    record.prompt = std::move(started.call.prompt);
    record.metadata = std::move(started.call.metadata);
    keep(std::move(record));
    if (others_are_under_way(started.call.id)) co_return co_await write_kept();
    co_return Result<void>();
}

Task<Result<ToolResult>> DurableSession::call_ended(CallId call, ToolResult result) {
    const auto known = std::ranges::find(state_.calls, call, &TurnCall::call_id);
    const bool was_announced = known != state_.calls.end() && known->phase != CallPhase::requested;
    // What a call starts (a letter, a child) begins with its record, not after the next model call.
    const bool starts = read_letter(result.metadata) || read_wish(result.metadata);
    if (!was_announced && !starts) {
        kept_bytes_ += result.content.text().size() + result.metadata.text().size();
        keep(ToolCompleted{std::move(call), result});
        if (kept_bytes_ < limits::kKeptResultBytes) co_return result;
        if (Result<void> written = co_await write_kept(); !written) co_return written.error();
        co_return result;
    }
    bool ours = true;
    const Plan plan = [&](const SessionState& state) -> Result<Records> {
        // The latest: an earlier message of the run may have used the same id.
        const auto latest = std::views::reverse(state.pending);
        const auto mine = std::ranges::find_if(latest, [&](const PendingCall& one) {
            return one.call_id == call && one.run_id == run_ && !one.approved;
        });
        if (mine == latest.end()) return Records{ToolCompleted{call, result}};
        ours = is_open(mine->status);
        return ours ? Records{settled(*mine, result)} : Records{};
    };
    if (Result<void> written = co_await write(plan); !written) co_return written.error();
    if (ours) co_return result;
    for (const TranscriptEntry& entry : std::views::reverse(turn())) {
        const auto part = std::ranges::find(entry.parts, call, &ToolPart::call_id);
        if (part != entry.parts.end() && part->result) co_return *part->result;
    }
    co_return result;
}

// The log wins: a state from outside may only speak of what is open here.
Result<Suspension> DurableSession::choose_state(const Suspension& stored,
                                                const Suspension& passed) {
    for (const PendingToolCall& call : passed.pending_tool_calls) {
        const bool known =
            std::ranges::find(stored.pending_tool_calls, call.id, &PendingToolCall::id) !=
            stored.pending_tool_calls.end();
        if (known) continue;
        return Error(ErrorKind::conflict, "unknown_pending_tool_call",
                     "the session does not wait for call " + call.id.text +
                         "; leave out the state, the session has the latest");
    }
    return stored;
}

Result<Records> DurableSession::plan_answers(const SessionState& state, const Answers& answers) {
    Records records;
    SessionState ahead = state;
    const auto take = [&](const Records& more) {
        for (const RecordBody& record : more) {
            fold(ahead, RecordView(ahead.last_seq + 1, now(), record));
            records.push_back(record);
        }
    };
    for (const auto& [id, answer] : answers) {
        const auto call = std::ranges::find_if(ahead.pending, [&](const PendingCall& one) {
            return one.call_id == id && is_open(one.status);
        });
        if (call == ahead.pending.end()) {
            return Error(ErrorKind::conflict, "unknown_pending_tool_call",
                         "the session does not wait for call " + id.text + " any more");
        }
        const bool asks = call->reason == to_string(SuspendReason::approval_required);
        Decision decision;
        if (const auto* approval = std::get_if<Approval>(&answer)) {
            decision = {true, approval->input, approval->input_digest, {}};
        } else if (asks) {
            decision.message = plain_text(std::get<ToolResult>(answer));
        }
        const Result<SettlePlan> plan =
            asks ? plan_decide(ahead, call->pending_id, decision, boot_, now())
                 : plan_settle(ahead, call->pending_id, std::get<ToolResult>(answer), boot_, now());
        if (!plan) return plan.error();
        take(plan->records);
    }
    return records;
}

Task<Result<void>> DurableSession::accept_answers(Answers answers) {
    const Plan plan = [this, answers = std::move(answers)](const SessionState& state) {
        return plan_answers(state, answers);
    };
    co_return co_await write(plan);
}

}  // namespace rouse
