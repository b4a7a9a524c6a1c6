#pragma once

// Where workers ask for calls to work on. They wait here while there are none.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "runtime/coordinator.h"
#include "runtime/searched_calls.h"

namespace rouse {

struct ClaimRequest {
    std::string worker;
    std::vector<std::string> tools;  // empty: all
    std::size_t max = 1;
    Milliseconds lease{};
    Milliseconds wait{};
    std::vector<std::string> tasks = {};  // of sessions of these; empty: of all
    std::stop_token gone = {};            // whoever asks has hung up
};

class ClaimDesk final {
 public:
    ClaimDesk(std::shared_ptr<Store> store, Coordinator& coordinator, Registry& registry,
              boost::asio::any_io_executor loop)
        : store_(std::move(store)),
          coordinator_(coordinator),
          registry_(registry),
          loop_(std::move(loop)) {}

    // Up to `max` calls, now leased to the worker; none when the time is over, or when the worker
    // hung up while it waited.
    Task<Result<std::vector<PendingId>>> claim(ClaimRequest request);

    // Nobody waits any longer.
    void close();

    // Calls of that session may wait for somebody now.
    void calls_wait(const SessionId& session);

 private:
    // A worker that looks for calls. What comes up meanwhile it is told, so that it looks through
    // all that waits once, and at what is new after that.
    struct Worker {
        Worker(const boost::asio::any_io_executor& loop, ClaimRequest asked)
            : request(std::move(asked)), called(loop, request.wait), until(called.expiry()) {}
        ClaimRequest request;
        PendingFilter wants = {};
        boost::asio::steady_timer called;
        boost::asio::steady_timer::time_point until;
        std::vector<SessionId> news = {};
        std::vector<PendingId> claimed = {};
    };
    class AtTheDesk;

    // Whose calls a worker takes depends on it.
    void follow_catalogue();
    PendingFilter filter_of(const ClaimRequest& request) const;
    bool wants_any(const Worker& worker, const std::vector<OpenPending>& calls) const;
    // All that waits, as far as nobody has looked it through in vain.
    Task<Result<void>> look_around(Worker& worker);
    // What was found and what comes behind it, until the worker has as many as it wants; the error
    // of a store that takes nothing.
    Task<Result<void>> take(PendingFilter filter, std::vector<OpenPending> found, Worker& worker);

    std::shared_ptr<Store> store_;
    Coordinator& coordinator_;
    Registry& registry_;
    boost::asio::any_io_executor loop_;
    // Shared with those who are there: some may leave after the desk is gone.
    using Workers = std::vector<Worker*>;
    std::shared_ptr<Workers> workers_ = std::make_shared<Workers>();
    std::shared_ptr<const Catalogue> catalogue_;
    SearchedCalls searched_;  // with this catalogue
    bool closed_ = false;
};

}  // namespace rouse
