#include "agent/tool_batch.h"

#include <algorithm>

#include "domain/recovery_plan.h"

namespace rouse {
namespace {

using Phase = BatchCall::Phase;

Error malformed(std::string what) {
    return {ErrorKind::invalid, "malformed_suspension",
            "the suspension is not one of ours: " + std::move(what)};
}

Error unknown_call(const CallId& id) {
    return {ErrorKind::conflict, "unknown_pending_tool_call",
            "no pending call has the id " + id.text +
                "; answer those in suspension.pending_tool_calls, each once"};
}

Result<void> check_answer(const BatchCall& call, const Answer& answer) {
    const bool asks = call.pending->reason == SuspendReason::approval_required;
    if (const auto* result = std::get_if<ToolResult>(&answer)) {
        if (!asks || result->is_error) return {};
        return Error(ErrorKind::precondition, "decision_required",
                     "call " + call.id.text + " asks whether it may run; answer with an Approval");
    }
    const auto& approval = std::get<Approval>(answer);
    if (!asks) {
        return Error(ErrorKind::precondition, "result_required",
                     "call " + call.id.text + " waits for a result, not for an approval");
    }
    if (approval.input_digest.empty() || approval.input_digest == digest_of_input(call.input)) {
        return {};
    }
    return Error(ErrorKind::conflict, "digest_mismatch",
                 "the input of call " + call.id.text +
                     " is not the one that was approved; look at it again");
}

}  // namespace

ToolBatch::ToolBatch(const Message& assistant) {
    for (const Block& block : assistant.content) {
        const auto* use = block.get_if<ToolUseBlock>();
        if (use != nullptr) calls_.push_back({use->id, use->name, use->input, {}, {}, {}, {}});
    }
}

Result<ToolBatch> ToolBatch::restore(const Message& assistant, const Suspension& state) {
    ToolBatch batch(assistant);
    const auto place = [&](const CallId& id) -> Result<BatchCall*> {
        BatchCall* call = batch.find(id);
        if (call == nullptr) return malformed("its last message has no call " + id.text);
        if (call->phase != Phase::not_started) return malformed(id.text + " stands in it twice");
        return call;
    };
    for (const CompletedToolCall& done : state.completed_tool_calls) {
        const Result<BatchCall*> call = place(done.id);
        if (!call) return call.error();
        (*call)->phase = Phase::done;
        (*call)->input = done.input;
        (*call)->result = done.result;
    }
    for (const ApprovedToolCall& approved : state.approved_tool_calls) {
        const Result<BatchCall*> call = place(approved.id);
        if (!call) return call.error();
        (*call)->phase = Phase::approved;
        (*call)->input = approved.input;
    }
    for (const PendingToolCall& pending : state.pending_tool_calls) {
        const Result<BatchCall*> call = place(pending.id);
        if (!call) return call.error();
        (*call)->phase = Phase::pending;
        (*call)->input = pending.input;
        (*call)->pending = pending;
    }
    return batch;
}

BatchCall* ToolBatch::find(const CallId& id) {
    const auto call = std::ranges::find(calls_, id, &BatchCall::id);
    return call == calls_.end() ? nullptr : &*call;
}

bool ToolBatch::has_pending() const {
    return std::ranges::find(calls_, Phase::pending, &BatchCall::phase) != calls_.end();
}

bool ToolBatch::has_runnable() const {
    return std::ranges::any_of(calls_, [](const BatchCall& call) {
        return call.phase == Phase::not_started || call.phase == Phase::approved;
    });
}

Result<void> ToolBatch::check_answers(const Answers& answers) {
    for (std::size_t i = 0; i < answers.size(); ++i) {
        const CallId& id = answers[i].first;
        const BatchCall* call = find(id);
        const bool again = std::ranges::find(answers, id, &Answers::value_type::first) !=
                           answers.begin() + static_cast<std::ptrdiff_t>(i);
        if (call == nullptr || call->phase != Phase::pending || again) return unknown_call(id);
    }
    for (const auto& [id, answer] : answers) {
        if (Result<void> fits = check_answer(*find(id), answer); !fits) return fits;
    }
    return {};
}

Message ToolBatch::results() const {
    Message message;
    for (const BatchCall& call : calls_) {
        if (!call.result) continue;
        message.content.emplace_back(
            ToolResultBlock{call.id, call.result->content, call.result->is_error, {}});
    }
    return message;
}

void make_call_ids_unique(Content& content) {
    std::vector<std::string> seen;
    for (Block& block : content) {
        const auto* use = block.get_if<ToolUseBlock>();
        if (use == nullptr) continue;
        std::string id = use->id.text.empty() ? "call" : use->id.text;
        const std::string stem = id;
        for (int n = 2; std::ranges::find(seen, id) != seen.end(); ++n)
            id = stem + "_" + std::to_string(n);
        if (id != use->id.text) {
            ToolUseBlock renamed = *use;
            renamed.id.text = id;
            block = Block(std::move(renamed));
        }
        seen.push_back(std::move(id));
    }
}

ToolOutcome well_formed(ToolOutcome outcome) {
    if (outcome.result.has_value() != outcome.suspend.has_value()) {
        if (outcome.result && outcome.result->content.absent()) {
            outcome.result->content = RawJson::trusted("\"\"");
        }
        return outcome;
    }
    return ToolOutcome::error(outcome.result
                                  ? "malformed tool outcome: a result and a suspension at once"
                                  : "malformed tool outcome: neither a result nor a suspension");
}

PendingToolCall make_pending(const BatchCall& call, const Suspend& suspend) {
    PendingToolCall pending;
    pending.id = call.id;
    pending.name = call.name;
    pending.input = call.input;
    pending.prompt = suspend.prompt;
    pending.metadata = suspend.metadata;
    pending.reason = suspend.reason;
    pending.waits_for = suspend.waits_for;
    pending.pending_id = call.pending_id;
    if (suspend.timeout) pending.timeout_ms = suspend.timeout->count();
    return pending;
}

PendingToolCall make_approval(const BatchCall& call) {
    Suspend suspend;
    suspend.prompt = "May " + call.name + " run with this input?";
    suspend.reason = SuspendReason::approval_required;
    suspend.waits_for = WaitsFor::person;
    return make_pending(call, suspend);
}

PendingToolCall make_question(const BatchCall& call) {
    Suspend suspend;
    suspend.prompt = lost_call_question(call.name);
    suspend.waits_for = WaitsFor::person;
    return make_pending(call, suspend);
}

}  // namespace rouse
