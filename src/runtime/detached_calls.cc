#include "runtime/detached_calls.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

#include "store/store.h"

namespace rouse {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::seconds kSettleAgain{1};

}  // namespace

struct DetachedCalls::Job {
    Job(const asio::any_io_executor& loop, PendingId id) : pending_id(std::move(id)), ended(loop) {}

    PendingId pending_id;
    asio::cancellation_signal cancel;
    asio::steady_timer ended;  // cancelled when the tool has answered
    std::exception_ptr thrown;
    std::optional<ToolOutcome> outcome;
    bool turn_waits = true;
    bool stopped = false;

    bool is_done() const { return outcome || thrown; }
    bool has_result() const { return thrown || (outcome && outcome->result); }
    void stop() {
        stopped = true;
        ended.cancel();
        cancel.emit(asio::cancellation_type::terminal);
    }
    ToolResult result() const {
        if (outcome && outcome->result) return *outcome->result;
        if (outcome) return error_result("the tool wants to wait, which it can not do any more");
        try {
            std::rethrow_exception(thrown);
        } catch (const std::exception& error) {
            return error_result(std::string("the tool failed: ") + error.what());
        } catch (...) {
            return error_result("the tool failed");
        }
    }
};

class DetachedCalls::DetachingTool final : public Tool {
 public:
    DetachingTool(DetachedCalls& desk, std::shared_ptr<Tool> inner, Milliseconds after)
        : Tool(spec_of(inner->spec())), desk_(desk), inner_(std::move(inner)), after_(after) {}

    Task<ToolOutcome> call(ToolCall call) override {
        if (call.pending_id.empty()) return inner_->call(std::move(call));
        return desk_.run(inner_, std::move(call), after_);
    }

 private:
    static ToolSpec spec_of(ToolSpec spec) {
        spec.async = true;
        spec.local = true;
        return spec;
    }

    DetachedCalls& desk_;
    std::shared_ptr<Tool> inner_;
    Milliseconds after_;
};

DetachedCalls::DetachedCalls(Logger& log, asio::any_io_executor loop, Settle settle)
    : log_(log), loop_(std::move(loop)), settle_(std::move(settle)), all_done_(loop_) {}

std::shared_ptr<Tool> DetachedCalls::wrap(std::shared_ptr<Tool> inner, Milliseconds after) {
    return std::make_shared<DetachingTool>(*this, std::move(inner), after);
}

Task<ToolOutcome> DetachedCalls::run(std::shared_ptr<Tool> inner, ToolCall call,
                                     Milliseconds after) {
    const auto job = std::make_shared<Job>(loop_, call.pending_id);
    jobs_.emplace(call.pending_id, job);
    auto finished = [this, job, inner](std::exception_ptr thrown, ToolOutcome outcome) {
        job->thrown = std::move(thrown);
        if (!job->thrown) job->outcome = std::move(outcome);
        job->ended.cancel();
        if (!job->turn_waits) bring_in(job, settle(job));
    };
    asio::co_spawn(loop_, inner->call(std::move(call)),
                   asio::bind_cancellation_slot(job->cancel.slot(), std::move(finished)));
    job->ended.expires_after(after);
    (void)co_await job->ended.async_wait(asio::as_tuple(asio::use_awaitable));
    const auto mine = co_await asio::this_coro::cancellation_state;
    if (mine.cancelled() != asio::cancellation_type::none) {
        job->stop();
        remove(*job);
        throw boost::system::system_error(asio::error::operation_aborted);
    }
    job->turn_waits = false;
    if (job->is_done()) {
        // The turn writes that down, unless the store takes nothing any more.
        if (job->has_result()) {
            bring_in(job, settle_if_left(job));
        } else {
            remove(*job);
        }
        if (job->thrown) std::rethrow_exception(job->thrown);
        co_return *job->outcome;
    }
    ToolOutcome outcome;
    outcome.suspend.emplace();
    outcome.suspend->prompt = "Still running";
    outcome.suspend->timeout = inner->spec().timeout;
    co_return outcome;
}

void DetachedCalls::bring_in(const std::shared_ptr<Job>& job, Task<void> settling) {
    asio::co_spawn(loop_, std::move(settling),
                   [this, job](const std::exception_ptr&) { remove(*job); });
}

Task<void> DetachedCalls::settle_if_left(std::shared_ptr<Job> job) {
    if (!job->stopped) {
        job->ended.expires_after(kSettleAgain);
        (void)co_await job->ended.async_wait(asio::as_tuple(asio::use_awaitable));
    }
    co_await settle(job);
}

Task<void> DetachedCalls::settle(std::shared_ptr<Job> job) {
    if (job->stopped) co_return;
    Settlement result = job->result();
    Result<void> settled = co_await settle_(job->pending_id, result);
    // The tool has done its work: what passes is waited out.
    while (!settled && is_passing(settled.error()) && !job->stopped) {
        job->ended.expires_after(kSettleAgain);
        (void)co_await job->ended.async_wait(asio::as_tuple(asio::use_awaitable));
        settled = co_await settle_(job->pending_id, result);
    }
    if (!settled && settled.error().reason == "result_validation_failed") {
        Settlement failure = CallFailure{settled.error().message};
        settled = co_await settle_(job->pending_id, std::move(failure));
    }
    if (settled) co_return;
    const Result<SessionId> session = session_of(job->pending_id);
    log_.info("call.not_settled",
              {{"session", session ? session->text() : ""}, {"error", settled.error().message}});
}

void DetachedCalls::remove(const Job& job) {
    jobs_.erase(job.pending_id);
    if (jobs_.empty()) all_done_.cancel();
}

void DetachedCalls::stop(const PendingId& id) {
    const auto found = jobs_.find(id);
    if (found != jobs_.end() && !found->second->turn_waits) found->second->stop();
}

void DetachedCalls::ended(const PendingId& id) {
    const auto found = jobs_.find(id);
    if (found != jobs_.end() && found->second->is_done()) found->second->stop();
}

Task<void> DetachedCalls::shut_down(Milliseconds grace) {
    if (!jobs_.empty()) {
        all_done_.expires_after(grace);
        (void)co_await all_done_.async_wait(asio::as_tuple(asio::use_awaitable));
    }
    const std::map<PendingId, std::shared_ptr<Job>> left = jobs_;
    for (const auto& [id, job] : left)
        job->stop();
    while (!jobs_.empty()) {
        all_done_.expires_at(asio::steady_timer::time_point::max());
        (void)co_await all_done_.async_wait(asio::as_tuple(asio::use_awaitable));
    }
}

}  // namespace rouse
