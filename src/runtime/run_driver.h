#pragma once

// Lets runs go on: whatever put an open run into a session's log (a message, a result, a boot), the
// driver is told the session and takes the run as far as it goes. Bounded: beyond the limit they
// queue. A session that waits holds nothing here.
//
// Everything happens on one loop, by one thread.

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <unordered_map>

#include "agent/companions.h"
#include "agent/durable_session.h"
#include "base/env.h"
#include "runtime/registry.h"
#include "runtime/run_report.h"

namespace rouse {

// The sessions that were worked on last, with their conversations.
class SessionCache {
 public:
    // A conversation of less than `least_bytes` whose run is over is not kept.
    SessionCache(std::size_t most, std::size_t most_bytes, std::size_t least_bytes)
        : most_(most), most_bytes_(most_bytes), least_bytes_(least_bytes) {}
    std::shared_ptr<DurableSession> find(const SessionId& id);
    void put(std::shared_ptr<DurableSession> session);
    void erase(const SessionId& id);
    void erase_unused();  // all that nobody works on
    // It has come to rest. Lets go of it, or makes room for what it has grown by.
    void weigh(const SessionId& id);
    std::size_t size() const { return order_.size(); }

 private:
    struct Entry {
        std::shared_ptr<DurableSession> session;
        std::size_t bytes = 0;
    };
    using Order = std::list<Entry>;
    Order::iterator drop(Order::iterator entry);

    std::size_t most_;
    std::size_t most_bytes_;
    std::size_t least_bytes_;
    std::size_t bytes_ = 0;
    Order order_;  // the latest first
    std::unordered_map<SessionId, Order::iterator> index_;
};

class RunDriver final {
 public:
    // Text of a message that is not recorded yet.
    struct Delta {
        const SessionId& session;
        const RunId& run;
        const MessageId& message;
        std::size_t at = 0;  // bytes of the message that came before
        std::string_view text;
    };
    using OnDelta = std::function<void(const Delta&)>;

    struct Parts {
        Env env;
        std::shared_ptr<Store> store;
        BootId boot;
        Registry& registry;
        boost::asio::any_io_executor loop;
        std::size_t concurrent_runs;
        OnDelta on_delta;
        std::function<bool()> has_listeners;  // to deltas
    };
    explicit RunDriver(Parts parts);

    // Must be set before the first run: everything that a run writes goes past them.
    void set_companions(Companions& companions) { companions_ = &companions; }

    // Lets the session's open run go on, as soon as there is room. Once is enough.
    void drive(const SessionId& session);
    // The same, by whoever has just committed these records to it.
    void drive(const SessionId& session, Seq first, const Records& committed);
    // The same for a session without an open run: `begin` starts one when there is room for it, so
    // that none is begun, and interrupted, that nobody had time for. False: somebody drives it.
    using Begin = std::function<Task<void>()>;
    bool begin_and_drive(const SessionId& session, Begin begin);
    const boost::asio::any_io_executor& loop() const { return parts_.loop; }
    // True when the run of records that are about to be committed may begin while they are on their
    // way: at once, nobody works on the session, and nobody hears its model speak. A session that
    // is not remembered is read for that, unless its log is long.
    bool may_run_ahead(const SessionId& session, Seq first);
    // What is about to be committed, then how: a commit that was refused is forgotten.
    void show_ahead(const SessionId& session, Seq first, const Records& records);
    void drive_ahead(const SessionId& session, std::shared_ptr<CommitUnderWay> commit);
    // The run was ended by somebody else: whoever works on it stops. Others of the session go on.
    void stop(const SessionId& session, const RunId& run);
    void forget(const SessionId& session) { cache_.erase(session); }
    // Conversations that can be read again; for when there is nothing to do.
    void forget_idle() { cache_.erase_unused(); }

    // When the run has ended or parked, by a record behind `after`; nothing when the time is over
    // or whoever asks has `gone`.
    //   not_found  session_gone: it was deleted meanwhile
    enum class Until : std::uint8_t { parks, ends };
    Task<Result<SharedReport>> wait(SessionId session, RunId run, Seq after, Milliseconds time,
                                    std::stop_token gone, Until until = Until::parks);
    // When somebody has let the session go on who stands in line for that; true also if they could
    // not. False: nobody does, or the time is over, or whoever asks has `gone`.
    Task<bool> until_begun(SessionId session, Milliseconds time, std::stop_token gone);
    // For runs that end without being driven.
    void tell(const SessionId& session, const RunId& run);

    // Takes nothing new, gives what is under way `grace` to come to an end, then stops it: it goes
    // on at the next boot.
    Task<void> shut_down(Milliseconds grace);

    // From any thread.
    std::size_t in_flight() const { return in_flight_; }
    std::size_t queued() const { return queued_; }

 private:
    struct Handle {
        RunId run;
        std::stop_source stop;
        bool again = false;
        Begin begin = {};  // until it is done
        std::vector<std::shared_ptr<boost::asio::steady_timer>> wait_for_begin = {};
        void begun();
    };
    // Somebody who waits for a run to end or park: called at once when it does, not through the
    // loop's line.
    struct Waiter {
        Waiter(const boost::asio::any_io_executor& loop, Seq behind, Until what)
            : after(behind), until(what), patience(loop) {}
        bool waits_for(const RunReport& report) const {
            return until == Until::parks || report.status != ReportStatus::suspended;
        }
        Seq after;
        Until until;
        boost::asio::steady_timer patience;
        std::move_only_function<void(Result<SharedReport>)> go_on;
    };
    using Waiters = std::vector<std::shared_ptr<Waiter>>;

    void enqueue(const SessionId& session);
    void leave_line(const SessionId& session);
    std::optional<RunId> run_to_drive(const SessionId& session) const;
    void start_queued();
    Task<void> work_on(SessionId session);
    Task<bool> go_on(const SessionId& id, const std::shared_ptr<Handle>& handle);
    std::shared_ptr<DurableSession> make(const SessionId& id);
    Result<std::shared_ptr<DurableSession>> open(const SessionId& id);
    Task<bool> after_failure(std::shared_ptr<DurableSession> session, RunId run, TurnError error);
    // In a moment, since the store takes nothing now; nobody is told anything.
    void drive_later(const SessionId& session);
    void wait_for_store();
    // False: the log could not be told.
    Task<bool> fail(std::shared_ptr<DurableSession> session, Error error);
    void tell(const SharedReport& report, Seq as_of);
    void give_up_on(const RunId& run, const Error& error);
    void lose_patience(const RunId& run, const std::shared_ptr<Waiter>& waiter);
    static void call(const Waiters& called, const Result<SharedReport>& report);

    Parts parts_;
    Companions* companions_ = nullptr;
    SessionCache cache_;
    std::unordered_map<SessionId, std::shared_ptr<Handle>> handles_;
    std::deque<SessionId> queue_;
    std::atomic<std::size_t> in_flight_ = 0;
    std::atomic<std::size_t> queued_ = 0;  // the length of queue_
    std::unordered_map<RunId, Waiters> waiters_;
    bool closing_ = false;
    std::set<SessionId> left_;  // to be driven later
    boost::asio::steady_timer look_again_;
    boost::asio::steady_timer all_done_;
};

}  // namespace rouse
