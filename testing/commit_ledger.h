#pragma once

// What callers of a store were told, kept outside its file system: the measure of what must be
// there after a crash. A RecordingStore writes the ledger; after the next opening compare() says
// whether the store still has what it acknowledged, and nothing that nobody asked for.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "testing/forwarding_store.h"

namespace rouse::testing {

// What is wrong, one line each; empty when all is well.
using Problems = std::vector<std::string>;

class CommitLedger final {
 public:
    void begin(const Commit& commit);
    void acknowledged(const Committed& committed);
    void refused();        // nothing of it was written
    void left_in_doubt();  // the store failed on the way: it is there as a whole or not at all
    bool in_doubt() const { return in_doubt_.has_value(); }

    // Reads every log of a store that was just opened, before anything is committed to it. A commit
    // in doubt is settled by what the store shows: from then on it is there for good, or it never
    // was.
    Problems compare(Store& store);

    std::uint64_t commits() const { return commits_; }
    std::uint64_t records() const;

 private:
    struct Part {
        SessionId log;
        std::vector<std::string> bodies;  // as render_body gives them
        bool deletes = false;             // the session ends with it
    };
    using Parts = std::vector<Part>;

    void append(const Part& part);
    std::size_t records_of(const SessionId& log) const;
    void compare_log(Store& store, const SessionId& log, Problems& problems) const;
    bool shows(Store& store, const Part& part) const;
    void settle_doubt(Store& store, Problems& problems);
    void look_for_strangers(Store& store, Problems& problems) const;

    std::map<SessionId, std::vector<std::string>> logs_;
    std::set<SessionId> deleted_;
    std::optional<Parts> open_;  // between begin() and its outcome
    std::optional<Parts> in_doubt_;
    Cursor last_;
    std::uint64_t commits_ = 0;
    Problems misnumbered_;
};

// Passes everything on and enters each commit into the ledger. One thread; the store's own `done`
// must come before its commit() returns.
class RecordingStore final : public ForwardingStore {
 public:
    // Told of every commit once the store is through with it.
    using Observer = std::function<void(Store& store, const Result<Committed>& outcome)>;

    RecordingStore(Store& inner, CommitLedger& ledger, Observer observer = {})
        : ForwardingStore(inner), ledger_(ledger), observer_(std::move(observer)) {}

    void commit(Commit commit, CommitDone done) override;

 private:
    CommitLedger& ledger_;
    Observer observer_;
    bool failed_ = false;  // it takes nothing any more, so nothing more can be in doubt
};

}  // namespace rouse::testing
