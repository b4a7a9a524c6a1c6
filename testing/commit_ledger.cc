#include "testing/commit_ledger.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/check.h"

namespace rouse::testing {
namespace {

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

bool has_body(const std::string& line, const std::string& body) {
    return line.find(body) != std::string::npos;
}

// Records from `from` on are these bodies, and nothing follows.
bool ends_with_bodies(const std::vector<std::string>& lines, std::size_t from,
                      const std::vector<std::string>& bodies) {
    if (lines.size() != from + bodies.size()) return false;
    return std::equal(
        bodies.begin(), bodies.end(), lines.begin() + static_cast<std::ptrdiff_t>(from),
        [](const std::string& body, const std::string& line) { return has_body(line, body); });
}

}  // namespace

void CommitLedger::begin(const Commit& commit) {
    Parts parts;
    for (const LogAppend& append : commit.appends) {
        Part part{append.log, {}, false};
        for (const RecordBody& body : append.records) {
            part.bodies.push_back(render_body(body));
            const auto* gone = std::get_if<SessionDeleted>(&body);
            part.deletes = gone != nullptr && gone->session_id.empty();
        }
        parts.push_back(std::move(part));
    }
    open_ = std::move(parts);
}

void CommitLedger::acknowledged(const Committed& committed) {
    ROUSE_CHECK(open_.has_value(), "an acknowledgement without a commit");
    ++commits_;
    if (committed.cursor <= last_) misnumbered_.emplace_back("a cursor does not rise");
    last_ = committed.cursor;
    for (const Part& part : *open_) {
        const auto told = std::ranges::find(committed.appends, part.log, &Appended::log);
        const std::size_t before = records_of(part.log);
        if (told == committed.appends.end() || told->first != before + 1 ||
            told->last != before + part.bodies.size()) {
            misnumbered_.push_back("acknowledged with a wrong seq: " + part.log.text());
        }
        append(part);
    }
    open_.reset();
}

void CommitLedger::refused() {
    open_.reset();
}

void CommitLedger::left_in_doubt() {
    ROUSE_CHECK(!in_doubt_, "two commits in doubt: the store went on after a failure");
    in_doubt_ = std::exchange(open_, std::nullopt);
}

void CommitLedger::append(const Part& part) {
    std::vector<std::string>& log = logs_[part.log];
    log.insert(log.end(), part.bodies.begin(), part.bodies.end());
    if (part.deletes) deleted_.insert(part.log);
}

std::size_t CommitLedger::records_of(const SessionId& log) const {
    const auto found = logs_.find(log);
    return found == logs_.end() ? 0 : found->second.size();
}

std::uint64_t CommitLedger::records() const {
    std::uint64_t all = 0;
    for (const auto& [log, bodies] : logs_) {
        all += bodies.size();
    }
    return all;
}

bool CommitLedger::shows(Store& store, const Part& part) const {
    const Result<std::vector<std::string>> lines = store.read(part.log, 1, kAll);
    if (!lines) return part.deletes && lines.error().reason == "session_gone";
    return ends_with_bodies(*lines, records_of(part.log), part.bodies);
}

void CommitLedger::settle_doubt(Store& store, Problems& problems) {
    const Result<std::vector<CommittedLines>> behind = store.read_commits(last_, kAll);
    if (!behind) problems.push_back("the stream of commits: " + behind.error().message);
    const std::size_t streamed = behind ? behind->size() : 0;
    const Parts parts = std::exchange(in_doubt_, std::nullopt).value_or(Parts());
    const auto shown =
        std::ranges::count_if(parts, [&](const Part& part) { return shows(store, part); });
    if (shown != 0 && shown != std::ssize(parts)) {
        problems.push_back("half a commit: " + std::to_string(shown) + " of " +
                           std::to_string(parts.size()) + " logs have it");
        return;
    }
    if (streamed != (shown == 0 ? 0 : 1)) {
        problems.push_back("the stream has " + std::to_string(streamed) + " commits in doubt");
    }
    if (shown == 0) return;
    for (const Part& part : parts) {
        append(part);
    }
    if (streamed == 1) last_ = behind->front().cursor;
}

void CommitLedger::compare_log(Store& store, const SessionId& log, Problems& problems) const {
    const Result<std::vector<std::string>> lines = store.read(log, 1, kAll);
    if (deleted_.contains(log)) {
        if (lines || lines.error().reason != "session_gone") {
            problems.push_back("a deleted session is back: " + log.text());
        }
        return;
    }
    if (!lines) {
        problems.push_back("lost log " + log.text() + ": " + lines.error().message);
        return;
    }
    const std::vector<std::string>& bodies = logs_.at(log);
    if (lines->size() != bodies.size()) {
        problems.push_back(log.text() + " has " + std::to_string(lines->size()) +
                           " records where " + std::to_string(bodies.size()) + " are expected");
    }
    for (std::size_t i = 0; i < std::min(lines->size(), bodies.size()); ++i) {
        const Result<Record> record = parse_record((*lines)[i]);
        if (!record || record->seq != i + 1) {
            problems.push_back(log.text() + " has no record " + std::to_string(i + 1));
        } else if (!has_body((*lines)[i], bodies[i])) {
            problems.push_back(log.text() + " has another record " + std::to_string(i + 1) + ": " +
                               (*lines)[i] + " instead of " + bodies[i]);
        }
    }
}

void CommitLedger::look_for_strangers(Store& store, Problems& problems) const {
    SessionFilter all;
    all.limit = kAll;
    for (const SessionSummary& row : store.list(all)) {
        if (!logs_.contains(row.id)) problems.push_back("nobody made " + row.id.text());
    }
}

Problems CommitLedger::compare(Store& store) {
    Problems problems = misnumbered_;
    if (open_) problems.emplace_back("a commit was never answered");
    settle_doubt(store, problems);
    for (const auto& [log, bodies] : logs_) {
        compare_log(store, log, problems);
    }
    look_for_strangers(store, problems);
    for (const auto& [log, damage] : store.health().damaged) {
        problems.push_back("set aside: " + log.text() + ", " + damage.reason);
    }
    return problems;
}

void RecordingStore::commit(Commit commit, CommitDone done) {
    ledger_.begin(commit);
    std::optional<Result<Committed>> outcome;
    inner_.commit(std::move(commit), [&](Result<Committed> result) {
        if (result) {
            ledger_.acknowledged(*result);
        } else if (result.error().reason == "store_failed" && !std::exchange(failed_, true)) {
            ledger_.left_in_doubt();
        } else {
            ledger_.refused();
        }
        outcome = std::move(result);
    });
    ROUSE_CHECK(outcome.has_value(), "a store without threads answers at once");
    if (observer_) observer_(inner_, *outcome);
    done(*std::move(outcome));
}

}  // namespace rouse::testing
