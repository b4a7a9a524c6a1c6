#include "tools/exec_tool.h"

#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>

#include "base/utf8.h"
#include "net/process.h"
#include "tools/tool_answer.h"

namespace rouse {
namespace {

std::string how_it_failed(const ProcessResult& result, const ExecToolOptions& options) {
    if (result.timed_out) {
        return "the command took longer than " + std::to_string(options.timeout.count()) +
               " ms and was stopped";
    }
    if (result.truncated) {
        return "the command wrote more than " + std::to_string(options.output_bytes) +
               " bytes and was stopped";
    }
    if (result.signal != 0) {
        return "the command was killed by signal " + std::to_string(result.signal);
    }
    return "the command ended with exit code " + std::to_string(result.exit_code);
}

bool was_stopped(const ProcessResult& result) {
    return result.timed_out || result.truncated || result.signal != 0;
}

ToolOutcome failed(const ProcessResult& result, const ExecToolOptions& options) {
    std::string message = how_it_failed(result, options);
    const std::string words = to_utf8(result.errors);
    if (!words.empty()) message += ": " + std::string(utf8_tail(words, limits::kToolErrorBytes));
    return ToolOutcome::error(message);
}

class ExecTool final : public Tool {
 public:
    explicit ExecTool(ExecToolOptions options) : Tool(options.spec), options_(std::move(options)) {}

    Task<ToolOutcome> call(ToolCall call) override {
        if (spec().async && call.pending_id.empty()) co_return needs_durable_session(call);
        ProcessRequest request = make_request(call);
        const Result<ProcessResult> result = co_await run_process(std::move(request));
        if (result) co_return outcome_of(*result);
        // Whoever is cancelled does not get an error result: the call has no end.
        if (result.error().kind == ErrorKind::cancelled) {
            throw boost::system::system_error(boost::asio::error::operation_aborted);
        }
        co_return ToolOutcome::error("the command did not run: " + to_utf8(result.error().message));
    }

 private:
    ToolOutcome outcome_of(const ProcessResult& result) const {
        ToolOutcome outcome;
        const bool ended = !was_stopped(result);
        if (ended && result.exit_code != 0) return failed(result, options_);
        if (!spec().async) {
            if (!ended) return failed(result, options_);
            outcome.result = parse_tool_answer(result.output);
            return outcome;
        }
        // Whoever was stopped in the middle may have started the job before.
        outcome.suspend = ended ? read_job_started(result.output) : job_not_confirmed();
        outcome.suspend->timeout = spec().timeout;
        return outcome;
    }

    ProcessRequest make_request(const ToolCall& call) const {
        ProcessRequest request;
        request.argv = options_.command;
        request.input = spec().async ? describe_job(call, options_.callback) : call.input.text();
        request.environment = options_.env;
        request.environment.emplace_back("ROUSE_SESSION_ID", call.session_id.text());
        request.environment.emplace_back("ROUSE_CALL_ID", call.id.text);
        request.environment.emplace_back("ROUSE_TOOL", call.name);
        if (spec().async) {
            request.environment.emplace_back("ROUSE_PENDING_ID", call.pending_id.text());
            request.environment.emplace_back("ROUSE_CALLBACK_URL", options_.callback.url());
        }
        request.working_dir = options_.cwd;
        request.time_limit = options_.timeout;
        request.output_bytes = options_.output_bytes;
        return request;
    }

    ExecToolOptions options_;
};

}  // namespace

std::shared_ptr<Tool> make_exec_tool(ExecToolOptions options) {
    return std::make_shared<ExecTool>(std::move(options));
}

}  // namespace rouse
