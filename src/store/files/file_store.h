#pragma once

// The default store: plain files in one directory, with a group-commit journal in front of them.
//
// Three threads work for it. The journal thread writes and syncs one group after the other while
// the callers' threads sequence the next. The completion thread calls back when a group is done and
// the next one is already waiting. The housekeeping thread appends to the logs what the journal has
// made durable, writes checkpoints, and readies segments. Without threads (for tests that own every
// step, and call from one thread only) all of it happens inside commit().
//
// Lock order: sequencing_, then table_mutex_.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/env.h"
#include "base/limits.h"
#include "store/files/journal.h"
#include "store/files/layout.h"
#include "store/files/log_table.h"
#include "store/files/packs.h"
#include "store/files/sequencer.h"
#include "store/store.h"

namespace rouse {

// What one sync has made durable.
struct SyncedGroup {
    std::size_t commits = 0;
    std::chrono::nanoseconds took{};  // from the arrival of the first of them
};

struct FileStoreOptions {
    enum class Threads : std::uint8_t { own, none };
    Threads threads = Threads::own;
    std::uint64_t segment_bytes = limits::kJournalSegmentBytes;
    std::uint64_t checkpoint_bytes = limits::kCheckpointBytes;
    std::size_t tail_bytes = limits::kTailBytes;
    std::size_t cache_bytes = limits::kStateCacheBytes;
    // In memory with their states; beyond that, what rests is written down.
    std::size_t open_logs = limits::kOpenLogs;
    std::uint64_t reserve_bytes = limits::kReserveBytes;
    Milliseconds journal_kept = limits::kJournalKept;
    std::uint64_t journal_kept_bytes = limits::kJournalSegmentBytes;
    // By threads that write; quick.
    std::function<void(const SyncedGroup&)> on_group = {};
    std::function<void()> on_rest = {};  // a burst of work is over; by a thread of the store
};

class FileStore final : public Store {
 public:
    // Opens the directory, makes it when missing, and heals what a crash left.
    //   unavailable  directory_in_use: names the process that has it
    //   invalid      newer_format: written by a later version
    //   io, corrupt  with file and reason
    static Result<std::unique_ptr<FileStore>> open(Env env, const std::string& directory,
                                                   FileStoreOptions options = {});
    ~FileStore() override;

    void commit(Commit commit, CommitDone done) override;
    Result<Committed> commit_and_wait(Commit commit) override;
    Result<std::shared_ptr<const SessionState>> load(const SessionId& log) override;
    bool loads_slowly(const SessionId& log) override;
    Result<Seq> last_seq(const SessionId& log) override;
    std::uint64_t log_bytes(const SessionId& log) override;
    std::string task_of(const SessionId& log) override;
    Result<std::vector<std::string>> read(const SessionId& log, Seq from, ReadLimit limit) override;
    std::vector<SessionSummary> list(const SessionFilter& filter) override;
    std::vector<OpenPending> pending(const PendingFilter& filter) override;
    std::vector<SessionSummary> waits(const WaitFilter& filter) override;
    std::map<WaitKind, WaitCount> count_waits() override;
    void visit_active(const std::function<void(const SessionSummary&)>& visit) override;
    Result<std::vector<CommittedLines>> read_commits(Cursor after, ReadLimit limit) override;
    std::optional<SystemView> system_view() override;
    Result<void> save_system_view(const SystemView& view) override;
    void listen(Listener listener) override;
    StoreHealth health() override;

    // Brings logs, views and the index up to date and frees the journal.
    Result<void> checkpoint() { return checkpoint(Tidy::no); }
    // Reads every log, sets aside what is damaged, cuts what stands behind the end of a log
    // (keeping it), and writes all views and the index anew.
    Result<void> rewrite();
    // Appends lines of another store's log as they are. Only without threads.
    //   corrupt  they do not follow the end of the log
    Result<void> adopt(const SessionId& log, std::string_view lines);
    // Finishes what was committed, writes a checkpoint and lets go of the directory. Commits from
    // then on are refused. The destructor does the same and tells nobody how it went.
    Result<void> close();

 private:
    class Opener;

    FileStore(Env env, files::Layout layout, FileStoreOptions options,
              std::unique_ptr<FileLock> lock);
    void start_threads();
    void hold() override;
    void release(Writer writer) override;

    // Writing (file_store.cc; what reads is in file_store_read.cc).
    Result<files::Sequencer::End> find_end(const SessionId& log);
    void run_journal();
    void run_completions();
    void write_open_batch(std::unique_lock<std::mutex>& sequencing);
    void write_batch(const std::shared_ptr<files::Batch>& batch);
    void apply(files::Batch& batch, const files::JournalPosition& position);
    void complete(files::Batch& batch, const Result<files::JournalPosition>& position);
    void call_house();
    // Slows commits down when more logs are opened than the house can write down.
    void pace() const;
    void fail(const Error& error);
    Result<void> refusal(Urgency urgency);
    Error disk_full() const;

    // Keeping house (file_store_house.cc).
    enum class Call : std::uint8_t { by_work, by_clock };
    void run_house();
    void keep_house(Call call);
    enum class Due : std::uint8_t { no, yes, at_rest };
    Due checkpoint_due(Call call);
    void prepare_segment();
    enum class Flush : std::uint8_t { all, but_short_lives };
    Result<void> flush_logs(Flush which);
    bool has_much_to_do();
    // `yes`: there is time to make the index short again.
    enum class Tidy : std::uint8_t { no, yes };
    Result<void> checkpoint(Tidy tidy);
    Result<void> write_checkpoint(Tidy tidy);
    Result<void> append_to_index(std::uint64_t at, std::string_view part);
    struct LogWrite;
    static LogWrite plan_log(const SessionId& id, const files::OpenLog& log);
    static LogWrite plan_views(const SessionId& id, files::OpenLog& log);
    Result<std::unique_ptr<File>> open_log(const LogWrite& write);
    Result<void> write_log(const LogWrite& write);
    Result<void> write_log_and_views(const LogWrite& write);
    Result<void> write_packed(std::vector<LogWrite>& writes);
    void note_written(const std::vector<LogWrite>& writes);
    void retire_if_idle(const SessionId& id);
    void retire_idle();
    enum class Views : std::uint8_t { all, where_some_are };
    Result<void> write_down(const std::vector<SessionId>& ids, Views views);
    Result<void> write_down_rested();
    Result<void> write_down_came_and_went();
    Result<void> write_down_resting();
    Result<void> cut_log(const SessionId& id, File& file, std::uint64_t end,
                         std::string_view known);
    Result<void> rewrite(const SessionId& id);
    Result<void> write_pending_index();
    Result<void> tidy_packs(files::LogTable::Leftovers& leftovers, Tidy tidy);
    // A full disk is waited out, and so is a lack of descriptors; any other failure ends the store.
    void note_failure(const Error& error);

    Env env_;
    files::Layout layout_;
    FileStoreOptions options_;
    std::unique_ptr<FileLock> lock_;
    std::unique_ptr<FileSystem> file_system_;
    files::Journal journal_;

    std::mutex sequencing_;  // for all up to syncing_
    std::condition_variable work_;
    files::Sequencer sequencer_;
    bool closing_ = false;
    bool due_ = false;      // what is there was held and let go
    bool syncing_ = false;  // somebody has a batch between take() and its completion

    std::atomic<int> holds_ = 0;
    std::atomic<bool> collected_ = false;  // there was a commit since somebody last let go

    // Durable and not yet in the table: whoever needs the table puts them there first, so that a
    // commit does not wait for it.
    struct Durable {
        std::shared_ptr<files::Batch> batch;
        files::JournalPosition position;
    };
    std::mutex durable_mutex_;  // for the three below
    std::vector<Durable> durable_;
    std::atomic<std::size_t> durable_bytes_ = 0;  // read without it
    std::size_t uncalled_bytes_ = 0;              // durable since the house was last called

    // Locks the table with everything in it that is durable.
    [[nodiscard]] std::unique_lock<std::mutex> lock_table();

    std::mutex table_mutex_;  // for all up to failure_; taken by lock_table() alone
    files::LogTable table_;
    files::JournalPosition applied_;
    files::JournalPosition covered_;       // by the last checkpoint
    files::JournalPosition rested_;        // when a burst of work was last cleared away
    files::JournalPosition seen_applied_;  // at the last tick of the house
    int ticks_of_rest_ = 0;
    int ticks_of_load_left_ = 0;
    std::atomic<std::size_t> open_logs_ = 0;
    std::atomic<std::size_t> tail_bytes_ = 0;
    std::optional<Error> failure_;

    std::atomic<bool> failed_ = false;  // there is a failure_
    std::atomic<bool> full_ = false;
    Listener listener_;

    std::mutex completing_;  // for the three below
    std::condition_variable completion_;
    std::deque<std::pair<std::shared_ptr<files::Batch>, Result<files::JournalPosition>>> completed_;
    bool completing_now_ = false;
    bool stop_completions_ = false;

    std::mutex house_mutex_;  // one flush or checkpoint at a time; taken before all others
    std::mutex house_wait_;   // for the two below
    std::condition_variable house_work_;
    bool house_called_ = false;
    bool stop_house_ = false;
    files::PackWriter packs_;
    Timestamp packs_tidied_at_{};
    Timestamp pending_index_at_{};
    bool index_is_ours_ = false;  // this process wrote its first part

    std::thread journal_thread_;
    std::thread completion_thread_;
    std::thread house_thread_;
};

}  // namespace rouse
