#pragma once

// Streams of events, per session and over all. Each record of a log is one event, rendered once for
// all readers. Whoever comes back with the last id they saw gets what they missed, from the store,
// and goes on live without gap or repeat: the store is read up to its end, and what comes live is
// told apart by its position.
//
// Everything but on_commit, on_delta and on_progress runs on the loop of the connections.

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "domain/ids.h"
#include "runtime/run_driver.h"
#include "server/http.h"
#include "store/store.h"

namespace rouse::server {

// How far a reader of the global stream is: the commit, and how many of its records were seen;
// nothing means all of them.
struct GlobalPosition {
    Cursor cursor;
    std::optional<std::size_t> seen;

    std::string text() const;
    static std::optional<GlobalPosition> parse(std::string_view text);
};

struct HubLimits {
    std::size_t events = 1024;
    std::size_t bytes = 1U << 20U;
    std::chrono::seconds heartbeat{15};
};

class EventHub final {
 public:
    // What a session looks like now. Nothing: it is gone.
    struct View {
        std::string status;  // JSON, for status events
        Seq seq = 0;
    };
    using Look = std::function<std::optional<View>(const SessionId&)>;
    using Snapshot = std::function<std::string(const SessionId&)>;  // all of it, as JSON

    EventHub(boost::asio::any_io_executor loop, std::shared_ptr<Store> store, Look look,
             Snapshot snapshot, HubLimits limits = {});
    ~EventHub();

    // From any thread.
    void on_commit(const CommittedLines& committed);
    bool has_readers() const { return readers_ > 0; }
    void on_delta(const RunDriver::Delta& delta);
    void on_progress(const SessionId& session, const PendingId& call, const Progress& progress);

    struct ReaderOptions {
        std::string token_id = {};  // the stream ends when it is revoked
        bool masks_ids = false;
    };
    // Everything from the record `from` on; without it, or when the log is not that long, live from
    // now, behind a snapshot.
    std::unique_ptr<EventSource> follow(SessionId session, std::optional<Seq> from,
                                        ReaderOptions options);
    // Everything behind that position; without it, live from now. `may_see` is asked for each
    // session's task.
    using MaySee = std::function<bool(const std::string& task_id)>;
    std::unique_ptr<EventSource> follow_all(std::optional<GlobalPosition> behind, MaySee may_see,
                                            ReaderOptions options);
    // Ends the streams that were opened with it.
    void revoke(const std::string& token_id);

    std::size_t readers() const { return readers_; }
    // Ends all streams; their readers come back later.
    void close();

 private:
    class Masked;
    class Reader;
    class SessionReader;
    class GlobalReader;
    friend class Reader;

    void publish(const CommittedLines& committed);
    // To live readers of the session; it is in no log.
    void tell(const SessionId& session, std::string_view event, std::string_view data);
    void for_each_reader(const std::function<void(Reader&)>& visit);

    boost::asio::any_io_executor loop_;
    std::shared_ptr<Store> store_;
    Look look_;
    Snapshot snapshot_;
    HubLimits limits_;
    std::atomic<std::size_t> readers_ = 0;
    std::unordered_map<SessionId, std::vector<SessionReader*>> by_session_;
    std::vector<GlobalReader*> global_;
    std::uint64_t told_ = 0;  // how often something was told
    bool closed_ = false;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace rouse::server
