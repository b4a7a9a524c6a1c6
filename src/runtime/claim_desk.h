#pragma once

// Where workers ask for calls to work on. They wait here while there are none.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "runtime/coordinator.h"

namespace rouse {

struct ClaimRequest {
    std::string worker;
    std::vector<std::string> tools;  // empty: all
    std::size_t max = 1;
    Milliseconds lease{};
    Milliseconds wait{};
    std::function<bool(const SessionId&)> may_see = {};
    std::stop_token gone = {};  // whoever asks has hung up
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

    // There may be something new.
    void call_waits();

 private:
    std::vector<PendingId> candidates(const ClaimRequest& request);

    std::shared_ptr<Store> store_;
    Coordinator& coordinator_;
    Registry& registry_;
    boost::asio::any_io_executor loop_;
    std::vector<std::shared_ptr<boost::asio::steady_timer>> waiting_;
    std::uint64_t calls_ = 0;  // of call_waits()
    bool closed_ = false;
};

}  // namespace rouse
