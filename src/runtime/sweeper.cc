#include "runtime/sweeper.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "agent/gather.h"

namespace rouse {

namespace asio = boost::asio;

namespace {

// The wall clock may be set while the timer runs: it is looked at this often at least.
constexpr std::chrono::seconds kLongestSleep{1};
constexpr std::size_t kSweptAtOnce = 64;

}  // namespace

Sweeper::Sweeper(Clock& clock, asio::any_io_executor loop, OnDue on_due)
    : clock_(clock), loop_(std::move(loop)), on_due_(std::move(on_due)), timer_(loop_) {}

void Sweeper::set(const SessionId& session, std::optional<Timestamp> due) {
    const Name id(session.text());
    if (const auto known = due_.find(id); known != due_.end()) {
        order_.erase({known->second, &known->first});
        due_.erase(known);
    }
    if (!due) return;
    const auto added = due_.emplace(id, *due).first;
    const auto place = order_.emplace(*due, &added->first).first;
    if (place == order_.begin()) timer_.cancel();
}

std::vector<SessionId> Sweeper::take_due() {
    const Timestamp now = clock_.now();
    std::vector<SessionId> taken;
    while (!order_.empty() && order_.begin()->first <= now && taken.size() < kSweptAtOnce) {
        const auto first = due_.find(*order_.begin()->second);
        taken.emplace_back(std::string(first->first.data(), first->first.size()));
        order_.erase(order_.begin());
        due_.erase(first);
    }
    return taken;
}

void Sweeper::arm() {
    if (order_.empty()) {
        timer_.expires_at(asio::steady_timer::time_point::max());
        return;
    }
    const auto left = std::max(Milliseconds(0), order_.begin()->first - clock_.now());
    timer_.expires_after(std::min<Milliseconds>(left, kLongestSleep));
}

Task<void> Sweeper::run() {
    while (!stopped_) {
        std::vector<SessionId> due = take_due();
        if (due.empty()) {
            arm();
            (void)co_await timer_.async_wait(asio::as_tuple(asio::use_awaitable));
            continue;
        }
        std::vector<Task<int>> tasks;
        for (const SessionId& session : due) {
            auto one = [](OnDue on_due, SessionId id) -> Task<int> {
                co_await on_due(std::move(id));
                co_return 0;
            };
            tasks.push_back(one(on_due_, session));
        }
        (void)co_await gather(std::move(tasks));
    }
}

void Sweeper::start() {
    asio::co_spawn(loop_, run(), [](const std::exception_ptr&) {});
}

void Sweeper::stop() {
    stopped_ = true;
    timer_.cancel();
}

}  // namespace rouse
