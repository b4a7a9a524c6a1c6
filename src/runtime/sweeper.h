#pragma once

// All deadlines of all sessions: calls that expire, leases that run out, waits that end. One
// order and one timer, whatever the number of sessions. On one loop.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/static_string/static_string.hpp>
#include <functional>
#include <memory_resource>
#include <optional>
#include <set>
#include <string>
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
    void arm();
    std::vector<SessionId> take_due();
    Task<void> run();

    Clock& clock_;
    boost::asio::any_io_executor loop_;
    OnDue on_due_;
    boost::asio::steady_timer timer_;
    // A pool, since these live as long as sessions wait: elsewhere they would keep the memory of
    // what came and went around them.
    std::pmr::unsynchronized_pool_resource memory_;
    static constexpr std::size_t kLongestId = 31;
    using Name = boost::static_strings::static_string<kLongestId>;
    struct Hash {
        std::size_t operator()(const Name& name) const {
            return std::hash<std::string_view>{}({name.data(), name.size()});
        }
    };
    using Due = std::pmr::unordered_map<Name, Timestamp, Hash>;
    Due due_{&memory_};
    std::pmr::set<std::pair<Timestamp, const Name*>> order_{&memory_};  // keys of due_
    bool stopped_ = false;
};

}  // namespace rouse
