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

class SessionIndex {
 public:
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

    // Newest id first, until `visit` returns false.
    void visit_newest_first(const std::function<bool(const IndexRow&)>& visit) const;
    void visit_active(const std::function<void(const IndexRow&)>& visit) const;
    std::size_t size() const;

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
    IndexRow row_at(std::uint32_t offset) const;
    bool is_current(std::uint32_t offset) const;
    Result<void> adopt(std::string text, JournalPosition& position);
    std::uint64_t write_part(std::string& body, const Lines& lines, bool active) const;

    std::shared_ptr<const std::string> block_;  // shared with copies of the index
    Lines active_;
    Lines idle_;
    std::map<SessionId, std::shared_ptr<const IndexRow>> changed_;  // shared with copies too
    std::map<SessionId, Tombstone> deleted_;
};

}  // namespace rouse::files
