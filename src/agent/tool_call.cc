#include "agent/tool_call.h"

#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/this_coro.hpp>
#include <exception>

#include "agent/gather.h"
#include "agent/turn.h"

namespace rouse {
namespace {

using Phase = BatchCall::Phase;

Error aborted(HookPoint point, const std::string& message) {
    return {ErrorKind::conflict, "hook_abort",
            std::string(to_string(point)) + " hook ended the call: " + message};
}

}  // namespace

bool may_run_again(const ToolSpec& spec) {
    return spec.annotations.read_only || spec.annotations.idempotent;
}

Task<Result<void>> run_hooks(const AgentOptions& options, HookPoint point, HookContext& context) {
    context.point = point;
    for (const Hook& hook : options.hooks.at(point)) {
        const HookVerdict verdict = co_await hook(context);
        if (verdict.kind == HookVerdict::Kind::abort) co_return aborted(point, verdict.message);
        if (verdict.kind == HookVerdict::Kind::error && options.on_warning) {
            options.on_warning(std::string(to_string(point)) + " hook: " + verdict.message);
        }
    }
    co_return Result<void>();
}

HookPoint result_point(const ToolResult& result) {
    return result.is_error ? HookPoint::post_tool_use_failure : HookPoint::post_tool_use;
}

Task<Result<std::vector<ToolCallReport>>> ToolCaller::run(ToolBatch& batch) {
    std::vector<BatchCall*> runnable;
    for (BatchCall& call : batch.calls()) {
        if (call.phase == Phase::not_started || call.phase == Phase::approved) {
            runnable.push_back(&call);
        }
    }
    if (!settings_.options.parallel_tool_calls || runnable.size() == 1) {
        return run_in_order(std::move(runnable));
    }
    return run_together(std::move(runnable));
}

Task<Result<std::vector<ToolCallReport>>> ToolCaller::run_in_order(std::vector<BatchCall*> calls) {
    std::vector<ToolCallReport> reports;
    for (BatchCall* call : calls) {
        if (has_hooks(HookPoint::pre_tool_use)) {
            const Result<void> agreed = co_await show_call(*call);
            if (!agreed) co_return agreed.error();
        }
        if (!settle_early(*call) && session_ != nullptr) {
            std::vector<BatchCall*> one(1, call);
            const Result<void> told = co_await announce(std::move(one));
            if (!told) co_return told.error();
        }
        Report report = co_await execute(*call);
        if (!report) co_return report.error();
        reports.push_back(*std::move(report));
        if (call->phase == Phase::pending) break;
    }
    co_return reports;
}

Task<Result<std::vector<ToolCallReport>>> ToolCaller::run_together(std::vector<BatchCall*> calls) {
    std::vector<BatchCall*> to_run;
    for (BatchCall* call : calls) {
        if (has_hooks(HookPoint::pre_tool_use)) {
            const Result<void> agreed = co_await show_call(*call);
            if (!agreed) co_return agreed.error();
        }
        if (!settle_early(*call)) to_run.push_back(call);
    }
    if (session_ != nullptr) {
        const Result<void> told = co_await announce(std::move(to_run));
        if (!told) co_return told.error();
    }
    std::vector<Task<Report>> tasks;
    tasks.reserve(calls.size());
    for (BatchCall* call : calls)
        tasks.push_back(execute(*call));
    std::vector<Report> finished = co_await gather(std::move(tasks));
    std::vector<ToolCallReport> reports;
    for (Report& report : finished) {
        if (!report) co_return report.error();
        reports.push_back(*std::move(report));
    }
    co_return reports;
}

HookContext ToolCaller::hook_context(const BatchCall& call) const {
    HookContext context;
    if (session_ != nullptr) context.session_id = session_->id();
    const CheckedTool* checked = settings_.find_tool(call.name);
    context.tool = checked == nullptr ? nullptr : checked->tool.get();
    context.call_id = call.id;
    context.tool_name = call.name;
    context.input = call.input;
    return context;
}

bool ToolCaller::has_hooks(HookPoint point) const {
    return !settings_.options.hooks.at(point).empty();
}

Task<Result<void>> ToolCaller::show_call(BatchCall& call) {
    HookContext context = hook_context(call);
    Result<void> agreed = co_await run_hooks(settings_.options, HookPoint::pre_tool_use, context);
    if (!agreed) co_return agreed;
    // What a person approved runs as it was approved.
    if (call.phase != Phase::approved) call.input = std::move(context.input);
    if (context.result) call.result = *std::move(context.result);
    co_return Result<void>();
}

bool ToolCaller::settle_early(BatchCall& call) const {
    if (call.result) return true;
    const CheckedTool* checked = settings_.find_tool(call.name);
    if (checked == nullptr) {
        call.result = error_result("there is no tool named " + call.name);
        return true;
    }
    if (const Result<void> fits = checked->schema.check_object(call.input); !fits) {
        call.result =
            error_result("the input does not fit the tool's parameters: " + fits.error().message);
        return true;
    }
    if (checked->tool->spec().annotations.approval && call.phase == Phase::not_started) {
        call.pending = make_approval(call);
        if (const auto timeout = settings_.options.approval_timeout) {
            call.pending->timeout_ms = timeout->count();
        }
        return true;
    }
    return false;
}

// A call that can reach the outside is on disk as started before it starts.
Task<Result<void>> ToolCaller::announce(std::vector<BatchCall*> calls) {
    std::vector<CallId> started;
    std::vector<BatchCall*> later;
    bool leaves = false;
    for (BatchCall* call : calls) {
        const ToolSpec& spec = settings_.find_tool(call->name)->tool->spec();
        if (spec.async) {
            later.push_back(call);
        } else if (!may_run_again(spec)) {
            started.push_back(call->id);
        } else if (!spec.annotations.stays_inside) {
            leaves = true;
        }
    }
    if (leaves) {
        if (Result<void> safe = co_await session_->reach_disk(); !safe) co_return safe;
    }
    if (!later.empty()) {
        const Result<void> pending = co_await make_calls_pending(std::move(later));
        if (!pending) co_return pending;
    }
    if (started.empty()) co_return Result<void>();
    co_return co_await session_->calls_starting(std::move(started));
}

Task<Result<void>> ToolCaller::make_calls_pending(std::vector<BatchCall*> calls) {
    std::vector<Session::Starting> starting;
    for (const BatchCall* call : calls) {
        const ToolSpec& spec = settings_.find_tool(call->name)->tool->spec();
        Suspend suspend;
        suspend.timeout = spec.timeout;
        const bool asks =
            spec.annotations.ask_if_unknown.value_or(settings_.options.ask_if_unknown);
        PendingToolCall pending = make_pending(*call, suspend);
        pending.callback = spec.callback;
        starting.push_back({std::move(pending), spec.local, asks, may_run_again(spec)});
    }
    const Result<std::vector<PendingId>> made =
        co_await session_->calls_pending(std::move(starting));
    if (!made) co_return made.error();
    for (std::size_t i = 0; i < calls.size(); ++i)
        calls[i]->pending_id = made->at(i);
    co_return Result<void>();
}

Task<ToolCaller::Report> ToolCaller::execute(BatchCall& call) {
    ToolCallReport report{call.id, {}};
    if (call.pending) {
        call.phase = Phase::pending;
        co_return report;
    }
    ToolOutcome outcome;
    if (call.result) {
        outcome.result = std::move(call.result);
    } else {
        outcome = co_await call_tool(call);
    }
    outcome = well_formed(std::move(outcome));
    if (outcome.suspend) {
        make_call_pending(call, *outcome.suspend);
        if (session_ == nullptr || call.pending_id.empty()) co_return report;
        const Result<void> noted = co_await save_started(call, *std::move(outcome.suspend));
        if (!noted) co_return noted.error();
        co_return report;
    }
    call.phase = Phase::done;
    call.result = std::move(outcome.result);
    if (has_hooks(result_point(*call.result))) {
        const Result<void> agreed = co_await show_result(call, report);
        if (!agreed) co_return agreed.error();
    }
    if (session_ != nullptr) {
        Result<ToolResult> counts = co_await session_->call_ended(call.id, *call.result);
        if (!counts) co_return counts.error();
        call.result = *std::move(counts);
    }
    co_return report;
}

Task<ToolOutcome> ToolCaller::call_tool(BatchCall& call) {
    Tool& tool = *settings_.find_tool(call.name)->tool;
    ToolCall request{call.id, call.name, call.input, {}, call.pending_id};
    if (session_ != nullptr) {
        request.session_id = session_->id();
        request.message_id = session_->latest_step();
    }
    std::exception_ptr thrown;
    std::string what = "something that is no std::exception";
    try {
        co_return co_await tool.call(std::move(request));
    } catch (const std::exception& error) {
        thrown = std::current_exception();
        what = error.what();
    } catch (...) {
        thrown = std::current_exception();
    }
    const auto mine = co_await boost::asio::this_coro::cancellation_state;
    if (mine.cancelled() != boost::asio::cancellation_type::none) std::rethrow_exception(thrown);
    co_return ToolOutcome::error("the tool failed: " + what);
}

void ToolCaller::make_call_pending(BatchCall& call, Suspend& suspend) const {
    call.phase = Phase::pending;
    const ToolSpec& spec = settings_.find_tool(call.name)->tool->spec();
    if (!suspend.timeout) suspend.timeout = spec.timeout;
    call.pending = make_pending(call, suspend);
    call.pending->callback = spec.callback;
}

Task<Result<void>> ToolCaller::save_started(const BatchCall& call, Suspend suspend) {
    Session::Started started{*call.pending, std::move(suspend.external_ref), suspend.estimated};
    co_return co_await session_->call_started(std::move(started));
}

Task<Result<void>> ToolCaller::show_result(BatchCall& call, ToolCallReport& report) {
    HookContext context = hook_context(call);
    context.result = call.result;
    Result<void> agreed =
        co_await run_hooks(settings_.options, result_point(*call.result), context);
    if (!agreed) co_return agreed;
    // A hook that takes the result away would leave a call without one.
    if (context.result) call.result = std::move(context.result);
    report.additional_context = std::move(context.additional_context);
    co_return Result<void>();
}

}  // namespace rouse
