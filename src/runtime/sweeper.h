#pragma once

// All deadlines of all sessions: calls that expire, leases that run out, waits that end. One heap
// and one timer, whatever the number of sessions. On one loop.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "domain/summary.h"
#include "rouse/tool.h"

namespace rouse {

class Sweeper final {
 public:
    // `on_due` is asked to do what is due in a session; many at a time.
    using OnDue = std::function<Task<void>(SessionId)>;
    Sweeper(Clock& clock, boost::asio::any_io_executor loop, OnDue on_due);

    // The session is next due at that time, or never.
    void set(const SessionId& session, std::optional<Timestamp> due);

    void start();
    void stop();
    std::size_t size() const { return due_.size(); }

 private:
    struct Entry {
        Timestamp at;
        SessionId session;
        friend bool operator>(const Entry& a, const Entry& b) { return a.at > b.at; }
    };

    void drop_stale();
    void arm();
    std::vector<SessionId> take_due();
    Task<void> run();

    Clock& clock_;
    boost::asio::any_io_executor loop_;
    OnDue on_due_;
    boost::asio::steady_timer timer_;
    std::unordered_map<SessionId, Timestamp> due_;
    std::vector<Entry> heap_;  // may hold entries that due_ has overtaken
    bool stopped_ = false;
};

}  // namespace rouse
