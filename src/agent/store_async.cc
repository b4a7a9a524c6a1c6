#include "agent/store_async.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <mutex>

namespace rouse {

namespace asio = boost::asio;

// The store's thread posts to the waiting loop, which may then end its work and be gone. So the
// coroutine goes on only once that thread has let go of everything that belongs to the loop.
Task<Result<Committed>> commit_async(Store& store, Commit commit) {
    const auto handing_over = std::make_shared<std::mutex>();
    const auto start = [&store, handing_over](auto handler, Commit given) {
        auto done = [handing_over, handler = std::move(handler)](Result<Committed> result) mutable {
            const std::lock_guard lock(*handing_over);
            const auto executor = asio::get_associated_executor(handler);
            auto go_on = [handler = std::move(handler), result = std::move(result)]() mutable {
                std::move(handler)(std::move(result));
            };
            asio::post(executor, std::move(go_on));
        };
        store.commit(std::move(given), std::move(done));
    };
    auto waiting = asio::async_initiate<const asio::use_awaitable_t<>, void(Result<Committed>)>(
        start, asio::use_awaitable, std::move(commit));
    Result<Committed> result = co_await std::move(waiting);
    const std::lock_guard lock(*handing_over);
    co_return result;
}

Task<void> until_it_shows(int tries) {
    constexpr int kLongest = 50;
    const std::chrono::microseconds step(200);
    asio::steady_timer pause(co_await asio::this_coro::executor);
    pause.expires_after(step * std::min(tries + 1, kLongest));
    (void)co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
}

}  // namespace rouse
