#pragma once

// One turn at a time for each session id, across all agents of the process.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "rouse/result.h"
#include "rouse/session.h"

namespace rouse {

using TurnStrand = boost::asio::strand<boost::asio::any_io_executor>;

class SessionLocks {
 public:
    static SessionLocks& instance();

    // Held until it is destroyed.
    class Guard {
     public:
        Guard() = default;
        explicit Guard(SessionId id) : id_(std::move(id)) {}
        Guard(Guard&& other) noexcept : id_(std::exchange(other.id_, SessionId())) {}
        Guard& operator=(Guard&& other) noexcept {
            std::swap(id_, other.id_);
            return *this;
        }
        ~Guard() {
            if (!id_.empty()) instance().release(id_);
        }

     private:
        SessionId id_;
    };

    // True inside a turn on that session: whoever waits for the lock there waits for ever.
    bool is_inside(const SessionId& id, const boost::asio::any_io_executor& executor);

    // Waits for its turn, on `strand`. cancelled.
    Task<Result<Guard>> acquire(SessionId id, TurnStrand strand);

 private:
    struct Waiter {
        TurnStrand strand;
        boost::asio::steady_timer called;
        bool has_turn = false;  // on its strand
        bool given = false;     // under the mutex: it is the holder
        bool is_home = false;   // its guard is responsible now
    };
    class Leaving {
     public:
        Leaving(SessionLocks& locks, SessionId id, std::shared_ptr<Waiter> waiter)
            : locks_(locks), id_(std::move(id)), waiter_(std::move(waiter)) {}
        Leaving(const Leaving&) = delete;
        Leaving& operator=(const Leaving&) = delete;
        ~Leaving();

     private:
        SessionLocks& locks_;
        SessionId id_;
        std::shared_ptr<Waiter> waiter_;
    };
    struct Entry {
        TurnStrand holder;
        std::vector<std::shared_ptr<Waiter>> waiters;  // few, if any
    };

    void release(const SessionId& id);
    void pass_on(const SessionId& id);  // with the mutex held
    bool withdraw(const SessionId& id, const std::shared_ptr<Waiter>& waiter);

    std::mutex mutex_;
    std::unordered_map<SessionId, Entry> entries_;
};

}  // namespace rouse
