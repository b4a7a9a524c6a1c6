// A writer for the disk campaigns: opens a store, recovers it, and commits from several threads
// until it has done its number or the disk gives up. Prints "ack <k> <session> <seq>" for each
// commit that was acknowledged; nothing after the first failure.
//
// Exits with 0 when done, 3 when the store reported a failure, 2 when called wrongly.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <iostream>
#include <mutex>
#include <thread>

#include "agent/recovery_manager.h"
#include "base/id_source.h"
#include "domain/run_rules.h"
#include "domain/wait_rules.h"
#include "store/files/file_store.h"
#include "testing/breaking_fs.h"

namespace rouse {
namespace {

struct Options {
    std::string directory;
    std::size_t sessions = 8;
    std::uint64_t commits = 0;  // 0: until the end of the disk
    std::string broken = "none";
    std::uint64_t checkpoint_bytes = limits::kCheckpointBytes;
    std::uint64_t segment_bytes = limits::kJournalSegmentBytes;
};

class Workload {
 public:
    Workload(Env env, Store& store, const Options& options, BootId boot)
        : env_(env), store_(store), options_(options), boot_(std::move(boot)) {}

    int run() {
        std::vector<std::thread> writers;
        for (std::size_t i = 0; i < options_.sessions; ++i) {
            writers.emplace_back([this] { write_session(); });
        }
        for (std::thread& writer : writers)
            writer.join();
        return failed_ ? 3 : 0;
    }

 private:
    // One session after another: turns that suspend and resume, then the next session.
    void write_session() {
        IdSource ids(env_.clock, env_.random);
        while (!failed_ && !done_) {
            SessionCreated created;
            created.id = ids.make<SessionId>();
            if (!commit(created.id, {created})) return;
            for (int turn = 0; turn < 8 && !failed_ && !done_; ++turn) {
                if (!write_turn(ids, created.id)) return;
            }
        }
    }

    bool write_turn(IdSource& ids, const SessionId& id) {
        MessageCommand message;
        message.message = {ids.make<MessageId>(), text_content(std::string(300, 'x')), false, {}};
        message.new_run = ids.make<RunId>();
        message.boot = boot_;
        const auto started = plan_message(state(id), message);
        if (!started || !commit(id, started->records)) return false;

        MessageAssistant answer;
        answer.message_id = ids.make<MessageId>();
        answer.run_id = message.new_run;
        answer.content.emplace_back(
            ToolUseBlock{{"call_1"}, "deploy", RawJson::trusted(R"({"branch":"main"})"), {}});
        ParkCommand park;
        park.run_id = message.new_run;
        park.wait_id = ids.make<WaitId>();
        park.token = {ids.make<TokenId>(), hash_of_secret(ids.secret())};
        PendingCreated call;
        call.pending_id = make_pending_id(id, ids.random_text(20));
        call.run_id = message.new_run;
        call.call_id = {"call_1"};
        call.tool = "deploy";
        park.calls = {call};
        Records records{answer};
        const auto parked = plan_park(state(id), park);
        if (!parked) return false;
        records.insert(records.end(), parked->begin(), parked->end());
        if (!commit(id, records)) return false;

        const auto settled =
            plan_settle(state(id), call.pending_id, text_result("done"), boot_, env_.clock.now());
        if (!settled || !commit(id, settled->records)) return false;
        const auto completed = plan_complete(state(id), message.new_run);
        return completed && commit(id, *completed);
    }

    const SessionState& state(const SessionId& id) {
        thread_local std::shared_ptr<const SessionState> kept;
        Result<std::shared_ptr<const SessionState>> loaded = store_.load(id);
        if (!loaded) std::_Exit(4);
        kept = *std::move(loaded);
        return *kept;
    }

    bool commit(const SessionId& id, Records records) {
        const Result<Committed> committed =
            store_.commit_and_wait(make_commit(id, std::nullopt, std::move(records)));
        const std::lock_guard lock(printing_);
        if (!committed) {
            if (!failed_.exchange(true)) std::cerr << committed.error().message << std::endl;
            return false;
        }
        if (failed_) return false;  // acknowledged before the failure, heard of after it
        const std::string line = "ack " + std::to_string(++acknowledged_) + " " + id.text() + " " +
                                 std::to_string(committed->appends[0].last) + "\n";
        if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) std::_Exit(4);
        if (options_.commits > 0 && acknowledged_ >= options_.commits) done_ = true;
        return true;
    }

    Env env_;
    Store& store_;
    const Options& options_;
    BootId boot_;
    std::mutex printing_;
    std::uint64_t acknowledged_ = 0;
    std::atomic<bool> failed_ = false;
    std::atomic<bool> done_ = false;
};

int run(const Options& options) {
    using testing::Broken;
    const std::map<std::string, Broken> kinds = {{"none", Broken::none},
                                                 {"no_fdatasync", Broken::no_fdatasync},
                                                 {"no_dir_fsync", Broken::no_dir_fsync},
                                                 {"no_syncfs", Broken::no_syncfs}};
    SystemClock clock;
    SystemRandom random;
    RealFs real;
    testing::BreakingFs fs(real, kinds.at(options.broken));
    Logger log(LogLevel::error);
    const Env env{clock, random, fs, log};
    FileStoreOptions store_options;
    store_options.segment_bytes = options.segment_bytes;
    store_options.checkpoint_bytes = options.checkpoint_bytes;
    store_options.open_logs = 40;
    store_options.reserve_bytes = std::min(limits::kReserveBytes, options.segment_bytes);
    store_options.journal_kept = Milliseconds(0);
    Result<std::unique_ptr<FileStore>> store =
        FileStore::open(env, options.directory, store_options);
    if (!store) {
        std::cerr << store.error().message << std::endl;
        return 3;
    }
    const BootId boot = IdSource(clock, random).make<BootId>();
    const Result<BootReport> recovered = RecoveryManager(env, **store).recover(boot);
    if (!recovered) {
        std::cerr << recovered.error().message << std::endl;
        return 3;
    }
    const int code = Workload(env, **store, options, boot).run();
    if (code != 0) return code;
    const Result<void> closed = (*store)->close();
    return closed ? 0 : 3;
}

}  // namespace
}  // namespace rouse

int main(int argc, char** argv) {
    rouse::Options options;
    std::uint64_t checkpoint_every = 0;
    std::uint64_t seed = 0;
    CLI::App program("Commits to a store and prints what was acknowledged");
    program.add_option("--dir", options.directory)->required();
    program.add_option("--sessions", options.sessions);
    program.add_option("--commits", options.commits);
    program.add_option("--seed", seed, "accepted for the harness; the threads decide the order");
    program.add_option("--break", options.broken)
        ->check(CLI::IsMember({"none", "no_fdatasync", "no_dir_fsync", "no_syncfs"}));
    program.add_option("--checkpoint-every", checkpoint_every, "in KiB of journal");
    program.add_option("--segment-bytes", options.segment_bytes);
    CLI11_PARSE(program, argc, argv);
    if (checkpoint_every > 0) options.checkpoint_bytes = checkpoint_every << 10U;
    return rouse::run(options);
}
