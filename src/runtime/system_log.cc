#include "runtime/system_log.h"

#include <algorithm>
#include <system_error>

#include "agent/store_async.h"
#include "base/limits.h"

namespace rouse {
namespace {

bool is_snapshot(const Record& record) {
    const auto* unknown = std::get_if<UnknownRecord>(&record.body);
    return unknown != nullptr && unknown->kind == SystemSnapshot::kKind;
}

}  // namespace

// Earlier versions wrote snapshots into the log.
Result<std::vector<Record>> SystemLog::read_from_snapshot() const {
    const Result<Seq> last = store_->last_seq(system_log());
    if (!last) return last.error();
    for (Seq back = limits::kSystemRecordsPerView;; back *= 2) {
        const Seq from = *last > back ? *last - back + 1 : 1;
        Result<std::vector<Record>> records = read_records(*store_, system_log(), from);
        if (!records) return records;
        const auto snapshot = std::ranges::find_if(records->rbegin(), records->rend(), is_snapshot);
        if (snapshot == records->rend() && from > 1) continue;
        if (snapshot != records->rend()) {
            records->erase(records->begin(), std::prev(snapshot.base()));
        }
        return records;
    }
}

Result<SystemLog::Folded> SystemLog::read_log() const {
    Folded folded;
    const Result<Seq> last = store_->last_seq(system_log());
    if (!last && last.error().kind == ErrorKind::not_found) return folded;
    if (!last) return last.error();
    if (const std::optional<SystemView> view = store_->system_view()) {
        const auto snapshot = from_json<SystemSnapshot>(view->state.text(), "a system view");
        if (snapshot && snapshot->fold == SystemSnapshot::kFold) {
            folded.state = SystemState::of(*snapshot);
            folded.last = view->last_seq;
        }
    }
    const Result<std::vector<Record>> records =
        folded.last > 0 ? read_records(*store_, system_log(), folded.last + 1)
                        : read_from_snapshot();
    if (!records) return records.error();
    for (const Record& record : *records)
        folded.state.fold(record);
    folded.behind_view = records->size();
    if (!records->empty()) folded.last = records->back().seq;
    forget_old(folded.state);
    return folded;
}

Result<void> SystemLog::open() {
    Result<Folded> folded = read_log();
    if (!folded) return folded.error();
    bool due = false;
    {
        const std::lock_guard lock(mutex_);
        state_ = std::move(folded->state);
        behind_view_ = folded->behind_view;
        due = is_view_due();
    }
    if (due) start_view();
    return {};
}

void SystemLog::close() {
    std::thread writer;
    {
        const std::lock_guard lock(mutex_);
        closed_ = true;
        writer.swap(view_writer_);
    }
    if (writer.joinable()) writer.join();
}

bool SystemLog::is_view_due() {
    // As many as the last view had rows, if each made one: what is written stays in proportion.
    const std::size_t enough = std::max(limits::kSystemRecordsPerView, state_.rows() / 2);
    if (closed_ || writing_view_ || behind_view_ < enough) return false;
    behind_view_ = 0;
    writing_view_ = true;
    return true;
}

void SystemLog::start_view() {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    // Whoever wrote the last one is done, and needs the lock no more.
    if (view_writer_.joinable()) view_writer_.join();
    try {
        view_writer_ = std::thread([this] { write_view(); });
    } catch (const std::system_error& thrown) {
        writing_view_ = false;
        env_.log.warn("system.view_not_written", {{"error", thrown.what()}});
    }
}

void SystemLog::write_view() {
    std::string problem;
    try {
        const Result<void> saved = save_view();
        if (!saved) problem = saved.error().message;
    } catch (const std::exception& thrown) {
        problem = thrown.what();
    }
    if (!problem.empty()) env_.log.warn("system.view_not_written", {{"error", problem}});
    const std::lock_guard lock(mutex_);
    writing_view_ = false;
}

Result<void> SystemLog::save_view() {
    SystemView view;
    {
        const Result<Folded> folded = read_log();
        if (!folded) return folded.error();
        view.last_seq = folded->last;
        view.state = RawJson::trusted(to_json(folded->state.snapshot()));
    }
    return store_->save_system_view(view);
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
    bool due = false;
    {
        const std::lock_guard lock(mutex_);
        for (const RecordBody& record : mine->records)
            state_.fold(Record{0, env_.clock.now(), record});
        constexpr std::uint64_t kNowAndThen = 1000;
        if (++folded_ % kNowAndThen == 0) forget_old(state_);
        behind_view_ += mine->records.size();
        due = is_view_due();
    }
    if (due) start_view();
}

Task<Result<void>> SystemLog::append(RecordBody record) {
    Records records(1, record);
    co_return co_await append_all(std::move(records));
}

Task<Result<void>> SystemLog::append_all(Records records, Urgency urgency) {
    Commit commit = make_commit(system_log(), std::nullopt, std::move(records));
    commit.urgency = urgency;
    Commit sent = commit;
    const Result<Committed> done = co_await commit_async(*store_, std::move(sent));
    if (!done) co_return done.error();
    fold(commit);
    co_return Result<void>();
}

void SystemLog::forget_old(SystemState& state) const {
    state.forget_answers_before(env_.clock.now() - limits::kAnswersKept);
    state.forget_answers_beyond(limits::kAnswersRemembered);
    state.forget_chains_before(env_.clock.now() - limits::kChainsKept);
}

}  // namespace rouse
