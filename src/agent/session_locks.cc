#include "agent/session_locks.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace rouse {

namespace asio = boost::asio;

SessionLocks& SessionLocks::instance() {
    static SessionLocks locks;
    return locks;
}

bool SessionLocks::is_inside(const SessionId& id, const asio::any_io_executor& executor) {
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.find(id);
    if (entry == entries_.end()) return false;
    const TurnStrand& holder = entry->second.holder;
    return holder.running_in_this_thread() || asio::any_io_executor(holder) == executor;
}

Task<Result<SessionLocks::Guard>> SessionLocks::acquire(SessionId id, TurnStrand strand) {
    std::shared_ptr<Waiter> waiter;
    {
        const std::lock_guard lock(mutex_);
        const auto [entry, is_new] = entries_.try_emplace(id, Entry{strand, {}});
        if (!is_new) {
            waiter = std::make_shared<Waiter>(strand, asio::steady_timer(strand));
            waiter->called.expires_at(asio::steady_timer::time_point::max());
            entry->second.waiters.push_back(waiter);
        }
    }
    if (!waiter) co_return Guard(std::move(id));
    // Also when this frame is destroyed with its loop: then the turn passes on to the next.
    const Leaving leaving(*this, id, waiter);
    co_await asio::this_coro::throw_if_cancelled(false);
    while (!waiter->has_turn) {
        (void)co_await waiter->called.async_wait(asio::as_tuple(asio::use_awaitable));
        const asio::cancellation_state mine = co_await asio::this_coro::cancellation_state;
        const bool cancelled = mine.cancelled() != asio::cancellation_type::none;
        if (cancelled && withdraw(id, waiter)) {
            co_return Error(ErrorKind::cancelled, "cancelled",
                            "cancelled while waiting for the session's turn");
        }
    }
    {
        // Whoever passed the turn on has let go of what belongs to this loop once the mutex is
        // free.
        const std::lock_guard lock(mutex_);
        waiter->is_home = true;
    }
    co_return Guard(std::move(id));
}

SessionLocks::Leaving::~Leaving() {
    if (waiter_->is_home || locks_.withdraw(id_, waiter_)) return;
    const std::lock_guard lock(locks_.mutex_);
    if (waiter_->given) locks_.pass_on(id_);
}

// False: it has been given its turn meanwhile.
bool SessionLocks::withdraw(const SessionId& id, const std::shared_ptr<Waiter>& waiter) {
    const std::lock_guard lock(mutex_);
    const auto entry = entries_.find(id);
    return entry != entries_.end() && std::erase(entry->second.waiters, waiter) > 0;
}

void SessionLocks::release(const SessionId& id) {
    const std::lock_guard lock(mutex_);
    pass_on(id);
}

void SessionLocks::pass_on(const SessionId& id) {
    const auto entry = entries_.find(id);
    if (entry->second.waiters.empty()) {
        entries_.erase(entry);
        return;
    }
    const std::shared_ptr<Waiter> next = std::move(entry->second.waiters.front());
    entry->second.waiters.erase(entry->second.waiters.begin());
    entry->second.holder = next->strand;
    next->given = true;
    asio::post(next->strand, [next] {
        next->has_turn = true;
        next->called.cancel();
    });
}

}  // namespace rouse
