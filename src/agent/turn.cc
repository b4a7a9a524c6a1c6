#include "agent/turn.h"

#include <algorithm>
#include <boost/asio/this_coro.hpp>
#include <iterator>
#include <stdexcept>

#include "agent/tool_call.h"

namespace rouse {
namespace {

namespace asio = boost::asio;
using Phase = BatchCall::Phase;

Error cancelled() {
    return {ErrorKind::cancelled, "cancelled", "the call was cancelled"};
}

Error exception(const std::exception& thrown) {
    return {ErrorKind::internal, "exception",
            std::string("a model, a hook or a session threw: ") + thrown.what()};
}

}  // namespace

const CheckedTool* AgentSettings::find_tool(std::string_view name) const {
    const auto has_name = [&](const CheckedTool& one) { return one.tool->spec().name == name; };
    const auto found = std::ranges::find_if(tools, has_name);
    return found == tools.end() ? nullptr : &*found;
}

TurnRunner::TurnRunner(std::shared_ptr<const AgentSettings> settings, AgentRequest request)
    : settings_(std::move(settings)),
      request_(std::move(request)),
      caller_(settings_->options.retry, request_.session.get()) {}

Error time_limit_reached() {
    return {ErrorKind::timeout, "time_limit", "the call took longer than its time_limit"};
}

Task<TurnResult> run_turn(std::shared_ptr<const AgentSettings> settings, AgentRequest request,
                          const bool* late) {
    TurnRunner turn(std::move(settings), std::move(request));
    Result<void> done;
    try {
        done = co_await turn.run();
    } catch (const boost::system::system_error& thrown) {
        const bool stopped = thrown.code() == asio::error::operation_aborted;
        done = stopped ? cancelled() : exception(thrown);
    } catch (const std::exception& thrown) {
        done = exception(thrown);
    } catch (...) {
        done = exception(std::runtime_error("something that is no std::exception"));
    }
    if (!done && done.error().kind == ErrorKind::cancelled && late != nullptr && *late) {
        done = time_limit_reached();
    }
    if (!done && turn.has_begun()) {
        co_await asio::this_coro::reset_cancellation_state();
        co_await turn.note_failure(done.error());
    }
    co_return turn.take_result(done);
}

Task<void> TurnRunner::note_failure(const Error& error) {
    const Result<void> noted = co_await request_.session->turn_failed(error);
    if (!noted && settings_->options.on_warning) {
        settings_->options.on_warning("the end of the turn was not saved: " +
                                      noted.error().message);
    }
}

TurnResult TurnRunner::take_result(const Result<void>& done) {
    response_.output_messages.assign(
        std::make_move_iterator(turn_.begin() + static_cast<std::ptrdiff_t>(first_output_)),
        std::make_move_iterator(turn_.end()));
    response_.usage = usage_;
    if (done) return std::move(response_);
    TurnError failed(done.error());
    failed.usage = usage_;
    failed.output_messages = std::move(response_.output_messages);
    failed.items = std::move(response_.items);
    return std::unexpected(std::move(failed));
}

Task<Result<void>> TurnRunner::run() {
    Result<void> begun = co_await start();
    if (begun && !finished_ && has_session()) begun = co_await read_history();
    if (!begun) co_return begun;
    while (!finished_) {
        const asio::cancellation_state mine = co_await asio::this_coro::cancellation_state;
        if (mine.cancelled() != asio::cancellation_type::none) co_return cancelled();
        Result<void> done;
        if (batch_.has_pending()) {
            // Answers for a part of the calls leave the rest waiting; nothing else happened.
            Task<Result<void>> parked = only_answers_ ? park_again() : suspend();
            done = co_await std::move(parked);
        } else if (batch_.has_runnable()) {
            done = co_await work_on_batch();
        } else if (!batch_.empty()) {
            finish_batch();
        } else {
            done = co_await generate();
        }
        if (!done) co_return done;
    }
    co_return Result<void>();
}

// ---- the loop -------------------------------------------------------------------------------

Task<Result<void>> TurnRunner::work_on_batch() {
    only_answers_ = false;
    ToolCaller caller(*settings_, request_.session.get());
    Result<std::vector<ToolCallReport>> reports = co_await caller.run(batch_);
    if (!reports) co_return reports.error();
    for (ToolCallReport& report : *reports) {
        BatchCall& call = *batch_.find(report.id);
        ToolResultItem item{call.id, call.name, {}};
        if (call.result) item.outcome = *call.result;
        if (call.pending) item.outcome = *call.pending;
        if (Result<void> sent = emit(std::move(item)); !sent) co_return sent;
        if (report.additional_context.empty()) continue;
        Message message = user_message(std::move(report.additional_context));
        if (Result<void> said = co_await say(std::move(message)); !said) co_return said;
    }
    co_return Result<void>();
}

void TurnRunner::finish_batch() {
    turn_.insert(turn_.begin() + static_cast<std::ptrdiff_t>(batch_at_) + 1, batch_.results());
    // What a resumed call added begins with these results.
    if (first_output_ > batch_at_ + 1) first_output_ = batch_at_ + 1;
    batch_ = ToolBatch();
}

Task<Result<void>> TurnRunner::generate() {
    only_answers_ = false;
    if (std::optional<std::string> prompt = over_budget()) {
        co_return co_await wait_for_person(*std::move(prompt));
    }
    if (iterations_++ >= settings_->options.max_iterations) {
        const std::string calls = std::to_string(settings_->options.max_iterations);
        if (has_session() && request_.session->paid()) {
            std::string prompt = "This turn did not end within " + calls +
                                 " model calls. A message lets it go on for as many again.";
            co_return co_await wait_for_person(std::move(prompt));
        }
        co_return Error(ErrorKind::unavailable, "iteration_limit",
                        "the turn did not end within " + calls +
                            " model calls; raise max_iterations or look at its tools");
    }
    if (has_session()) {
        Result<std::optional<Message>> mail = co_await request_.session->new_mail();
        if (!mail) co_return mail.error();
        if (*mail) turn_.push_back(**std::move(mail));
    }
    Replacement replacement;
    if (has_hooks(HookPoint::pre_generation)) {
        Result<void> agreed = co_await ask_for_replacement(replacement);
        if (!agreed) co_return agreed;
    }
    Model& model = request_.model ? *request_.model : *settings_->options.model;
    if (has_session() && !model.stays_inside()) {
        if (Result<void> safe = co_await request_.session->reach_disk(); !safe) co_return safe;
    }
    Result<ModelResponse> answer = co_await ask_model(model, replacement);
    if (!answer) co_return answer.error();
    add_answer(*answer);
    if (has_session()) {
        if (Result<void> added = co_await save_answer(*answer); !added) co_return added;
    }
    if (Result<void> sent = emit_calls(); !sent) co_return sent;
    if (answer->cut && !batch_.empty()) co_return co_await refuse_cut_calls();
    cut_in_a_row_ = 0;
    if (!batch_.empty()) co_return Result<void>();
    if (has_hooks(HookPoint::stop)) {
        const Result<bool> stops = co_await wants_to_stop();
        if (!stops) co_return stops.error();
        if (!*stops) co_return Result<void>();
    }
    co_return co_await complete();
}

Task<Result<ModelResponse>> TurnRunner::ask_model(Model& model, const Replacement& replacement) {
    ModelRequest request;
    if (has_session()) request.session_id = request_.session->id();
    request.system = settings_->options.system_prompt;
    if (replacement.system) request.system = *replacement.system;
    request.history = history_;
    if (replacement.history) request.history = *replacement.history;
    request.turn = turn_;
    request.tools = settings_->specs;
    const Model::OnText on_text = [this](std::string_view text) -> Result<void> {
        if (!request_.on_item) return {};
        return request_.on_item(TextDelta{std::string(text)});
    };
    return caller_.ask(model, std::move(request), on_text);
}

Task<Result<void>> TurnRunner::ask_for_replacement(Replacement& replacement) {
    HookContext context = turn_context();
    Result<void> agreed = co_await call_hooks(HookPoint::pre_generation, context);
    replacement.system = std::move(context.replace_system);
    replacement.history = std::move(context.replace_history);
    co_return agreed;
}

void TurnRunner::add_answer(ModelResponse& answer) {
    usage_ += answer.usage;
    make_call_ids_unique(answer.content);
    turn_.push_back({Role::assistant, std::move(answer.content), {}});
    batch_ = ToolBatch(turn_.back());
    batch_at_ = turn_.size() - 1;
}

Task<Result<void>> TurnRunner::save_answer(ModelResponse& answer) {
    return request_.session->add_assistant(
        {turn_.back(), std::move(answer.model), std::move(answer.stop_reason), answer.usage});
}

Result<void> TurnRunner::emit_calls() {
    for (const BatchCall& call : batch_.calls()) {
        if (Result<void> sent = emit(ToolCallItem{call.id, call.name, call.input}); !sent) {
            return sent;
        }
    }
    return {};
}

// Half an input must not run, and neither must the calls before it: the model had not finished
// saying what it wants. It is told, and may try again.
Task<Result<void>> TurnRunner::refuse_cut_calls() {
    constexpr std::size_t kPatience = 3;
    const ToolResult refusal = error_result(
        "Not run: the message ended before it was whole, most likely at its token limit. Make "
        "smaller calls, or fewer at once.");
    for (BatchCall& call : batch_.calls()) {
        call.phase = Phase::done;
        call.result = refusal;
        if (has_session()) {
            const Result<ToolResult> noted =
                co_await request_.session->call_ended(call.id, refusal);
            if (!noted) co_return noted.error();
        }
        ToolResultItem item{call.id, call.name, refusal};
        if (Result<void> sent = emit(std::move(item)); !sent) co_return sent;
    }
    if (++cut_in_a_row_ < kPatience) co_return Result<void>();
    co_return Error(ErrorKind::unavailable, "answers_cut",
                    "the model's answers end in the middle of tool calls, again and again: raise "
                    "max_tokens");
}

std::optional<std::string> TurnRunner::over_budget() const {
    const TokenBudget& budget = settings_->options.budget;
    if (!has_session() || (!budget.per_run && !budget.per_session)) return std::nullopt;
    const std::optional<Session::Paid> paid = request_.session->paid();
    if (!paid) return std::nullopt;
    const auto words = [](std::string_view what, std::int64_t used, std::int64_t of) {
        return "This " + std::string(what) + " has used " + std::to_string(used) +
               " tokens; its budget is " + std::to_string(of) +
               ". A message lets it go on for as many again.";
    };
    if (budget.per_session && paid->session >= *budget.per_session) {
        return words("session", paid->session, *budget.per_session);
    }
    if (budget.per_run && paid->run >= *budget.per_run) {
        return words("run", paid->run, *budget.per_run);
    }
    return std::nullopt;
}

Task<Result<void>> TurnRunner::wait_for_person(std::string prompt) {
    Session::InputWait wait{std::move(prompt), settings_->options.approval_timeout};
    Result<Suspension> saved = co_await request_.session->wait_for_input(std::move(wait));
    if (!saved) co_return saved.error();
    finished_ = true;
    response_.status = ResponseStatus::suspended;
    response_.suspension = *std::move(saved);
    if (!request_.on_item) co_return Result<void>();
    co_return request_.on_item(SuspendedItem{*response_.suspension});
}

Task<Result<bool>> TurnRunner::wants_to_stop() {
    HookContext context = turn_context();
    const Result<void> agreed = co_await call_hooks(HookPoint::stop, context);
    if (!agreed) co_return agreed.error();
    if (!context.go_on_because) co_return true;
    Message message = user_message(*std::move(context.go_on_because));
    const Result<void> said = co_await say(std::move(message));
    if (!said) co_return said.error();
    co_return false;
}

// ---- ending ---------------------------------------------------------------------------------

Task<Result<void>> TurnRunner::suspend() {
    Suspension state = suspension();
    for (const HookPoint point : {HookPoint::on_suspend, HookPoint::post_generation}) {
        if (!has_hooks(point)) continue;
        if (Result<void> agreed = co_await show_suspension(point, state); !agreed) co_return agreed;
    }
    if (has_session()) {
        Result<void> saved = co_await save_suspended(state);
        if (!saved || !batch_.has_pending()) co_return saved;
    }
    finished_ = true;
    response_.status = ResponseStatus::suspended;
    Message partial = batch_.results();
    if (!partial.content.empty()) turn_.push_back(std::move(partial));
    response_.suspension = std::move(state);
    if (!request_.on_item) co_return Result<void>();
    co_return request_.on_item(SuspendedItem{*response_.suspension});
}

Task<Result<void>> TurnRunner::show_suspension(HookPoint point, const Suspension& state) {
    HookContext context = turn_context();
    if (Message partial = batch_.results(); !partial.content.empty()) {
        context.output_messages.push_back(std::move(partial));
    }
    context.suspension = state;
    co_return co_await call_hooks(point, context);
}

// What was settled meanwhile is settled in the batch too.
Task<Result<void>> TurnRunner::save_suspended(Suspension& state) {
    const std::size_t pending = state.pending_tool_calls.size();
    Result<Suspension> saved = co_await request_.session->save_suspended_turn(std::move(state));
    if (!saved) co_return saved.error();
    const bool settled_meanwhile = saved->pending_tool_calls.size() < pending;
    state = *std::move(saved);
    if (!settled_meanwhile) co_return Result<void>();
    Result<ToolBatch> batch = ToolBatch::restore(turn_[batch_at_], state);
    if (!batch) co_return batch.error();
    batch_ = *std::move(batch);
    co_return Result<void>();
}

Task<Result<void>> TurnRunner::park_again() {
    Suspension state = suspension();
    if (has_session()) {
        Result<Suspension> saved = co_await request_.session->save_suspended_turn(std::move(state));
        if (!saved) co_return saved.error();
        state = *std::move(saved);
    }
    finished_ = true;
    first_output_ = turn_.size();
    response_.status = ResponseStatus::suspended;
    response_.suspension = std::move(state);
    co_return Result<void>();
}

Task<Result<void>> TurnRunner::complete() {
    if (has_hooks(HookPoint::post_generation)) {
        Result<void> agreed = co_await show_end();
        if (!agreed) co_return agreed;
    }
    if (has_session()) {
        Result<void> saved = co_await save_end();
        if (!saved) co_return saved;
    }
    finished_ = true;
    if (resumed_) {
        response_.suspension.emplace();
        response_.suspension->turn_messages = turn_;
        response_.suspension->usage = usage_;
    }
    if (!request_.on_item) co_return Result<void>();
    co_return request_.on_item(CompletedItem{});
}

Task<Result<void>> TurnRunner::show_end() {
    HookContext context = turn_context();
    co_return co_await call_hooks(HookPoint::post_generation, context);
}

Task<Result<void>> TurnRunner::save_end() {
    Turn turn{turn_, usage_};
    return kept_suspended_ ? request_.session->save_resumed_turn(std::move(turn))
                           : request_.session->save_turn(std::move(turn));
}

// ---- small things ---------------------------------------------------------------------------

Task<Result<void>> TurnRunner::call_hooks(HookPoint point, HookContext& context) {
    if (const CheckedTool* tool = settings_->find_tool(context.tool_name)) {
        context.tool = tool->tool.get();
    }
    if (has_session()) context.session_id = request_.session->id();
    co_return co_await run_hooks(settings_->options, point, context);
}

Task<Result<void>> TurnRunner::say(Message message) {
    turn_.push_back(std::move(message));
    if (!has_session()) co_return Result<void>();
    co_return co_await request_.session->add_user(turn_.back());
}

Result<void> TurnRunner::emit(Item item) {
    response_.items.push_back(std::move(item));
    if (!request_.on_item) return {};
    return request_.on_item(response_.items.back());
}

HookContext TurnRunner::turn_context() const {
    HookContext context;
    context.usage = usage_;
    context.output_messages.assign(turn_.begin() + static_cast<std::ptrdiff_t>(first_output_),
                                   turn_.end());
    return context;
}

Suspension TurnRunner::suspension() const {
    Suspension state;
    for (const BatchCall& call : batch_.calls()) {
        switch (call.phase) {
            case Phase::pending: state.pending_tool_calls.push_back(*call.pending); break;
            case Phase::approved:
                state.approved_tool_calls.push_back({call.id, call.input, {}});
                break;
            case Phase::done:
                state.completed_tool_calls.push_back(
                    {call.id, call.name, call.input, *call.result, {}});
                break;
            case Phase::not_started: break;
        }
    }
    state.turn_messages = turn_;
    state.usage = usage_;
    return state;
}

}  // namespace rouse
