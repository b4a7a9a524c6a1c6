#pragma once

// Where session logs live. A log only grows, by commits: a commit appends to one or more logs as
// one unit, and is durable before anybody hears of it. One process writes.
//
// Everything here may be called from any thread. commit() never blocks on the disk; load(), read()
// and read_commits() may.

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "domain/record.h"
#include "domain/rules.h"
#include "domain/state.h"
#include "domain/summary.h"

namespace rouse {

struct LogAppend {
    SessionId log;
    // Where the log must end for this to make sense; 0: it must not exist yet. Absent: anywhere.
    std::optional<Seq> expected_last;
    Records records;
};

// When the disk is full, what gives space back or ends something may still use the reserve.
enum class Urgency : std::uint8_t { normal, may_use_reserve };

struct Commit {
    std::vector<LogAppend> appends;
    Urgency urgency = Urgency::normal;
};

// A position in the order of all commits.
struct Cursor {
    std::uint64_t epoch = 0;  // rises with every opening of the store
    std::uint64_t group = 0;  // rises by one with every sync
    std::uint32_t index = 0;  // of the commit within its group
    friend auto operator<=>(const Cursor&, const Cursor&) = default;
};

struct Appended {
    SessionId log;
    Seq first = 0;
    Seq last = 0;
};

struct Committed {
    Cursor cursor;
    std::vector<Appended> appends;
};

// A commit as readers of the global stream see it: the lines as they stand in the logs.
struct CommittedLines {
    struct Part {
        SessionId log;
        std::vector<std::string> lines;  // without newlines
    };
    Cursor cursor;
    std::vector<Part> parts;
};

// How much is read at once: up to so many lines (or commits), and no further than behind the one
// with which it is so many bytes.
struct ReadLimit {
    std::size_t items;
    std::size_t bytes;

    ReadLimit(std::size_t most_items,
              std::size_t most_bytes = std::numeric_limits<std::size_t>::max())
        : items(most_items), bytes(most_bytes) {}
    bool is_reached(std::size_t items_read, std::size_t bytes_read) const {
        return items_read >= items || bytes_read >= bytes;
    }
};
std::size_t total_bytes(const std::vector<std::string>& lines);
std::size_t total_bytes(const CommittedLines& committed);

struct SessionFilter {
    std::optional<SessionStatus> status;  // as seen by `boot` at `now`
    std::optional<bool> suspended;        // parked, whatever became of its token
    std::optional<std::string> task_id;
    std::optional<std::string> agent;
    std::optional<std::string> alias;
    std::optional<std::string> external_id;
    std::optional<SessionId> parent;
    bool has_alias = false;                   // only those with one
    std::optional<Timestamp> updated_before;  // only those at rest since then
    BootId boot;
    Timestamp now{};
    SessionId before;  // only ids that sort before this one: the next page
    std::size_t limit = 50;
};

struct PendingFilter {
    using TakesTool = std::function<bool(std::string_view tool)>;

    std::optional<SessionId> session;
    std::optional<PendingStatus> status;
    std::optional<WaitsFor> waits_for;
    TakesTool takes_tool = {};  // absent: takes all. Quicker if it does not take "".
    std::optional<Timestamp> expires_by;
    std::vector<std::string> tasks;  // of sessions of these; empty: of all
    SessionId from = {};             // of sessions from this one on; empty: of all
    // Only calls that come behind this one. The beginning of an id, as far as it tells the session,
    // stands for all that begin like it.
    PendingId after;
    std::size_t limit = 1000;
};

// A place in the list of waits.
struct WaitPosition {
    Timestamp deadline = Timestamp::max();
    SessionId id;
    friend auto operator<=>(const WaitPosition&, const WaitPosition&) = default;
};

struct WaitFilter {
    std::optional<WaitKind> kind;
    std::optional<std::string> task_id;
    std::optional<std::string> agent;
    std::vector<std::string> tasks;     // of sessions of these; empty: of all
    std::optional<WaitPosition> after;  // only those that come behind it
    std::size_t limit = 50;
};

struct WaitCount {
    std::size_t waits = 0;
    Timestamp oldest = Timestamp::max();  // when the one that waits longest began to
    friend bool operator==(const WaitCount&, const WaitCount&) = default;
};

struct OpenPending {
    SessionId session;
    PendingSummary call;
    friend bool operator==(const OpenPending&, const OpenPending&) = default;
};

// A session whose bytes are not what was written. It is readable up to the damage and takes no
// commits; the others go on.
struct Damage {
    std::string file;
    std::uint64_t offset = 0;
    std::string reason;
    friend bool operator==(const Damage&, const Damage&) = default;
    static constexpr auto fields() {
        return std::tuple(required("file", &Damage::file), required("offset", &Damage::offset),
                          required("reason", &Damage::reason));
    }
};

// Refused for a reason that passes, and nothing was written.
bool is_passing(const Error& refusal);

struct StoreHealth {
    bool accepting = true;
    bool full = false;
    std::string problem;  // for people, when it does not accept
    std::vector<std::pair<SessionId, Damage>> damaged;
};

// What the system log folds to, as whoever folds it wrote it down for the next boot.
struct SystemView {
    Seq last_seq = 0;  // the last record that is in it
    RawJson state;
};

class Store {
 public:
    virtual ~Store() = default;

    using CommitDone = std::move_only_function<void(Result<Committed>)>;
    // Calls `done` once: after the commit is durable, or when it is clear that it never will be.
    // Commits are durable in the order of these calls; `done` runs on a thread of the store and
    // must be quick.
    //   conflict      log_moved: a log does not end where the commit expects; nothing was written
    //   not_found     unknown_session | session_gone
    //   corrupt       session_damaged
    //   invalid       empty_commit | commit_too_large
    //   unavailable   store_failed: after a failed write nothing is accepted until a new opening;
    //                 disk_full, too_many_files: later it may be taken; store_closed
    virtual void commit(Commit commit, CommitDone done) = 0;

    // The same for callers that have nothing else to do meanwhile. Not from a `done` or a listener.
    virtual Result<Committed> commit_and_wait(Commit commit);

    // While somebody holds the store, commits are collected; they go to the disk together when the
    // last one lets go. For a few microseconds of work that may add a commit to the one before.
    // Whoever has nothing else to do may write them by itself, which saves two changes of thread.
    // A holder that waits for a commit waits for itself.
    enum class Writer : std::uint8_t { store, holder };
    class Hold {
     public:
        Hold(Store& store, Writer writer) : store_(store), writer_(writer) { store_.hold(); }
        Hold(const Hold&) = delete;
        Hold& operator=(const Hold&) = delete;
        ~Hold() { store_.release(writer_); }

     private:
        Store& store_;
        Writer writer_;
    };

    // The state that the durable log folds to. not_found: unknown_session | session_gone.
    // corrupt: session_damaged.
    virtual Result<std::shared_ptr<const SessionState>> load(const SessionId& log) = 0;

    // Whether load() reads so much from the disk that it is no work for a loop.
    virtual bool loads_slowly(const SessionId& log) = 0;

    // Where the durable log ends; the same refusals.
    virtual Result<Seq> last_seq(const SessionId& log) = 0;
    virtual std::uint64_t log_bytes(const SessionId& log) = 0;  // 0: there is none

    // The task of the session, also of one that is damaged, or was deleted and still answers
    // "gone". Empty: it has none, or nobody knows it.
    virtual std::string task_of(const SessionId& log) = 0;

    // Lines from `from` on, oldest first, as they are stored, up to the limit or the end. Of a
    // damaged session: up to the damage.
    virtual Result<std::vector<std::string>> read(const SessionId& log, Seq from,
                                                  ReadLimit limit) = 0;

    virtual std::vector<SessionSummary> list(const SessionFilter& filter) = 0;  // newest first
    // By session, then by pending id.
    virtual std::vector<OpenPending> pending(const PendingFilter& filter) = 0;
    // Sessions that wait, the earliest deadline first, those without one at the end.
    virtual std::vector<SessionSummary> waits(const WaitFilter& filter) = 0;
    virtual std::map<WaitKind, WaitCount> count_waits() = 0;

    // Every session with an open run, in no particular order. The store is locked meanwhile: do not
    // call it from `visit`.
    virtual void visit_active(const std::function<void(const SessionSummary&)>& visit) = 0;

    // Commits behind `after`, in their order.
    //   precondition  cursor_too_old: no longer kept; cursor_ahead: nothing was committed there yet
    virtual Result<std::vector<CommittedLines>> read_commits(Cursor after, ReadLimit limit) = 0;

    // A cache, if the store has one: never ahead of the log or of another one, and never torn, but
    // it may be old, or gone.
    virtual std::optional<SystemView> system_view() { return std::nullopt; }
    virtual Result<void> save_system_view(const SystemView& /*view*/) { return {}; }

    // Told of every commit, in order, once it is durable and before its `done`. Set it once, before
    // the first commit. `wanted` is asked before each one, since to tell costs copies of its lines.
    struct Listener {
        std::function<void(const CommittedLines&)> hear;
        std::function<bool()> wanted = [] { return true; };
    };
    virtual void listen(Listener listener) = 0;

    virtual StoreHealth health() = 0;

 private:
    virtual void hold() {}
    virtual void release(Writer /*writer*/) {}
};

// Appends to one log.
Commit make_commit(const SessionId& log, std::optional<Seq> expected_last, Records records);

// The log from `from` on, parsed.
Result<std::vector<Record>> read_records(Store& store, const SessionId& log, Seq from = 1);

// The end of the log, parsed: more and more of it, until `is_enough` says so of it, or all.
using IsEnough = std::function<bool(std::span<const Record>)>;
Result<std::vector<Record>> read_back(Store& store, const SessionId& log,
                                      const IsEnough& is_enough);
// As much as says what the call was and how it was settled; all, if it was not.
Result<std::vector<Record>> read_back_to(Store& store, const SessionId& log, const PendingId& call);

bool matches(const SessionFilter& filter, const SessionSummary& session);
bool matches(const PendingFilter& filter, const SessionSummary& session,
             const PendingSummary& call);
bool matches(const WaitFilter& filter, const SessionSummary& session);
WaitPosition wait_position(const SessionSummary& session);

}  // namespace rouse
