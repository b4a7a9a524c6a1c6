#include "agent/store_async.h"

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace rouse {

namespace asio = boost::asio;

namespace {

// What the store has answered and a loop has not taken yet. A whole group of commits ends at once:
// the first of them calls the loop, the others find it called.
class CommitAnswers final : public asio::execution_context::service {
 public:
    using key_type = CommitAnswers;
    static asio::execution_context::id id;
    explicit CommitAnswers(asio::execution_context& loop) : service(loop) {}

    void shutdown() noexcept override { box_->close(); }

    class Box : public std::enable_shared_from_this<Box> {
     public:
        struct Answer {
            asio::any_io_executor executor;
            Store::CommitDone go_on;
            Result<Committed> result;
        };

        // By the store's thread, which lets go of the loop's executor before it lets the loop take.
        void put(Answer answer) {
            const std::lock_guard calling(calling_);
            asio::any_io_executor executor;
            {
                const std::lock_guard lock(mutex_);
                if (closed_) return;
                executor = answer.executor;
                ready_.push_back(std::move(answer));
                if (std::exchange(called_, true)) return;
            }
            asio::post(executor, [box = shared_from_this()] { box->take(); });
        }

        void close() noexcept {
            std::vector<Answer> dropped;
            const std::lock_guard lock(mutex_);
            closed_ = true;
            dropped.swap(ready_);
        }

     private:
        // By the loop, which may end its work with this and be gone. So it goes on only once the
        // store's thread has let go of everything that belongs to the loop.
        void take() {
            std::vector<Answer> taken;
            {
                const std::lock_guard calling(calling_);
                const std::lock_guard lock(mutex_);
                taken.swap(ready_);
                called_ = false;
            }
            for (Answer& answer : taken) {
                const asio::any_io_executor executor = std::move(answer.executor);
                asio::post(executor, [go_on = std::move(answer.go_on),
                                      result = std::move(answer.result)]() mutable {
                    go_on(std::move(result));
                });
            }
        }

        std::mutex calling_;
        std::mutex mutex_;  // for the three below
        std::vector<Answer> ready_;
        bool called_ = false;
        bool closed_ = false;
    };
    std::shared_ptr<Box> box() const { return box_; }

 private:
    std::shared_ptr<Box> box_ = std::make_shared<Box>();
};

asio::execution_context::id CommitAnswers::id;

}  // namespace

Task<Result<Committed>> commit_async(Store& store, Commit commit) {
    const auto executor = co_await asio::this_coro::executor;
    asio::execution_context& loop = asio::query(executor, asio::execution::context);
    const std::shared_ptr<CommitAnswers::Box> box = asio::use_service<CommitAnswers>(loop).box();
    const auto start = [&store, box, executor](auto handler, Commit given) {
        auto done = [box, on = asio::any_io_executor(executor),
                     handler = std::move(handler)](Result<Committed> result) mutable {
            auto go_on = [handler = std::move(handler)](Result<Committed> answer) mutable {
                std::move(handler)(std::move(answer));
            };
            box->put({std::move(on), std::move(go_on), std::move(result)});
        };
        store.commit(std::move(given), std::move(done));
    };
    auto waiting = asio::async_initiate<const asio::use_awaitable_t<>, void(Result<Committed>)>(
        start, asio::use_awaitable, std::move(commit));
    co_return co_await std::move(waiting);
}

Task<void> until_it_shows(int tries) {
    constexpr int kLongest = 50;
    const std::chrono::microseconds step(200);
    asio::steady_timer pause(co_await asio::this_coro::executor);
    pause.expires_after(step * std::min(tries + 1, kLongest));
    (void)co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
}

}  // namespace rouse
