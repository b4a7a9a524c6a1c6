#include "store/memory/memory_store.h"

#include <algorithm>
#include <ranges>
#include <set>
#include <span>

#include "domain/fold.h"

namespace rouse {
namespace {

Error session_gone(const SessionId& id) {
    return {ErrorKind::not_found, "session_gone", "session " + id.text() + " was deleted"};
}

Error unknown_session(const SessionId& id) {
    return {ErrorKind::not_found, "unknown_session", "there is no session " + id.text()};
}

std::size_t bytes_of(const std::string& line) {
    return line.size();
}
std::size_t bytes_of(const CommittedLines& committed) {
    return total_bytes(committed);
}

template <class Items>
auto take_up_to(ReadLimit limit, const Items& items) {
    std::vector<std::ranges::range_value_t<Items>> taken;
    std::size_t bytes = 0;
    for (const auto& item : items) {
        if (limit.is_reached(taken.size(), bytes)) break;
        taken.push_back(item);
        bytes += bytes_of(item);
    }
    return taken;
}

}  // namespace

Result<void> MemoryStore::check(const Commit& commit) const {
    std::set<SessionId> seen;
    for (const LogAppend& append : commit.appends) {
        if (append.records.empty()) {
            return Error(ErrorKind::invalid, "empty_commit",
                         "a commit has at least one record for each log");
        }
        if (!seen.insert(append.log).second) {
            return Error(ErrorKind::invalid, "duplicate_log", "a commit names each log once");
        }
        if (deleted_.contains(append.log)) return session_gone(append.log);
        const auto log = logs_.find(append.log);
        const Seq last = log == logs_.end() ? 0 : log->second.lines.size();
        if (append.expected_last && *append.expected_last != last) {
            return Error(ErrorKind::conflict, "log_moved",
                         "log " + append.log.text() + " ends at " + std::to_string(last) +
                             ", not at " + std::to_string(*append.expected_last));
        }
        if (last > 0 || append.log == system_log()) continue;
        const auto* created = std::get_if<SessionCreated>(&append.records.front());
        if (created == nullptr || created->id != append.log) return unknown_session(append.log);
    }
    if (!commit.appends.empty()) return {};
    return Error(ErrorKind::invalid, "empty_commit", "a commit names at least one log");
}

CommittedLines MemoryStore::append(Commit& commit) {
    CommittedLines committed{{1, commits_.size() + 1, 0}, {}};
    for (LogAppend& append : commit.appends) {
        auto [found, is_new] = logs_.try_emplace(append.log);
        Log& log = found->second;
        if (is_new) log.chain = Chain::start_of(append.log);
        const Timestamp at = std::max(clock_.now(), log.state->updated_at);
        CommittedLines::Part part{append.log, {}};
        for (RecordBody& body : append.records) {
            std::string line;
            const Seq seq = log.lines.size() + 1;
            append_line(line, seq, at, body, log.chain);
            line.pop_back();
            part.lines.push_back(line);
            log.lines.push_back(std::move(line));
            fold(log.state.change(), Record{seq, at, std::move(body)});
        }
        if (log.state->deleted) {
            deleted_.emplace(append.log, log.state->task_id);
            logs_.erase(found);
        }
        committed.parts.push_back(std::move(part));
    }
    commits_.push_back(committed);
    return committed;
}

void MemoryStore::commit(Commit commit, CommitDone done) {
    Result<Committed> result;
    {
        const std::lock_guard lock(mutex_);
        if (const Result<void> fits = check(commit); !fits) {
            result = fits.error();
        } else {
            for (const LogAppend& append : commit.appends) {
                const auto log = logs_.find(append.log);
                const Seq last = log == logs_.end() ? 0 : log->second.lines.size();
                result->appends.push_back({append.log, last + 1, last + append.records.size()});
            }
            const CommittedLines committed = append(commit);
            result->cursor = committed.cursor;
            if (listener_.hear && listener_.wanted()) listener_.hear(committed);
        }
    }
    done(std::move(result));
}

Result<MemoryStore::Log*> MemoryStore::find(const SessionId& id) {
    if (deleted_.contains(id)) return session_gone(id);
    const auto log = logs_.find(id);
    if (log == logs_.end()) return unknown_session(id);
    return &log->second;
}

Result<std::shared_ptr<const SessionState>> MemoryStore::load(const SessionId& id) {
    const std::lock_guard lock(mutex_);
    const Result<Log*> log = find(id);
    if (!log) return log.error();
    return (*log)->state.lend();
}

Result<Seq> MemoryStore::last_seq(const SessionId& id) {
    const std::lock_guard lock(mutex_);
    const Result<Log*> log = find(id);
    if (!log) return log.error();
    return (*log)->state->last_seq;
}

std::uint64_t MemoryStore::log_bytes(const SessionId& id) {
    const std::lock_guard lock(mutex_);
    const Result<Log*> log = find(id);
    std::uint64_t bytes = 0;
    for (const std::string& line : log ? (*log)->lines : std::vector<std::string>())
        bytes += line.size() + 1;
    return bytes;
}

std::string MemoryStore::task_of(const SessionId& id) {
    const std::lock_guard lock(mutex_);
    if (const auto gone = deleted_.find(id); gone != deleted_.end()) return gone->second;
    const auto log = logs_.find(id);
    return log == logs_.end() ? std::string() : log->second.state->task_id;
}

Result<std::vector<std::string>> MemoryStore::read(const SessionId& id, Seq from, ReadLimit limit) {
    const std::lock_guard lock(mutex_);
    const Result<Log*> log = find(id);
    if (!log) return log.error();
    const std::size_t skipped = from == 0 ? 0 : from - 1;
    return take_up_to(limit,
                      std::span((*log)->lines).subspan(std::min(skipped, (*log)->lines.size())));
}

std::vector<SessionSummary> MemoryStore::list(const SessionFilter& filter) {
    std::vector<SessionSummary> found;
    const std::lock_guard lock(mutex_);
    for (const auto& [id, log] : logs_ | std::views::reverse) {
        if (id == system_log() || found.size() >= filter.limit) continue;
        SessionSummary row = summarize(*log.state);
        if (matches(filter, row)) found.push_back(std::move(row));
    }
    return found;
}

std::vector<OpenPending> MemoryStore::pending(const PendingFilter& filter) {
    std::vector<OpenPending> found;
    const std::lock_guard lock(mutex_);
    for (const auto& [id, log] : logs_) {
        const SessionSummary row = summarize(*log.state);
        for (const PendingSummary& call : row.pending) {
            if (matches(filter, row, call)) found.push_back({id, call});
        }
    }
    std::ranges::sort(found, {}, [](const OpenPending& one) {
        return std::tie(one.session, one.call.pending_id);
    });
    if (found.size() > filter.limit) found.resize(filter.limit);
    return found;
}

std::vector<SessionSummary> MemoryStore::waits(const WaitFilter& filter) {
    std::vector<SessionSummary> found;
    visit_active([&](const SessionSummary& session) {
        if (matches(filter, session)) found.push_back(session);
    });
    std::ranges::sort(found, {}, wait_position);
    if (found.size() > filter.limit) found.resize(filter.limit);
    return found;
}

std::map<WaitKind, WaitCount> MemoryStore::count_waits() {
    std::map<WaitKind, WaitCount> counts;
    visit_active([&](const SessionSummary& session) {
        if (!matches(WaitFilter(), session)) return;
        WaitCount& count = counts[*session.wait_kind];
        ++count.waits;
        count.oldest = std::min(count.oldest, session.updated_at);
    });
    return counts;
}

void MemoryStore::visit_active(const std::function<void(const SessionSummary&)>& visit) {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, log] : logs_) {
        const SessionSummary row = summarize(*log.state);
        if (row.is_active()) visit(row);
    }
}

Result<std::vector<CommittedLines>> MemoryStore::read_commits(Cursor after, ReadLimit limit) {
    const std::lock_guard lock(mutex_);
    if (after.epoch > 1 || after.group > commits_.size()) {
        return Error(ErrorKind::precondition, "cursor_ahead", "the commits end before this cursor");
    }
    return take_up_to(limit, std::span(commits_).subspan(after.group));
}

void MemoryStore::listen(Listener listener) {
    listener_ = std::move(listener);
}

StoreHealth MemoryStore::health() {
    return {};
}

}  // namespace rouse
