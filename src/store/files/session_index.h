#pragma once

// The index of all sessions, in memory and as index.ckpt. What checkpoints wrote stays text, a line
// a session, parsed only when somebody asks; what changed since lies beside it as values. So a
// session costs its line, and opening costs what is active.
//
// index.ckpt: parts, one behind the other. The first has every session, each later one what changed
// since the part before it. A part is a header line, then the rows of sessions with an open run,
// then those of all others, then the deleted ones, each sorted by id. Every line is JSON; the
// header has the checksum of all that is behind it in the part.
//
// Not thread-safe.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "domain/chain.h"
#include "domain/summary.h"
#include "store/files/journal.h"
#include "store/files/packs.h"
#include "store/files/row_sieve.h"
#include "store/store.h"

namespace rouse::files {

// What the store knows of a log without reading it.
struct IndexRow {
    SessionSummary session;  // first: its id stands at a fixed place in the line
    std::uint64_t bytes = 0;
    std::string chain;
    std::optional<PackPlace> packed;  // without: the log is a file of its own
    std::optional<Damage> damaged;
    // How much of the log can be read, from where it begins.
    std::uint64_t good_bytes() const;
    friend bool operator==(const IndexRow&, const IndexRow&) = default;
    static constexpr auto fields() {
        using S = IndexRow;
        return std::tuple(required("session", &S::session), required("bytes", &S::bytes),
                          required("chain", &S::chain), field("packed", &S::packed),
                          field("damaged", &S::damaged));
    }
};

// What is left of a deleted session.
struct Tombstone {
    SessionId id;
    Timestamp at{};
    std::string task_id;
    static constexpr auto fields() {
        return std::tuple(required("id", &Tombstone::id), required("gone", &Tombstone::at),
                          field("task_id", &Tombstone::task_id));
    }
};

// A row where it lies: as a value if it changed since the checkpoint, else as text. Good as long as
// the index does not change.
class RowInPlace {
 public:
    explicit RowInPlace(const IndexRow& changed) : changed_(&changed) {}
    RowInPlace(std::string_view id, std::string_view text) : id_(id), text_(text) {}

    std::string_view id() const;
    std::optional<Timestamp> updated_at() const;
    std::optional<Timestamp> deadline_at() const;
    std::optional<WaitKind> wait_kind() const;  // of an active one: absent unless it waits
    IndexRow row() const;

 private:
    const IndexRow* changed_ = nullptr;
    std::string_view id_;
    std::string_view text_;
};

class SessionIndex {
 public:
    using Visit = std::function<bool(const IndexRow&)>;           // false: enough
    using VisitInPlace = std::function<bool(const RowInPlace&)>;  // false: enough

    SessionIndex() = default;

    // corrupt: the first part is not whole. Of later ones, those up to the first that is not;
    // `position` is that of the last one taken.
    static Result<SessionIndex> parse(std::string text, JournalPosition& position);
    // How much of the file the whole parts are.
    std::uint64_t file_bytes() const { return file_bytes_; }

    std::optional<IndexRow> find(const SessionId& id) const;
    std::optional<Timestamp> deleted_at(const SessionId& id) const;
    const Tombstone* find_tombstone(const SessionId& id) const;  // null: it was not deleted

    void put(IndexRow row);
    void remove(Tombstone gone);
    // Drops what was deleted before `before`.
    void forget_deleted(Timestamp before);
    void revive(const SessionId& id);

    // Rows that the sieve holds back are left out, if nothing about them changed since the
    // checkpoint. Newest first: of those below `before`, unless that is empty. Active ones come in
    // the order of their ids, from `from` on.
    void visit_newest_first(const Visit& visit, const RowSieve& sieve = {},
                            const SessionId& before = {}) const;
    void visit_active(const VisitInPlace& visit, const RowSieve& sieve = {},
                      const SessionId& from = {}) const;

    // Where packs are named: by rows that changed, and in these texts, also by rows that a later
    // part has replaced. What is in the texts can be found without a lock.
    struct NamesOfPacks {
        std::set<std::uint64_t> changed;
        std::vector<std::shared_ptr<const std::string>> texts;
        std::set<std::uint64_t> all() const;
    };
    NamesOfPacks names_of_packs() const;

    // True when the next checkpoint should be a file with everything in one part, not one more
    // part behind those that are there: they would be more than that saves. `tidily`: already when
    // they are a sixteenth of it.
    bool wants_whole(bool tidily) const;
    // A copy of what the next checkpoint needs.
    SessionIndex copy_for(bool whole) const;
    // Everything as one part; or, of a copy, what changed.
    std::string to_checkpoint(const JournalPosition& position) const;
    // What to_checkpoint() made from `copy` is on disk: as a part at the end of the file, or,
    // parsed, as the whole file. What changed since the copy stays beside it.
    Result<void> checkpointed(const SessionIndex& copy, std::string part);
    void checkpointed(const SessionIndex& copy, SessionIndex&& whole);

 private:
    // Where lines are in the texts taken one behind the other, sorted by the ids there.
    using Lines = std::vector<std::uint32_t>;
    struct Text {
        std::uint32_t begin = 0;
        std::shared_ptr<const std::string> text;  // shared with copies of the index
    };
    void forget_changes_of(const SessionIndex& copy);
    struct Part;

    std::string_view text_from(std::uint32_t offset) const;
    std::string_view line_at(std::uint32_t offset) const;
    std::string_view id_at(std::uint32_t offset) const;
    std::optional<std::uint32_t> find_line(const Lines& lines, std::string_view id) const;
    Lines::const_iterator first_from(const Lines& lines, std::string_view id) const;
    bool has_line(std::string_view id) const;
    Result<JournalPosition> adopt(std::string text);
    Result<Part> read_part(std::uint32_t begin) const;
    void take(Part part);
    void put_lines(Lines& into, const Part& part, bool active) const;
    std::uint64_t write_rows(std::string& body, const Lines& lines, bool active) const;

    std::vector<Text> texts_;
    std::size_t parts_ = 0;
    std::uint64_t file_bytes_ = 0;
    std::uint64_t whole_bytes_ = 0;  // of the first part
    Lines active_;
    Lines idle_;
    std::map<SessionId, std::shared_ptr<const IndexRow>> changed_;  // shared with copies too
    std::map<SessionId, Tombstone> deleted_;
    std::vector<SessionId> newly_deleted_;  // since the last checkpoint
};

}  // namespace rouse::files
