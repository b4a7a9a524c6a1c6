#include "runtime/system_log.h"

#include <algorithm>

#include "agent/store_async.h"
#include "base/limits.h"

namespace rouse {
namespace {

bool is_snapshot(const Record& record) {
    const auto* unknown = std::get_if<UnknownRecord>(&record.body);
    return unknown != nullptr && unknown->kind == SystemSnapshot::kKind;
}

}  // namespace

Result<void> SystemLog::open() {
    const Result<std::shared_ptr<const SessionState>> end = store_->load(system_log());
    if (!end) return end.error().kind == ErrorKind::not_found ? Result<void>() : end.error();
    const Seq last = (*end)->last_seq;
    constexpr Seq kStep = limits::kSystemRecordsPerSnapshot;
    std::vector<Record> records;
    std::vector<Record>::iterator begin;
    for (Seq back = kStep;; back *= 2) {
        const Seq from = last > back ? last - back + 1 : 1;
        Result<std::vector<Record>> read = read_records(*store_, system_log(), from);
        if (!read) return read.error();
        records = *std::move(read);
        const auto snapshot = std::ranges::find_if(records.rbegin(), records.rend(), is_snapshot);
        begin = snapshot == records.rend() ? records.begin() : std::prev(snapshot.base());
        if (snapshot != records.rend() || from == 1) break;
    }
    const std::lock_guard lock(mutex_);
    for (auto record = begin; record != records.end(); ++record)
        state_.fold(*record);
    forget_old();
    if (static_cast<std::size_t>(records.end() - begin) < kStep) return {};
    const Result<Committed> saved = store_->commit_and_wait(
        make_commit(system_log(), std::nullopt, {to_record(state_.snapshot())}));
    return saved ? Result<void>() : saved.error();
}

void SystemLog::add(Commit& commit, RecordBody record) {
    const auto mine = std::ranges::find(commit.appends, system_log(), &LogAppend::log);
    if (mine == commit.appends.end()) {
        commit.appends.push_back({system_log(), std::nullopt, {std::move(record)}});
    } else {
        mine->records.push_back(std::move(record));
    }
}

void SystemLog::fold(const Commit& commit) {
    const auto mine = std::ranges::find(commit.appends, system_log(), &LogAppend::log);
    if (mine == commit.appends.end()) return;
    const std::lock_guard lock(mutex_);
    for (const RecordBody& record : mine->records)
        state_.fold(Record{0, env_.clock.now(), record});
    constexpr std::uint64_t kNowAndThen = 1000;
    if (++folded_ % kNowAndThen == 0) forget_old();
}

Task<Result<void>> SystemLog::append(RecordBody record) {
    Records records(1, record);
    co_return co_await append_all(std::move(records));
}

Task<Result<void>> SystemLog::append_all(Records records) {
    const Commit commit = make_commit(system_log(), std::nullopt, std::move(records));
    Commit sent = commit;
    const Result<Committed> done = co_await commit_async(*store_, std::move(sent));
    if (!done) co_return done.error();
    fold(commit);
    co_return Result<void>();
}

void SystemLog::forget_old() {
    state_.forget_answers_before(env_.clock.now() - limits::kAnswersKept);
    state_.forget_chains_before(env_.clock.now() - limits::kChainsKept);
}

}  // namespace rouse
