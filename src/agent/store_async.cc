#include "agent/store_async.h"

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/io_context.hpp>
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

// What the store calls. It may also be dropped, by a store that closes.
class CommitUnderWay::Ending {
 public:
    Ending(std::shared_ptr<CommitUnderWay> commit, std::shared_ptr<Box> box)
        : commit_(std::move(commit)), box_(std::move(box)) {}
    Ending(Ending&&) = default;
    Ending(const Ending&) = delete;
    Ending& operator=(const Ending&) = delete;
    Ending& operator=(Ending&&) = delete;
    ~Ending();

    CommitUnderWay& commit() const { return *commit_; }
    // By the store's thread.
    static void answer(Ending ending, Result<Committed> result);
    // By the loop.
    void operator()(Result<Committed> result) {
        const std::shared_ptr<CommitUnderWay> commit = std::move(commit_);
        commit->end(std::move(result));
    }

 private:
    std::shared_ptr<CommitUnderWay> commit_;
    std::shared_ptr<Box> box_;
};

// The commits of a loop that are on their way, and those that the store has answered and the loop
// has not taken yet. A whole group of commits ends at once: the first of them calls the loop, the
// others find it called.
class CommitUnderWay::Box : public std::enable_shared_from_this<Box> {
 public:
    void add(CommitUnderWay& commit) {
        const std::lock_guard lock(mutex_);
        commit.place_ = under_way_.size();
        under_way_.push_back(&commit);
    }

    void forget(CommitUnderWay& commit) {
        const std::lock_guard lock(mutex_);
        leave(commit);
    }

    // By the store's thread, which lets go of the loop's executor before it lets the loop take.
    void put(Ending ending, Result<Committed> result) {
        const std::lock_guard calling(calling_);
        asio::any_io_executor executor;
        {
            const std::lock_guard lock(mutex_);
            if (closed_) return;
            leave(ending.commit());
            executor = ending.commit().on_;
            ready_.push_back({executor, std::move(ending), std::move(result)});
            if (std::exchange(called_, true)) return;
        }
        asio::post(executor, [box = shared_from_this()] { box->take(); });
    }

    // The loop goes, and with it whoever waits: they belong to it, whatever the store still has.
    void close() noexcept {
        std::vector<Answer> answered;
        std::vector<Waiter> left;
        std::vector<asio::any_io_executor> executors;
        const std::lock_guard calling(calling_);  // whoever is about to call the loop does so first
        const std::lock_guard lock(mutex_);
        closed_ = true;
        answered.swap(ready_);
        for (CommitUnderWay* commit : std::exchange(under_way_, {})) {
            commit->place_.reset();
            std::ranges::move(std::exchange(commit->waiters_, {}), std::back_inserter(left));
            executors.push_back(std::exchange(commit->on_, {}));
        }
    }

 private:
    struct Answer {
        asio::any_io_executor executor;
        Ending go_on;
        Result<Committed> result;
    };

    void leave(CommitUnderWay& commit) {
        if (!commit.place_) return;
        under_way_.back()->place_ = commit.place_;
        std::swap(under_way_[*commit.place_], under_way_.back());
        under_way_.pop_back();
        commit.place_.reset();
    }

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
            auto go_on = [go_on = std::move(answer.go_on),
                          result = std::move(answer.result)]() mutable {
                go_on(std::move(result));
            };
            // At once, if it belongs to the loop itself: behind what stands in line there it would
            // wait once more. A strand may have another thread to go on with.
            const bool is_own = executor.target<asio::io_context::executor_type>() != nullptr;
            if (is_own) {
                asio::dispatch(executor, std::move(go_on));
            } else {
                asio::post(executor, std::move(go_on));
            }
        }
    }

    std::mutex calling_;
    std::mutex mutex_;  // for all below, and the place_ of the commits
    std::vector<CommitUnderWay*> under_way_;
    std::vector<Answer> ready_;
    bool called_ = false;
    bool closed_ = false;
};

// The box of each loop.
class CommitUnderWay::Boxes final : public asio::execution_context::service {
 public:
    using key_type = Boxes;
    static asio::execution_context::id id;
    explicit Boxes(asio::execution_context& loop) : service(loop) {}
    void shutdown() noexcept override { box_->close(); }
    const std::shared_ptr<Box>& box() const { return box_; }

 private:
    std::shared_ptr<Box> box_ = std::make_shared<Box>();
};

asio::execution_context::id CommitUnderWay::Boxes::id;

CommitUnderWay::Ending::~Ending() {
    if (!commit_) return;
    box_->forget(*commit_);
    std::exchange(commit_->waiters_, {}).clear();
}

void CommitUnderWay::Ending::answer(Ending ending, Result<Committed> result) {
    if (!result) ending.commit_->refused_ = true;
    const std::shared_ptr<Box> box = ending.box_;
    box->put(std::move(ending), std::move(result));
}

void CommitUnderWay::end(Result<Committed> result) {
    result_ = std::move(result);
    for (Waiter& waiter : std::exchange(waiters_, {})) {
        if (waiter.executor == on_) {
            waiter.go_on(*result_);
            continue;
        }
        asio::post(waiter.executor, [go_on = std::move(waiter.go_on), answer = *result_]() mutable {
            go_on(std::move(answer));
        });
    }
}

Task<Result<Committed>> CommitUnderWay::wait(asio::any_io_executor executor) {
    const auto start = [this](auto handler, asio::any_io_executor on) {
        if (!result_) return add_waiter(std::move(on), std::move(handler));
        asio::post(on, [handler = std::move(handler), answer = *result_]() mutable {
            std::move(handler)(std::move(answer));
        });
    };
    return asio::async_initiate<const asio::use_awaitable_t<>, void(Result<Committed>)>(
        start, asio::use_awaitable, std::move(executor));
}

void CommitUnderWay::when_durable(std::function<void()> follow) {
    waiters_.push_back({on_, [follow = std::move(follow)](const Result<Committed>& done) {
                            if (done) follow();
                        }});
}

void CommitUnderWay::begin(Store& store, Commit commit, std::shared_ptr<CommitUnderWay> self) {
    asio::execution_context& loop = asio::query(self->on_, asio::execution::context);
    std::shared_ptr<Box> box = asio::use_service<Boxes>(loop).box();
    box->add(*self);
    Ending ending(std::move(self), std::move(box));
    store.commit(std::move(commit), [ending = std::move(ending)](Result<Committed> result) mutable {
        Ending::answer(std::move(ending), std::move(result));
    });
}

std::shared_ptr<CommitUnderWay> start_commit(Store& store, Commit commit,
                                             const asio::any_io_executor& on) {
    auto under_way = std::make_shared<CommitUnderWay>(on);
    CommitUnderWay::begin(store, std::move(commit), under_way);
    return under_way;
}

// Whoever waits is there before the commit begins: a loop of many threads may end it at once.
Task<Result<Committed>> commit_async(Store& store, Commit commit) {
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    const auto start = [&store, executor](auto handler, Commit given) {
        auto under_way = std::make_shared<CommitUnderWay>(executor);
        under_way->add_waiter(executor, std::move(handler));
        CommitUnderWay::begin(store, std::move(given), std::move(under_way));
    };
    auto waiting = asio::async_initiate<const asio::use_awaitable_t<>, void(Result<Committed>)>(
        start, asio::use_awaitable, std::move(commit));
    co_return co_await std::move(waiting);
}

bool is_outdated(const Error& refusal) {
    return refusal.reason == "log_moved" || refusal.reason == "session_gone";
}

Task<void> until_it_shows(int tries) {
    constexpr int kLongest = 50;
    const std::chrono::microseconds step(200);
    asio::steady_timer pause(co_await asio::this_coro::executor);
    pause.expires_after(step * std::min(tries + 1, kLongest));
    (void)co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
}

}  // namespace rouse
