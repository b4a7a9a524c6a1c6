#pragma once

// Runs tasks side by side, on a strand of their own, and waits for all of them. When the waiting
// one is cancelled they are, and it still waits until the last has ended.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <memory>
#include <vector>

#include "rouse/tool.h"

namespace rouse {

// The results in the order of the tasks. Throws what a task threw first.
template <class T>
Task<std::vector<T>> gather(std::vector<Task<T>> tasks) {
    namespace asio = boost::asio;
    struct State {
        explicit State(const asio::any_io_executor& executor, std::size_t count)
            : strand(asio::make_strand(executor)), finished(strand), results(count), left(count) {
            finished.expires_at(asio::steady_timer::time_point::max());
            for (std::size_t i = 0; i < count; ++i)
                signals.push_back(std::make_unique<asio::cancellation_signal>());
        }
        void cancel() const {
            for (const auto& signal : signals)
                signal->emit(asio::cancellation_type::terminal);
        }
        asio::strand<asio::any_io_executor> strand;
        asio::steady_timer finished;
        std::vector<std::unique_ptr<asio::cancellation_signal>> signals;
        std::vector<T> results;
        std::exception_ptr thrown;
        std::size_t left;
    };
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    const auto state = std::make_shared<State>(executor, tasks.size());
    co_await asio::this_coro::throw_if_cancelled(false);
    // Everything that touches the state happens on its strand, the waiting too.
    auto wait = [](std::shared_ptr<State> shared, std::vector<Task<T>> all) -> Task<void> {
        co_await asio::this_coro::throw_if_cancelled(false);
        for (std::size_t i = 0; i < all.size(); ++i) {
            auto done = [shared, i](const std::exception_ptr& thrown, T result) {
                if (thrown && !shared->thrown) shared->thrown = thrown;
                shared->results[i] = std::move(result);
                if (--shared->left == 0) shared->finished.cancel();
            };
            asio::co_spawn(shared->strand, std::move(all[i]),
                           asio::bind_cancellation_slot(shared->signals[i]->slot(), done));
        }
        while (shared->left > 0)
            (void)co_await shared->finished.async_wait(asio::as_tuple(asio::use_awaitable));
    };
    // The signal is handed over by hand: co_spawn's own way across executors (Boost 1.81) may find
    // its target gone.
    asio::cancellation_state mine = co_await asio::this_coro::cancellation_state;
    if (mine.slot().is_connected()) {
        const std::weak_ptr<State> weak = state;
        mine.slot().assign([weak, strand = state->strand](asio::cancellation_type) {
            asio::post(strand, [weak] {
                if (const auto alive = weak.lock()) alive->cancel();
            });
        });
    }
    if (mine.cancelled() != asio::cancellation_type::none) {
        asio::post(state->strand, [state] { state->cancel(); });
    }
    Task<void> all_done = wait(state, std::move(tasks));
    auto token = asio::bind_cancellation_slot(asio::cancellation_slot(), asio::use_awaitable);
    co_await asio::co_spawn(state->strand, std::move(all_done), token);
    if (state->thrown) std::rethrow_exception(state->thrown);
    co_return std::move(state->results);
}

}  // namespace rouse
