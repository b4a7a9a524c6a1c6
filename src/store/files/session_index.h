#pragma once

// The index of all sessions, in memory and as index.ckpt. What the last checkpoint wrote stays one
// block of text, a line a session, parsed only when somebody asks; what changed since lies beside
// it as values. So a session costs its line, and opening costs what is active.
//
// index.ckpt: a header line, then the rows of sessions with an open run, then those of all others,
// then the deleted ones, each part sorted by id. Every line is JSON; the header has the checksum of
// everything behind it.
//
// Not thread-safe.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "domain/chain.h"
#include "domain/summary.h"
#include "store/files/journal.h"
#include "store/files/row_sieve.h"
#include "store/store.h"

namespace rouse::files {

// What the store knows of a log without reading it.
struct IndexRow {
    SessionSummary session;  // first: its id stands at a fixed place in the line
    std::uint64_t bytes = 0;
    std::string chain;
    std::optional<Damage> damaged;
    friend bool operator==(const IndexRow&, const IndexRow&) = default;
    static constexpr auto fields() {
        using S = IndexRow;
        return std::tuple(required("session", &S::session), required("bytes", &S::bytes),
                          required("chain", &S::chain), field("damaged", &S::damaged));
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

    // corrupt: not a whole index checkpoint; `position` is set otherwise.
    static Result<SessionIndex> parse(std::string text, JournalPosition& position);

    std::optional<IndexRow> find(const SessionId& id) const;
    bool contains(const SessionId& id) const;
    std::optional<Timestamp> deleted_at(const SessionId& id) const;
    const Tombstone* find_tombstone(const SessionId& id) const;  // null: it was not deleted

    void put(IndexRow row);
    void remove(Tombstone gone);
    // Drops what was deleted before `before`.
    void forget_deleted(Timestamp before);

    // Rows that the sieve holds back are left out, if nothing about them changed since the
    // checkpoint. Newest first: of those below `before`, unless that is empty. Active ones come in
    // the order of their ids, from `from` on.
    void visit_newest_first(const Visit& visit, const RowSieve& sieve = {},
                            const SessionId& before = {}) const;
    void visit_active(const VisitInPlace& visit, const RowSieve& sieve = {},
                      const SessionId& from = {}) const;

    // The whole as a checkpoint file.
    std::string to_checkpoint(const JournalPosition& position) const;
    // Takes over the block of `fresh`, the parsed checkpoint that was made from `snapshot`, a copy
    // of this index; rows that changed since that copy stay beside it.
    void rebase(const SessionIndex& snapshot, SessionIndex fresh);

    std::size_t changed_rows() const { return changed_.size(); }
    std::size_t block_bytes() const { return block_ ? block_->size() : 0; }

 private:
    // Offsets of lines in the block, sorted by the ids there.
    using Lines = std::vector<std::uint32_t>;

    std::string_view line_at(std::uint32_t offset) const;
    std::string_view id_at(std::uint32_t offset) const;
    std::optional<std::uint32_t> find_line(const Lines& lines, std::string_view id) const;
    Lines::const_iterator first_from(const Lines& lines, std::string_view id) const;
    Result<void> adopt(std::string text, JournalPosition& position);
    std::uint64_t write_part(std::string& body, const Lines& lines, bool active) const;

    std::shared_ptr<const std::string> block_;  // shared with copies of the index
    Lines active_;
    Lines idle_;
    std::map<SessionId, std::shared_ptr<const IndexRow>> changed_;  // shared with copies too
    std::map<SessionId, Tombstone> deleted_;
};

}  // namespace rouse::files
