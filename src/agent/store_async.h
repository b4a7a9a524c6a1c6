#pragma once

// A commit as something a coroutine waits for. It is never cut short: whoever is cancelled
// meanwhile still learns how it went.

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "rouse/tool.h"
#include "store/store.h"

namespace rouse {

// A commit on its way to the disk. Whoever started it may go on meanwhile with what nobody outside
// can see: commits are durable in their order, so that waiting for a later one covers it too.
// Lives on one loop.
class CommitUnderWay {
 public:
    explicit CommitUnderWay(boost::asio::any_io_executor on) : on_(std::move(on)) {}

    // It never will be durable. What the store refuses, it refuses before start_commit() returns.
    bool refused() const { return refused_; }
    bool ended() const { return result_.has_value(); }
    const Error& error() const { return result_->error(); }  // of one that ended and was refused
    // Those that wait on the executor of the commit go on first, in the order of the commits.
    Task<Result<Committed>> wait(boost::asio::any_io_executor executor);
    // Called on the executor of the commit before whoever begins to wait later; not if it fails.
    void when_durable(std::function<void()> follow);

 private:
    friend std::shared_ptr<CommitUnderWay> start_commit(Store&, Commit,
                                                        const boost::asio::any_io_executor&);
    friend Task<Result<Committed>> commit_async(Store&, Commit);
    class Ending;
    class Box;
    class Boxes;
    static void begin(Store& store, Commit commit, std::shared_ptr<CommitUnderWay> self);
    void end(Result<Committed> result);
    template <class Handler>
    void add_waiter(boost::asio::any_io_executor executor, Handler handler) {
        waiters_.push_back(
            {std::move(executor), [handler = std::move(handler)](Result<Committed> answer) mutable {
                 std::move(handler)(std::move(answer));
             }});
    }

    struct Waiter {
        boost::asio::any_io_executor executor;
        Store::CommitDone go_on;
    };
    boost::asio::any_io_executor on_;  // empty once its loop is gone
    std::atomic<bool> refused_ = false;
    std::optional<Result<Committed>> result_;
    std::vector<Waiter> waiters_;
    std::optional<std::size_t> place_;  // in the box of its loop, while it is on its way
};

std::shared_ptr<CommitUnderWay> start_commit(Store& store, Commit commit,
                                             const boost::asio::any_io_executor& on);

Task<Result<Committed>> commit_async(Store& store, Commit commit);

// True of a refusal that comes from planning on what no longer holds: a log has moved on, or one of
// the sessions that the commit writes to was deleted.
bool is_outdated(const Error& refusal);

// What made a plan outdated is seen by readers once it is durable: a moment to wait before planning
// again, longer with each try.
Task<void> until_it_shows(int tries);

}  // namespace rouse
