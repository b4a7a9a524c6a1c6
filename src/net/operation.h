#pragma once

// From callbacks to coroutines: an operation is started, may be cancelled, and calls back once.

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "base/result.h"

namespace rouse {

template <class T>
using Done = std::move_only_function<void(Result<T>)>;

// Keeps itself alive until it has called `done`. Both functions may be called on any thread and
// return at once.
template <class T>
class Operation {
 public:
    virtual ~Operation() = default;
    virtual void start(Done<T> done) = 0;
    virtual void cancel() = 0;  // `done` is called nonetheless
};

inline Error cancelled_error(std::string what) {
    return {ErrorKind::cancelled, "cancelled", std::move(what) + " was cancelled"};
}

// Goes on where the caller runs. The coroutine does not hold the operation: they would hold each
// other when the loop ends before it.
template <class T>
boost::asio::awaitable<Result<T>> await_operation(std::shared_ptr<Operation<T>> operation) {
    namespace asio = boost::asio;
    const asio::cancellation_state mine = co_await asio::this_coro::cancellation_state;
    if (mine.cancelled() != asio::cancellation_type::none) {
        co_return cancelled_error("what had not begun");
    }
    // NOLINTNEXTLINE: by value, so that it leaves the frame of whoever passes it
    const auto start = [](auto handler, std::shared_ptr<Operation<T>> given) {
        auto slot = asio::get_associated_cancellation_slot(handler);
        if (slot.is_connected()) {
            slot.assign([weak = std::weak_ptr(given)](asio::cancellation_type) {
                if (const auto cancelling = weak.lock()) cancelling->cancel();
            });
        }
        auto executor = asio::get_associated_executor(handler);
        auto work = asio::prefer(executor, asio::execution::outstanding_work.tracked);
        // The caller's loop may be gone as soon as it has gone on. So it does that only once the
        // thread that calls `done` has let go of everything that belongs to the loop.
        auto calling = std::make_shared<std::mutex>();
        auto done = [executor = std::move(executor), calling, work = std::move(work),
                     handler = std::move(handler)](Result<T> result) mutable {
            auto go_on = [calling, work = std::move(work), handler = std::move(handler),
                          result = std::move(result)]() mutable {
                calling->lock();
                calling->unlock();
                asio::get_associated_cancellation_slot(handler).clear();
                std::move(handler)(std::move(result));
            };
            const std::lock_guard posting(*calling);
            const auto there = std::move(executor);
            asio::post(there, std::move(go_on));
        };
        given->start(std::move(done));
    };
    auto waiting = asio::async_initiate<const asio::use_awaitable_t<>, void(Result<T>)>(
        start, asio::use_awaitable, std::move(operation));
    co_return co_await std::move(waiting);
}

}  // namespace rouse
