#include "store/store.h"

#include <algorithm>
#include <future>
#include <limits>

#include "domain/history.h"
#include "domain/status.h"

namespace rouse {

bool is_passing(const Error& refusal) {
    return refusal.reason == "disk_full" || refusal.reason == "too_many_files";
}

Result<Committed> Store::commit_and_wait(Commit commit) {
    std::promise<Result<Committed>> promise;
    std::future<Result<Committed>> future = promise.get_future();
    // The promise moves into the callback: it must outlive set_value, and this frame may not.
    this->commit(std::move(commit),
                 [promise = std::move(promise)](Result<Committed> result) mutable {
                     promise.set_value(std::move(result));
                 });
    return future.get();
}

Commit make_commit(const SessionId& log, std::optional<Seq> expected_last, Records records) {
    Commit commit;
    commit.appends.push_back({log, expected_last, std::move(records)});
    return commit;
}

std::size_t total_bytes(const std::vector<std::string>& lines) {
    std::size_t bytes = 0;
    for (const std::string& line : lines)
        bytes += line.size();
    return bytes;
}

std::size_t total_bytes(const CommittedLines& committed) {
    std::size_t bytes = 0;
    for (const CommittedLines::Part& part : committed.parts)
        bytes += total_bytes(part.lines);
    return bytes;
}

Result<std::vector<Record>> read_records(Store& store, const SessionId& log, Seq from) {
    const Result<std::vector<std::string>> lines =
        store.read(log, from, std::numeric_limits<std::size_t>::max());
    if (!lines) return lines.error();
    std::vector<Record> records;
    records.reserve(lines->size());
    for (const std::string& line : *lines) {
        Result<Record> record = parse_record(line);
        if (!record) return record.error();
        records.push_back(*std::move(record));
    }
    return records;
}

Result<std::vector<Record>> read_back(Store& store, const SessionId& log,
                                      const IsEnough& is_enough) {
    const Result<Seq> last = store.last_seq(log);
    if (!last) return last.error();
    constexpr Seq kFirstLook = 64;
    for (Seq back = kFirstLook;; back *= 4) {
        const Seq from = *last > back ? *last - back + 1 : 1;
        Result<std::vector<Record>> records = read_records(store, log, from);
        if (!records || is_enough(*records) || from == 1) return records;
    }
}

Result<std::vector<Record>> read_back_to(Store& store, const SessionId& log,
                                         const PendingId& call) {
    return read_back(store, log, [&](std::span<const Record> records) {
        return find_settled_call(records, call).has_value();
    });
}

bool matches(const SessionFilter& filter, const SessionSummary& session) {
    const auto equal = [](const auto& wanted, const auto& value) {
        return !wanted || *wanted == value;
    };
    if (!filter.before.empty() && !(session.id < filter.before)) return false;
    if (!equal(filter.task_id, session.task_id) || !equal(filter.agent, session.agent) ||
        !equal(filter.alias, session.alias) || !equal(filter.external_id, session.external_id) ||
        !equal(filter.parent, session.parent)) {
        return false;
    }
    if (filter.suspended && *filter.suspended != (session.run.phase == RunPhase::parked)) {
        return false;
    }
    if (filter.has_alias && session.alias.empty()) return false;
    if (filter.updated_before && session.updated_at >= *filter.updated_before) return false;
    if (!filter.status) return true;
    const Timestamp now = std::max(filter.now, session.updated_at);
    return project_status(session.run, filter.boot, now) == *filter.status;
}

bool matches(const PendingFilter& filter, const SessionSummary& session,
             const PendingSummary& call) {
    if (filter.session && *filter.session != session.id) return false;
    if (session.id < filter.from) return false;
    if (!filter.tasks.empty() &&
        std::ranges::find(filter.tasks, session.task_id) == filter.tasks.end()) {
        return false;
    }
    if (filter.status && *filter.status != call.status) return false;
    if (filter.waits_for && *filter.waits_for != call.waits_for) return false;
    if (filter.takes_tool && !filter.takes_tool(call.tool)) return false;
    if (filter.expires_by && (!call.expires_at || *call.expires_at > *filter.expires_by)) {
        return false;
    }
    if (filter.after.empty()) return true;
    const Result<SessionId> last = session_of(filter.after);
    if (last && *last != session.id) return *last < session.id;
    return filter.after < call.pending_id &&
           !call.pending_id.text().starts_with(filter.after.text());
}

bool matches(const WaitFilter& filter, const SessionSummary& session) {
    if (session.run.phase != RunPhase::parked || !session.wait_kind) return false;
    if (filter.kind && *filter.kind != *session.wait_kind) return false;
    if (filter.task_id && *filter.task_id != session.task_id) return false;
    if (filter.agent && *filter.agent != session.agent) return false;
    const bool is_seen = filter.tasks.empty() ||
                         std::ranges::find(filter.tasks, session.task_id) != filter.tasks.end();
    return is_seen && (!filter.after || *filter.after < wait_position(session));
}

WaitPosition wait_position(const SessionSummary& session) {
    return {session.run.deadline_at.value_or(Timestamp::max()), session.id};
}

}  // namespace rouse
