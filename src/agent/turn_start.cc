// TurnRunner: how a turn begins, with a message, with answers or after a crash.

#include <algorithm>

#include "agent/tool_call.h"
#include "agent/turn.h"

namespace rouse {
namespace {

using Phase = BatchCall::Phase;

Error precondition(std::string_view reason, std::string message) {
    return {ErrorKind::precondition, reason, std::move(message)};
}

// Where the calls of a suspended turn stand: its last assistant message.
Result<std::size_t> find_batch(const std::vector<Message>& messages) {
    for (std::size_t i = messages.size(); i-- > 0;) {
        if (messages[i].role == Role::assistant) return i;
    }
    return Error(ErrorKind::invalid, "malformed_suspension",
                 "the suspension is not one of ours: it has no message of the assistant");
}

void take_answer_of(BatchCall& call, Answer& answer) {
    call.pending.reset();
    const auto* approval = std::get_if<Approval>(&answer);
    if (approval != nullptr && approval->approve) {
        call.phase = Phase::approved;
        if (!approval->input.absent()) call.input = approval->input;
        return;
    }
    call.phase = Phase::done;
    call.result = approval != nullptr
                      ? error_result(approval->message.empty() ? "Denied" : approval->message)
                      : std::get<ToolResult>(std::move(answer));
}

}  // namespace

Task<Result<void>> TurnRunner::start() {
    if (!settings_->options.model && !request_.model) {
        co_return Error(ErrorKind::invalid, "no_model", "the agent has no model; give it one");
    }
    if (settings_->mistake) co_return *settings_->mistake;
    if (has_session()) {
        Result<void> loaded = co_await load_suspension();
        if (!loaded) co_return loaded;
    }
    if (request_.state) {
        if (Result<void> fits = check_resume(); !fits) co_return fits;
        if (Result<void> restored = restore_turn(*std::move(request_.state)); !restored) {
            co_return restored;
        }
        co_return co_await take_answers();
    }
    if (!request_.answers.empty()) {
        co_return precondition("no_suspended_turn",
                               "nothing is suspended: send a message instead of answers");
    }
    if (request_.go_on) co_return co_await start_after_crash();
    if (request_.messages.empty()) {
        co_return Error(ErrorKind::invalid, "nothing_to_do", "there is no message to answer");
    }
    turn_ = std::move(request_.messages);
    first_output_ = turn_.size();
    if (has_session()) co_return co_await begin_turn();
    co_return Result<void>();
}

// Puts the turn that the session keeps into the request, as if it had been passed.
Task<Result<void>> TurnRunner::load_suspension() {
    Session& session = *request_.session;
    Result<std::optional<Suspension>> loaded = co_await session.load_suspension();
    if (!loaded) co_return loaded.error();
    std::optional<Suspension>& stored = *loaded;
    if (!stored) {
        if (!session.keeps_suspensions() || !request_.state) co_return Result<void>();
        co_return precondition(
            "session_not_suspended",
            "the session waits for nothing, so there is no turn to resume: leave "
            "out state and answers");
    }
    kept_suspended_ = true;
    if (Result<void> fits = check_resume(); !fits) co_return fits;
    if (request_.state) {
        Result<Suspension> chosen = session.choose_state(*stored, *request_.state);
        if (!chosen) co_return chosen.error();
        stored = *std::move(chosen);
    }
    request_.state = std::move(stored);
    co_return Result<void>();
}

Result<void> TurnRunner::check_resume() const {
    if (!request_.messages.empty()) {
        return Error(ErrorKind::conflict, "input_on_suspended_session",
                     "the turn waits for results: send answers for its pending calls, or cancel "
                     "the suspension, before a new message");
    }
    if (request_.answers.empty()) {
        return precondition("resume_required",
                            "the turn is suspended: give answers for its pending calls");
    }
    return {};
}

// Once the session knows of the turn: beginning one may turn what a crash left into history.
Task<Result<void>> TurnRunner::read_history() {
    const Result<std::span<const Message>> history = co_await request_.session->history();
    if (!history) co_return history.error();
    history_ = *history;
    co_return Result<void>();
}

Task<Result<void>> TurnRunner::begin_turn() {
    const bool goes_on = request_.session->waits_for_input();
    Result<void> begun = co_await request_.session->begin_turn(turn_);
    begun_ = begun.has_value();
    if (!begun || !goes_on) co_return begun;
    Result<std::optional<Session::Interrupted>> left = co_await request_.session->interrupted();
    if (!left) co_return left.error();
    if (*left) co_return co_await take_up(**std::move(left));
    co_return Result<void>();
}

Result<void> TurnRunner::restore_turn(Suspension state) {
    resumed_ = true;
    only_answers_ = true;
    const Result<std::size_t> at = find_batch(state.turn_messages);
    if (!at) return at.error();
    Result<ToolBatch> batch = ToolBatch::restore(state.turn_messages[*at], state);
    if (!batch) return batch.error();
    batch_ = *std::move(batch);
    batch_at_ = *at;
    usage_ = state.usage;
    turn_ = std::move(state.turn_messages);
    first_output_ = turn_.size();
    if (!batch_.has_pending()) {
        return precondition("no_suspended_turn", "the suspension has no pending call");
    }
    return {};
}

// Nobody is told of anything before every hook has agreed and the session has the answers.
Task<Result<void>> TurnRunner::take_answers() {
    if (Result<void> fits = batch_.check_answers(request_.answers); !fits) co_return fits;
    std::vector<std::string> contexts;
    std::vector<BatchCall*> answered;
    for (BatchCall& call : batch_.calls()) {
        const auto given =
            std::ranges::find(request_.answers, call.id, &Answers::value_type::first);
        if (given == request_.answers.end()) continue;
        answered.push_back(&call);
        take_answer_of(call, given->second);
        if (call.phase != Phase::done || !has_hooks(result_point(*call.result))) continue;
        if (Result<void> agreed = co_await show_answer(call, contexts); !agreed) co_return agreed;
    }
    if (has_session()) {
        if (Result<void> taken = co_await save_answers(answered); !taken) co_return taken;
        begun_ = true;
    }
    for (const BatchCall* call : answered) {
        if (call->phase != Phase::done) continue;
        ToolResultItem item{call->id, call->name, *call->result};
        if (Result<void> sent = emit(std::move(item)); !sent) co_return sent;
    }
    for (std::string& context : contexts) {
        Message message = user_message(std::move(context));
        if (Result<void> said = co_await say(std::move(message)); !said) co_return said;
    }
    co_return Result<void>();
}

Task<Result<void>> TurnRunner::show_answer(BatchCall& call, std::vector<std::string>& contexts) {
    HookContext context;
    context.call_id = call.id;
    context.tool_name = call.name;
    context.input = call.input;
    context.result = call.result;
    Result<void> agreed = co_await call_hooks(result_point(*call.result), context);
    if (!agreed) co_return agreed;
    if (context.result) call.result = *std::move(context.result);
    if (!context.additional_context.empty()) contexts.push_back(context.additional_context);
    co_return Result<void>();
}

// An approval as it was given, a result as the hooks left it.
Task<Result<void>> TurnRunner::save_answers(std::vector<BatchCall*> answered) {
    Answers accepted;
    for (const BatchCall* call : answered) {
        if (call->phase == Phase::done) {
            accepted.emplace_back(call->id, *call->result);
        } else {
            accepted.push_back(
                *std::ranges::find(request_.answers, call->id, &Answers::value_type::first));
        }
    }
    co_return co_await request_.session->accept_answers(std::move(accepted));
}

Task<Result<void>> TurnRunner::start_after_crash() {
    std::optional<Session::Interrupted> left;
    if (has_session()) {
        Result<std::optional<Session::Interrupted>> found =
            co_await request_.session->interrupted();
        if (!found) co_return found.error();
        left = *std::move(found);
    }
    if (!left) {
        co_return precondition("not_interrupted",
                               "no turn was interrupted: send a message instead of go_on");
    }
    if (Result<void> ours = co_await request_.session->go_on(); !ours) co_return ours;
    begun_ = true;
    co_return co_await take_up(*std::move(left));
}

// A turn as the session has it, to go on with.
Task<Result<void>> TurnRunner::take_up(Session::Interrupted left) {
    Suspension& state = left.so_far;
    usage_ = state.usage;
    resumed_ = left.resumed;
    if (const Result<std::size_t> at = find_batch(state.turn_messages)) {
        Result<ToolBatch> batch = ToolBatch::restore(state.turn_messages[*at], state);
        if (!batch) co_return batch.error();
        batch_ = *std::move(batch);
        batch_at_ = *at;
    }
    turn_ = std::move(state.turn_messages);
    first_output_ = turn_.size();
    for (const CallId& id : left.may_have_run) {
        BatchCall* call = batch_.find(id);
        if (call == nullptr || call->phase == Phase::done) continue;
        const CheckedTool* tool = settings_->find_tool(call->name);
        const bool again = tool != nullptr && may_run_again(tool->tool->spec());
        if (again) continue;
        const bool asks = settings_->options.ask_if_unknown;
        if (tool != nullptr && tool->tool->spec().annotations.ask_if_unknown.value_or(asks)) {
            call->phase = Phase::pending;
            call->pending = make_question(*call);
            continue;
        }
        call->phase = Phase::done;
        call->result = error_result(kMayHaveRun);
        const Result<ToolResult> noted = co_await request_.session->call_ended(id, *call->result);
        if (!noted) co_return noted.error();
    }
    // Killed between its last word and the end: there is nothing left but to end it.
    if (!turn_.empty() && turn_.back().role == Role::assistant && batch_.empty()) {
        co_return co_await complete();
    }
    co_return Result<void>();
}

}  // namespace rouse
