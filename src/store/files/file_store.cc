#include "store/files/file_store.h"

#include <algorithm>
#include <future>
#include <iterator>
#include <thread>

#include "base/check.h"

namespace rouse {
namespace {

using files::Batch;
using files::JournalPosition;
using files::LogTable;
using files::OpenLog;
using files::SequencedCommit;
using files::SequencedPart;

// When the tails are so many times as long as they should be, the journal waits for the logs.
constexpr std::size_t kTailsTooLong = 8;

// So much is put into the table at once: little enough that the memory of these batches is still in
// the CPU's cache when the next ones get it.
constexpr std::size_t kApplyBytes = 256U << 10U;

CommittedLines lines_of(const SequencedCommit& commit, std::string_view bytes, Cursor cursor) {
    CommittedLines lines{cursor, {}};
    for (const SequencedPart& part : commit.parts) {
        lines.parts.push_back(
            {part.log, files::slice_lines(bytes.substr(part.lines_at, part.lines_bytes), part.first,
                                          part.first, part.tip.last - part.first + 1)});
    }
    return lines;
}

}  // namespace

FileStore::FileStore(Env env, files::Layout layout, FileStoreOptions options,
                     std::unique_ptr<FileLock> lock)
    : env_(env),
      layout_(std::move(layout)),
      options_(std::move(options)),
      lock_(std::move(lock)),
      journal_(env, layout_,
               {options_.segment_bytes, options_.journal_kept, options_.journal_kept_bytes}),
      // A commit has to fit into a segment with its headers.
      sequencer_(env.clock,
                 std::min<std::size_t>(limits::kCommitBytes, options_.segment_bytes * 3 / 4),
                 std::min<std::size_t>(limits::kGroupBytes, options_.segment_bytes * 3 / 4)),
      table_(env, layout_, options_.cache_bytes),
      packs_(env.fs, layout_) {}

FileStore::~FileStore() {
    (void)close();
}

void FileStore::start_threads() {
    if (options_.threads == FileStoreOptions::Threads::none) return;
    journal_thread_ = std::thread([this] { run_journal(); });
    completion_thread_ = std::thread([this] { run_completions(); });
    house_thread_ = std::thread([this] { run_house(); });
}

Error FileStore::disk_full() const {
    return {ErrorKind::unavailable, "disk_full",
            "the disk is full; make room in " + layout_.root()};
}

Result<void> FileStore::refusal(Urgency urgency) {
    if (closing_) return Error(ErrorKind::unavailable, "store_closed", "the store is closed");
    if (failed_) {
        const auto lock = lock_table();
        return Error(ErrorKind::unavailable, "store_failed",
                     "the store stopped after a failed write (" + failure_->message +
                         "); restart to see what the disk has");
    }
    if (full_ && urgency == Urgency::normal) return disk_full();
    return {};
}

Result<files::Sequencer::End> FileStore::find_end(const SessionId& log) {
    const auto lock = lock_table();
    const Result<OpenLog*> open = table_.open(log, LogTable::IfMissing::create);
    if (!open) return open.error();
    return files::Sequencer::End{(*open)->tip, (*open)->state->updated_at, false};
}

void FileStore::commit(Commit commit, CommitDone done) {
    Result<void> added;
    std::shared_ptr<Batch> batch;
    bool wakes = false;
    {
        const std::lock_guard lock(sequencing_);
        added = refusal(commit.urgency);
        if (added) {
            added = sequencer_.add(commit, done,
                                   [this](const SessionId& log) { return find_end(log); });
        }
        if (added && options_.threads == FileStoreOptions::Threads::none) {
            batch = sequencer_.take();
        } else if (added) {
            // In this order: whoever lets go just now sees one of the two.
            collected_ = true;
            wakes = !syncing_ && holds_ == 0;
        }
    }
    // Without the lock, which whoever wakes up takes first.
    if (wakes) work_.notify_one();
    if (!added) done(added.error());
    if (batch) write_batch(batch);
    // Also when the disk was full: somebody may have made room since.
    const bool alone = options_.threads == FileStoreOptions::Threads::none;
    if (alone && (added || is_passing(added.error()))) {
        keep_house(Call::by_work);
    }
}

void FileStore::hold() {
    ++holds_;
}

void FileStore::release(Writer writer) {
    if (--holds_ > 0 || !collected_.exchange(false)) return;
    std::unique_lock lock(sequencing_);
    if (writer == Writer::holder && !syncing_ && !sequencer_.empty()) write_open_batch(lock);
    // Also when somebody holds it again before the journal is awake.
    due_ = !sequencer_.empty();
    const bool wakes = !syncing_ && (due_ || closing_);
    lock.unlock();
    if (wakes) work_.notify_one();
}

// Alone with the disk, the caller writes its commit itself: no thread has to wake up for it. Behind
// others it waits like everybody, so that it never runs their callbacks.
Result<Committed> FileStore::commit_and_wait(Commit commit) {
    if (options_.threads == FileStoreOptions::Threads::none) {
        return Store::commit_and_wait(std::move(commit));
    }
    std::unique_lock lock(sequencing_);
    if (syncing_ || !sequencer_.empty()) {
        lock.unlock();
        return Store::commit_and_wait(std::move(commit));
    }
    if (Result<void> refused = refusal(commit.urgency); !refused) return refused.error();
    std::promise<Result<Committed>> promise;
    std::future<Result<Committed>> future = promise.get_future();
    CommitDone done = [promise = std::move(promise)](Result<Committed> result) mutable {
        promise.set_value(std::move(result));
    };
    const Result<void> added =
        sequencer_.add(commit, done, [this](const SessionId& log) { return find_end(log); });
    if (!added) return added.error();
    write_open_batch(lock);
    if (closing_ || !sequencer_.empty()) work_.notify_one();
    lock.unlock();
    return future.get();
}

Result<void> FileStore::adopt(const SessionId& log, std::string_view lines) {
    const std::size_t most = std::min<std::size_t>(limits::kGroupBytes, options_.segment_bytes / 4);
    while (!lines.empty()) {
        // Whole lines, as many as fit into a group.
        const std::size_t last = lines.substr(0, most).rfind('\n');
        const std::size_t end = last == std::string_view::npos ? lines.find('\n') : last;
        const std::string_view some =
            lines.substr(0, end == std::string_view::npos ? end : end + 1);
        lines.remove_prefix(some.size());
        std::shared_ptr<Batch> batch;
        {
            const std::lock_guard lock(sequencing_);
            if (Result<void> refused = refusal(Urgency::normal); !refused) return refused;
            const Result<void> added =
                sequencer_.adopt(log, some, [this](const SessionId& id) { return find_end(id); });
            if (!added) return added;
            batch = sequencer_.take();
        }
        Result<void> written;
        batch->commits.back().done = [&](const Result<Committed>& done) {
            if (!done) written = done.error();
        };
        write_batch(batch);
        if (!written) return written;
        keep_house(Call::by_work);
    }
    return {};
}

void FileStore::run_journal() {
    std::unique_lock lock(sequencing_);
    for (;;) {
        work_.wait(lock, [this] {
            const bool collecting = holds_ > 0 && !due_;
            return !syncing_ && (sequencer_.empty() ? closing_ : !collecting);
        });
        if (sequencer_.empty()) return;
        write_open_batch(lock);
    }
}

void FileStore::write_open_batch(std::unique_lock<std::mutex>& sequencing) {
    const std::shared_ptr<Batch> batch = sequencer_.take();
    due_ = due_ && !sequencer_.empty();
    syncing_ = true;
    sequencing.unlock();
    write_batch(batch);
    sequencing.lock();
    syncing_ = false;
}

std::unique_lock<std::mutex> FileStore::lock_table() {
    std::unique_lock lock(table_mutex_);
    std::vector<Durable> durable;
    {
        const std::lock_guard taking(durable_mutex_);
        durable.swap(durable_);
        durable_bytes_ = 0;
    }
    for (const Durable& one : durable)
        apply(*one.batch, one.position);
    return lock;
}

void FileStore::write_batch(const std::shared_ptr<Batch>& batch) {
    Result<JournalPosition> position = JournalPosition{};
    if (failed_) {
        const auto lock = lock_table();
        position = *failure_;
    }
    if (position) position = journal_.append(batch->group);
    if (position) {
        bool house_is_due = false;
        {
            const std::lock_guard lock(durable_mutex_);
            durable_.push_back({batch, *position});
            durable_bytes_ += batch->group.size();
            uncalled_bytes_ += batch->group.size();
            house_is_due = uncalled_bytes_ >= std::min(options_.tail_bytes, kApplyBytes);
            if (house_is_due) uncalled_bytes_ = 0;
        }
        if (options_.on_group) {
            options_.on_group({batch->commits.size(), env_.clock.monotonic() - batch->begun});
        }
        if (house_is_due) call_house();
        const std::size_t tails = tail_bytes_ + durable_bytes_;
        if (tails > options_.tail_bytes * kTailsTooLong) (void)flush_logs(Flush::all);
        pace();
    } else if (is_passing(position.error())) {
        // There was no segment to write to, so nothing is half there. What was sequenced behind
        // this batch would leave a gap and goes with it.
        note_failure(position.error());
        const bool full = position.error().reason == "disk_full";
        position = full ? disk_full()
                        : Error(ErrorKind::unavailable, "too_many_files",
                                "not written: " + position.error().message);
        const std::lock_guard lock(sequencing_);
        std::ranges::move(sequencer_.reset(), std::back_inserter(batch->commits));
    } else {
        fail(position.error());
        position = Error(ErrorKind::unavailable, "store_failed",
                         "not written: " + position.error().message);
    }

    // Call back from here unless the next group is already waiting for the disk.
    const std::size_t size = batch->commits.size();
    bool next_is_waiting = false;
    if (options_.threads == FileStoreOptions::Threads::own) {
        const std::lock_guard lock(sequencing_);
        next_is_waiting = sequencer_.waiting() >= (size + 1) / 2;
    }
    std::unique_lock lock(completing_);
    if (!next_is_waiting && completed_.empty() && !completing_now_) {
        lock.unlock();
        complete(*batch, position);
        return;
    }
    completed_.emplace_back(batch, std::move(position));
    completion_.notify_one();
}

void FileStore::apply(Batch& batch, const JournalPosition& position) {
    const std::string_view bytes = batch.group.bytes();
    for (SequencedCommit& commit : batch.commits) {
        for (SequencedPart& part : commit.parts) {
            // The sequencer has opened it, and it stays open until it is written down.
            const Result<OpenLog*> open = table_.open(part.log, LogTable::IfMissing::refuse);
            ROUSE_CHECK(open.has_value(), "a log was closed under a commit to it");
            table_.append_tail(**open, bytes.substr(part.lines_at, part.lines_bytes));
            Seq seq = part.first;
            for (const RecordBody& body : part.records)
                table_.fold_into(**open, RecordView(seq++, part.at, body));
            (*open)->tip = part.tip;
            if ((*open)->has_ended() && part.log != system_log()) {
                table_.came_to_rest(part.log, **open);
            }
        }
    }
    applied_ = position;
    open_logs_ = table_.open_logs().size();
    tail_bytes_ = table_.tail_bytes();
}

void FileStore::call_house() {
    if (options_.threads == FileStoreOptions::Threads::none) return;
    {
        const std::lock_guard lock(house_wait_);
        house_called_ = true;
    }
    house_work_.notify_one();
}

void FileStore::pace() const {
    constexpr std::chrono::milliseconds kLongest{50};
    const std::size_t too_many = std::max<std::size_t>(1, 4 * options_.open_logs);
    const std::size_t open = open_logs_;
    if (open <= too_many || options_.threads == FileStoreOptions::Threads::none) return;
    std::this_thread::sleep_for(std::min<std::chrono::microseconds>(
        kLongest, std::chrono::microseconds(kLongest) * (open - too_many) / too_many));
}

void FileStore::run_completions() {
    std::unique_lock lock(completing_);
    for (;;) {
        completion_.wait(lock, [this] { return stop_completions_ || !completed_.empty(); });
        if (completed_.empty()) return;
        const auto [batch, position] = std::move(completed_.front());
        completed_.pop_front();
        completing_now_ = true;
        lock.unlock();
        complete(*batch, position);
        lock.lock();
        completing_now_ = false;
    }
}

void FileStore::complete(Batch& batch, const Result<JournalPosition>& position) {
    std::uint32_t index = 0;
    for (SequencedCommit& commit : batch.commits) {
        if (!position) {
            commit.done(position.error());
            continue;
        }
        Committed committed{{position->epoch, position->group, index++}, {}};
        if (listener_.hear && listener_.wanted()) {
            listener_.hear(lines_of(commit, batch.group.bytes(), committed.cursor));
        }
        for (const SequencedPart& part : commit.parts) {
            committed.appends.push_back({part.log, part.first, part.tip.last});
        }
        commit.done(std::move(committed));
    }
}

void FileStore::fail(const Error& error) {
    const auto lock = lock_table();
    if (failure_) return;
    failure_ = error;
    failed_ = true;
    env_.log.error("store.failed", {{"directory", layout_.root()}, {"error", error.message}});
}

void FileStore::listen(Listener listener) {
    listener_ = std::move(listener);
}

Result<void> FileStore::close() {
    {
        const std::lock_guard lock(sequencing_);
        if (closing_) return {};
        closing_ = true;
    }
    work_.notify_all();
    if (journal_thread_.joinable()) journal_thread_.join();
    {
        const std::lock_guard lock(completing_);
        stop_completions_ = true;
    }
    completion_.notify_all();
    if (completion_thread_.joinable()) completion_thread_.join();
    {
        const std::lock_guard lock(house_wait_);
        stop_house_ = true;
    }
    house_work_.notify_all();
    if (house_thread_.joinable()) house_thread_.join();
    Result<void> written = checkpoint(Tidy::yes);
    if (written) written = write_pending_index();
    lock_.reset();
    return written;
}

}  // namespace rouse
