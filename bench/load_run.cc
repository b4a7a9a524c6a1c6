#include "bench/load_run.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace rouse::bench {

void Run::start_clock() {
    report.start_clock();
    taken_ = 0;
    if (options.seconds > 0) {
        const std::chrono::duration<double> seconds(options.seconds);
        deadline_ = report.begin + std::chrono::duration_cast<SteadyClock::duration>(seconds);
    }
}

bool Run::take() {
    if (stopped_) return false;
    if (options.cycles != 0 && taken_ == options.cycles) return false;
    if (deadline_ && SteadyClock::now() >= *deadline_) return false;
    ++taken_;
    return true;
}

void Run::failed(const Unexpected& what) {
    ++report.errors[what.status()];
    if (report.first_error.empty()) report.first_error = what.what();
    if (!options.keep_going) stopped_ = true;
}

void Run::failed(const std::string& what) {
    if (report.first_error.empty()) report.first_error = what;
    stopped_ = true;
}

void Run::ended(const std::exception_ptr& thrown) {
    try {
        if (thrown) std::rethrow_exception(thrown);
    } catch (const Unexpected& what) {
        failed(what);
    } catch (const std::exception& what) {
        failed(std::string(what.what()));
    }
}

Task<void> run_workers(Run& run, std::function<Task<void>()> make_worker) {
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    std::size_t working = run.options.connections;
    asio::steady_timer all_done(executor, SteadyClock::time_point::max());
    for (std::size_t i = 0; i < run.options.connections; ++i) {
        asio::co_spawn(executor, make_worker(), [&](const std::exception_ptr& thrown) {
            run.ended(thrown);
            if (--working == 0) all_done.cancel();
        });
    }
    const auto token = asio::as_tuple(asio::use_awaitable);  // cancelling it is no failure
    if (working > 0) co_await all_done.async_wait(token);
}

Task<void> pause_for(std::chrono::milliseconds time) {
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    asio::steady_timer timer(executor, time);
    co_await timer.async_wait(asio::use_awaitable);
}

}  // namespace rouse::bench
