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
    if (!due) {
        due_.erase(session);
        return;
    }
    due_.insert_or_assign(session, *due);
    const bool is_first = heap_.empty() || *due < heap_.front().at;
    heap_.push_back({*due, session});
    std::ranges::push_heap(heap_, std::greater<>());
    drop_stale();
    if (is_first) timer_.cancel();
}

void Sweeper::drop_stale() {
    if (heap_.size() < 2 * due_.size() + 1000) return;
    heap_.clear();
    for (const auto& [session, at] : due_)
        heap_.push_back({at, session});
    std::ranges::make_heap(heap_, std::greater<>());
}

std::vector<SessionId> Sweeper::take_due() {
    const Timestamp now = clock_.now();
    std::vector<SessionId> taken;
    while (!heap_.empty() && heap_.front().at <= now && taken.size() < kSweptAtOnce) {
        std::ranges::pop_heap(heap_, std::greater<>());
        Entry entry = std::move(heap_.back());
        heap_.pop_back();
        const auto latest = due_.find(entry.session);
        if (latest == due_.end() || latest->second != entry.at) continue;
        due_.erase(latest);
        taken.push_back(std::move(entry.session));
    }
    return taken;
}

void Sweeper::arm() {
    if (heap_.empty()) {
        timer_.expires_at(asio::steady_timer::time_point::max());
        return;
    }
    const auto left = std::max(Milliseconds(0), heap_.front().at - clock_.now());
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
