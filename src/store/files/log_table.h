#pragma once

// What the store knows of its logs: the index of all of them, the state and the unwritten tail of
// those that changed since the last checkpoint, and a cache of states. It holds the durable prefix
// and nothing else. Not thread-safe: the store's mutex guards it.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/env.h"
#include "store/files/layout.h"
#include "store/files/log_reader.h"
#include "store/files/packs.h"
#include "store/files/session_index.h"
#include "store/files/state_cache.h"
#include "store/lent_state.h"
#include "store/store.h"

namespace rouse::files {

// A log that changed since the last checkpoint, or is about to.
struct OpenLog {
    LentState state;
    LogTip tip;            // with the tail
    std::string tail;      // durable in the journal, not yet in the log file
    bool changed = false;  // since the last checkpoint
    bool row_is_stale = false;
    bool in_line = false;                  // among those that came to rest
    Seq seen_last = 0;                     // where it ended when the house last looked
    bool has_views = true;                 // or may have: a checkpoint wrote some, or began to
    std::vector<PendingId> pending_views;  // among them
    bool was_packed = false;               // all of it is in the tail, and in a pack still

    std::uint64_t written() const { return tip.bytes - tail.size(); }
    // Nothing more is expected of it soon, unlike of a run that is under way or waits.
    bool has_ended() const { return tip.last > 0 && !state->run_is_open(); }
};

class LogTable {
 public:
    LogTable(Env env, Layout layout, std::size_t cache_bytes);

    // From now on a log that is made is new on disk too.
    void finish_replay() { replaying_ = false; }

    // The log with its state, read and checked from disk if need be; or a new one.
    //   not_found  unknown_session | session_gone
    //   corrupt    session_damaged, now also set aside
    enum class IfMissing : std::uint8_t { refuse, create };
    Result<OpenLog*> open(const SessionId& id, IfMissing if_missing);

    // True when the index knows bytes of this log, nobody has opened it yet, and its file is not
    // there, or was blanked.
    Result<bool> file_is_missing(const SessionId& id);

    // Folds one record behind the end of an open log. The caller appends its line to the tail.
    void fold_into(OpenLog& log, const RecordView& record);
    // For a log whose tail was refilled by hand: its row is computed anew when somebody asks.
    void mark_changed(OpenLog& log);

    Result<std::shared_ptr<const SessionState>> load(const SessionId& id);

    // In three steps, of which the second needs no lock, as what is read does not change: the row
    // of a log that load() would have to read, ...
    std::optional<IndexRow> unread(const SessionId& id);
    // ... what it says ...
    struct ReadLog {
        OpenLog log;
        std::string wrong = {};  // behind its tip, if anything
    };
    Result<ReadLog> read_log(const SessionId& id, const IndexRow& row) const;
    // ... and its state, kept as load() keeps it. Null if the log has gone on meanwhile, or is
    // damaged.
    std::shared_ptr<const SessionState> keep(const SessionId& id, const IndexRow& row,
                                             ReadLog read);

    Result<Seq> last_seq(const SessionId& id);

    // Where the bytes of a log are: so much of the file, then the tail.
    struct Extent {
        std::optional<PackPlace> packed;
        std::uint64_t written = 0;
        std::string tail;
        Seq last = 0;  // 0: not known, the log is damaged
    };
    Result<Extent> extent(const SessionId& id);
    // Then it is also what it was: nothing is blanked before the row has gone or changed.
    bool is_packed_at(const SessionId& id, const PackPlace& place);
    std::uint64_t log_bytes(const SessionId& id);  // 0: there is none
    std::string task_of(const SessionId& id);      // also of a deleted one

    // The index with every row up to date.
    const SessionIndex& index();
    SessionIndex& index_for_checkpoint();
    // The rows that may pass the filter, newest first, until `visit` returns false. By name, if it
    // asks for an alias, an external id, a parent or a task.
    void visit_rows(const SessionFilter& filter, const SessionIndex::Visit& visit);

    // From now on the log takes nothing. What is good of it is in its file afterwards;
    // `unappended`, which can no longer follow, is kept beside it.
    Result<void> set_aside(const SessionId& id, Damage damage, std::string_view unappended);
    const std::vector<std::pair<SessionId, Damage>>& damaged() const { return damaged_; }

    std::unordered_map<SessionId, OpenLog>& open_logs() { return open_; }
    std::size_t tail_bytes() const { return tail_bytes_; }
    void append_tail(OpenLog& log, std::string_view lines);
    void drop_tail(OpenLog& log, std::size_t bytes);

    // Notes that the log has ended, once, until it is taken.
    void came_to_rest(const SessionId& id, OpenLog& log);
    // The first of those that have not moved since; others go to the end of the line.
    std::vector<SessionId> take_rested(std::size_t most);
    // Drops those that are no longer open from the line.
    void shorten_line();

    // An open log that was written down: its row goes to the index, its state to the cache unless
    // it is quick to read again.
    void retire(const SessionId& id);

    // States that can be read again, of sessions that nobody writes to.
    void forget_states() { cache_.clear(); }

    // The same of one that was written to a pack as it is.
    void retire_packed(const SessionId& id, const PackPlace& place);

    // Sessions deleted since the last checkpoint, with what they may have left.
    struct Deleted {
        SessionId id;
        std::vector<PendingId> views;
        std::vector<PackedLog> packed;
    };
    std::vector<Deleted> take_deleted();
    void return_deleted(std::vector<Deleted> deleted);

    // What logs have left in packs, until an index is on disk that knows nothing of it.
    using Leftovers = std::multimap<SessionId, PackedLog>;
    bool has_leftovers() const { return !leftovers_.empty(); }
    Leftovers take_leftovers() { return std::exchange(leftovers_, {}); }
    void return_leftovers(Leftovers leftovers) { leftovers_.merge(leftovers); }
    // A copy that was written in vain: the log went on meanwhile, or was deleted.
    void leave_in_pack(const SessionId& id, const PackedLog& copy);

    // Takes over what opening found: a parsed index, or one log after the other.
    void adopt(SessionIndex index) { index_ = std::move(index); }
    void adopt_log(const SessionId& id, OpenLog log);
    void adopt_tombstone(const SessionId& id, Timestamp at) { remove(id, at); }
    // Made again after it was deleted and that was forgotten.
    void adopt_new(const SessionId& id);
    bool is_deleted(const SessionId& id) const { return index_.deleted_at(id).has_value(); }
    // Damage found by earlier processes.
    Result<void> read_damage_reports();

 private:
    Result<OpenLog> read_good_log(const SessionId& id, const IndexRow& row);
    Result<void> write_tail(const SessionId& id, const OpenLog& log);
    void refresh_row(const SessionId& id, OpenLog& log);
    void refresh_rows();
    using Names = std::unordered_map<std::string, std::set<SessionId>>;
    // Whom the rows name.
    struct Book {
        Names aliases;
        Names external_ids;
        Names parents;
        Names tasks;
        void learn(const SessionSummary& session);
        void forget(const SessionSummary& session);
    };
    const Book& book();
    void remove(const SessionId& id, Timestamp at);

    Env env_;
    Layout layout_;
    SessionIndex index_;
    std::unordered_map<SessionId, OpenLog> open_;
    StateCache cache_;
    bool replaying_ = true;
    std::vector<std::pair<SessionId, Damage>> damaged_;
    std::vector<Deleted> deleted_;
    Leftovers leftovers_;
    std::vector<SessionId> stale_rows_;             // or were when they were put here
    std::deque<std::pair<SessionId, Seq>> rested_;  // with where they ended, the oldest first
    std::optional<Book> book_;                      // made when somebody first asks for a name
    std::size_t tail_bytes_ = 0;
};

}  // namespace rouse::files
