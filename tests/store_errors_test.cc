// Every file operation fails in turn, with an I/O error or for lack of space, once or from then on.
// Nothing acknowledged is lost, the caller is told, and the store does not go on as if nothing had
// happened (W9, W10, P5).

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "testing/forwarding_fs.h"
#include "testing/store_checks.h"
#include "testing/store_workload.h"

namespace rouse::testing {
namespace {

struct ErrorCase {
    const char* name;
    FailCode code;
    bool sticky;
};

// One line of a file system's trace.
struct TracedOperation {
    std::int64_t number = 0;
    std::string text;
};

// Those with a number behind `before`, as far back as the trace goes.
std::vector<TracedOperation> operations_since(const CrashingFs& fs, std::int64_t before) {
    std::vector<TracedOperation> operations;
    std::istringstream trace(fs.trace());
    TracedOperation operation;
    while (trace >> operation.number && std::getline(trace >> std::ws, operation.text)) {
        if (operation.number > before) operations.push_back(operation);
    }
    return operations;
}

bool is_failed_journal_write(const TracedOperation& operation) {
    const std::string_view text = operation.text;
    const bool writes = text.starts_with("write ") || text.starts_with("fdatasync ");
    return writes && text.find("/journal/0") != std::string_view::npos &&
           text.ends_with(": failed");
}

// Watches every commit of a workload and notes when the store breaks a rule.
class ErrorRules {
 public:
    ErrorRules(CrashingFs& fs, StoreWorld& world, FailCode code)
        : fs_(fs), world_(world), code_(code) {}

    void watch(const StoreWorkload& workload, Store& store, const Result<Committed>& outcome) {
        if (std::exchange(opening_, workload.openings()) != workload.openings()) {
            failed_ = false;
            read_while_full_ = false;
            // What failed while it opened is not held against its first commit.
            failures_ = fs_.failures();
            operations_ = fs_.operations();
        }
        const bool failed_now = fs_.failures() > std::exchange(failures_, fs_.failures());
        const std::vector<TracedOperation> latest =
            operations_since(fs_, std::exchange(operations_, fs_.operations()));
        const std::string_view reason = outcome ? "" : outcome.error().reason;
        if (failed_ && reason != "store_failed") {
            problems.push_back("a store that had failed answered " + std::string(reason));
        }
        if (std::ranges::any_of(latest, is_failed_journal_write) && reason != "store_failed") {
            problems.emplace_back("a commit whose bytes were not written was not refused");
        }
        // Whatever failed for another reason than space is final, also behind the caller's back.
        if (failed_now && code_ == FailCode::io_error) failed_ = true;
        if (reason == "store_failed") failed_ = true;
        if (failed_ && store.health().accepting) {
            problems.emplace_back("a store that has failed says that it accepts");
        }
        if (reason == "disk_full" && !std::exchange(read_while_full_, true)) {
            for (const std::string& lost : world_.ledger.compare(store)) {
                problems.push_back("while full: " + lost);
            }
        }
    }

    Problems problems;

 private:
    CrashingFs& fs_;
    StoreWorld& world_;
    FailCode code_;
    int opening_ = 0;
    std::int64_t failures_ = 0;
    std::int64_t operations_ = 0;
    bool failed_ = false;
    bool read_while_full_ = false;
};

// Does this operation of the workload make names durable? When that fails, a file system whose
// metadata is journalled has stopped for good, so nobody starts again on the same machine. (Bytes
// are another matter: after a failed sync the page cache shows what the disk does not have, and a
// process that starts then must not believe it.)
bool syncs_names(std::int64_t number) {
    CrashingFs fs(FaultPlan{.crash_at = number});
    StoreWorld world;
    StoreWorkload(world, fs).run();
    const std::vector<TracedOperation> latest = operations_since(fs, number - 1);
    return !latest.empty() && (latest.front().text.starts_with("fsync directory ") ||
                               latest.front().text.starts_with("syncfs "));
}

class StoreErrorsTest : public ::testing::TestWithParam<ErrorCase> {};

TEST_P(StoreErrorsTest, AtAnyOperationLoseNothingAndAreReported) {
    CaseCount cases(std::string("failing operations, ") + GetParam().name);
    std::uint64_t refused = 0;
    for (std::int64_t at = 1;; at += kCaseStep) {
        CrashingFs fs(FaultPlan{.fail_at = at,
                                .fail_code = GetParam().code,
                                .sticky = GetParam().sticky,
                                .seed = static_cast<std::uint64_t>(at)});
        StoreWorld world;
        ErrorRules rules(fs, world, GetParam().code);
        WorkloadEnd end;
        {
            StoreWorkload* running = nullptr;
            StoreWorkload workload(
                world, fs, syncs_names(at) ? IfRefused::go_on_for_the_day : IfRefused::go_on,
                [&](Store& store, const Result<Committed>& outcome) {
                    rules.watch(*running, store, outcome);
                });
            running = &workload;
            end = workload.run();
        }
        if (fs.failures() == 0) break;
        refused += end.whole ? 0 : 1;
        Problems problems = rules.problems;
        problems.insert(problems.end(), end.problems.begin(), end.problems.end());
        for (const CutOutcome& outcome : cut_outcomes()) {
            if (outcome.model == DiskModel::tear_last_write || !problems.empty()) continue;
            const std::unique_ptr<CrashingFs> disk = cut_power(fs, outcome, at);
            StoreWorld after = world.fork();
            problems = check_disk(after, *disk, Depth::recover);
        }
        cases.add(problems, "operation " + std::to_string(at) + " fails", fs);
    }
    // The oracle is of no use if nobody ever hears of the failures.
    EXPECT_GT(refused, 0U);
}

INSTANTIATE_TEST_SUITE_P(Faults, StoreErrorsTest,
                         ::testing::Values(ErrorCase{"IoErrorOnce", FailCode::io_error, false},
                                           ErrorCase{"IoErrorFromThenOn", FailCode::io_error, true},
                                           ErrorCase{"DiskFullOnce", FailCode::disk_full, false},
                                           ErrorCase{"DiskFullFromThenOn", FailCode::disk_full,
                                                     true}),
                         [](const auto& test) -> std::string { return test.param.name; });

// ---- a full disk ----------------------------------------------------------------------------

class FullDiskTest : public ::testing::Test {
 protected:
    void SetUp() override {
        fs_.set_plan({.fail_at = operation_of_second_segment(),
                      .fail_code = FailCode::disk_full,
                      .sticky = true});
        begin(process_);
    }

    void begin(StoreProcess& process) {
        ASSERT_TRUE(process.open());
        ASSERT_TRUE(process.recover());
        ASSERT_TRUE(process.create(id_));
    }

    // Found by doing the same on a disk with room.
    std::int64_t operation_of_second_segment() {
        CrashingFs fs;
        StoreWorld world;
        StoreProcess process(world, fs, BootId("boot_1"));
        begin(process);
        for (;;) {
            const std::int64_t before = fs.operations();
            if (!process.update(id_, std::string(700, 'x'))) return 0;
            for (const TracedOperation& operation : operations_since(fs, before)) {
                if (operation.text == "open /data/journal/next.tmp") return operation.number;
            }
        }
    }

    Result<Committed> write() { return process_.update(id_, std::string(700, 'x')); }
    Result<Committed> write_urgently() {
        SessionUpdated update;
        update.title = "short";
        const Seq last = (*process_.store().load(id_))->last_seq;
        return process_.commit(id_, last, {update}, Urgency::may_use_reserve);
    }
    // Until a segment cannot be prepared.
    void fill() {
        for (int i = 0; i < 50 && !process_.store().health().full; ++i) {
            ASSERT_TRUE(write()) << "it was accepted, so it must be acknowledged";
        }
        ASSERT_TRUE(process_.store().health().full);
    }

    CrashingFs fs_;
    StoreWorld world_;
    StoreProcess process_{world_, fs_, BootId("boot_1")};
    const SessionId id_ = SessionId("sess_a");
};

TEST_F(FullDiskTest, RefusesWhatIsNotUrgentAndGoesOnReading) {  // W10
    fill();
    const Result<Committed> refused = write();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::unavailable);
    EXPECT_EQ(refused.error().reason, "disk_full");
    EXPECT_FALSE(process_.store().health().accepting);
    EXPECT_EQ(world_.ledger.compare(process_.store()), Problems());
}

TEST_F(FullDiskTest, StillTakesWhatEndsSomething) {
    fill();
    for (int i = 0; i < 3; ++i) {
        const Result<Committed> committed = write_urgently();
        ASSERT_TRUE(committed) << committed.error().message;
        EXPECT_EQ(write().error().reason, "disk_full");
    }
    const std::unique_ptr<CrashingFs> disk = cut_power(fs_, cut_outcomes()[0], 1);
    StoreWorld after = world_.fork();
    EXPECT_EQ(check_disk(after, *disk, Depth::go_round), Problems());
}

TEST_F(FullDiskTest, EvenUrgentCommitsAreRefusedOnceTheJournalHasNoRoom) {
    fill();
    Result<Committed> last = write_urgently();
    for (int i = 0; i < 50 && last; ++i) {
        last = write_urgently();
    }
    ASSERT_FALSE(last);
    EXPECT_EQ(last.error().reason, "disk_full");
    EXPECT_EQ(world_.ledger.compare(process_.store()), Problems());
}

TEST_F(FullDiskTest, AcceptsAgainOnceThereIsRoom) {
    fill();
    EXPECT_EQ(write().error().reason, "disk_full");
    fs_.set_plan({});
    (void)write();  // may still be refused: it is what makes a store without threads look again
    for (int i = 0; i < 20; ++i) {
        const Result<Committed> committed = write();
        ASSERT_TRUE(committed) << committed.error().message;
    }
    EXPECT_TRUE(process_.store().health().accepting);
    const std::unique_ptr<CrashingFs> disk = cut_power(fs_, cut_outcomes()[0], 1);
    StoreWorld after = world_.fork();
    EXPECT_EQ(check_disk(after, *disk, Depth::go_round), Problems());
}

// ---- no descriptor left ---------------------------------------------------------------------

class CrowdedFs : public ForwardingFs {
 public:
    using ForwardingFs::ForwardingFs;
    Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
        if (crowded) return too_many();
        return ForwardingFs::open(path, mode);
    }
    Result<void> sync_directory(const std::string& path) override {
        return crowded ? too_many() : ForwardingFs::sync_directory(path);
    }
    Result<void> sync_file_system(const std::string& path) override {
        return crowded ? too_many() : ForwardingFs::sync_file_system(path);
    }

    bool crowded = false;

 private:
    static Error too_many() { return {ErrorKind::io, "too_many_files", "open: too many"}; }
};

TEST(CrowdedTest, WhatNeedsADescriptorIsTriedAgain) {
    CrashingFs disk;
    CrowdedFs fs(disk);
    StoreWorld world;
    StoreProcess process(world, fs, BootId("boot_1"));
    const SessionId id("sess_a");
    ASSERT_TRUE(process.open() && process.recover() && process.create(id));
    fs.crowded = true;
    EXPECT_EQ(process.files().checkpoint().error().reason, "too_many_files");
    Result<Committed> last;
    for (int i = 0; i < 100 && (i == 0 || last); ++i)
        last = process.update(id, std::string(700, 'x'));
    ASSERT_FALSE(last) << "there was a segment for all of them";
    EXPECT_EQ(last.error().reason, "too_many_files");
    EXPECT_TRUE(process.store().health().accepting);
    fs.crowded = false;
    EXPECT_TRUE(process.update(id, "there is room again"));
    EXPECT_TRUE(process.files().checkpoint());
    EXPECT_EQ(world.ledger.compare(process.store()), Problems());
    const std::unique_ptr<CrashingFs> after_a_cut = cut_power(disk, cut_outcomes()[0], 1);
    StoreWorld after = world.fork();
    EXPECT_EQ(check_disk(after, *after_a_cut, Depth::go_round), Problems());
}

// ---- short counts ---------------------------------------------------------------------------

TEST(ShortCountsTest, OfReadsAndWritesChangeNothing) {  // W1
    const auto files_after = [](const FaultPlan& plan) {
        CrashingFs fs(plan);
        StoreWorld world;
        const WorkloadEnd end = StoreWorkload(world, fs).run();
        EXPECT_TRUE(end.whole) << end.first_refusal;
        return fs.files();
    };
    const auto whole = files_after({});
    EXPECT_EQ(files_after({.short_writes = true}), whole);
    EXPECT_EQ(files_after({.short_reads = true}), whole);
}

TEST(ShortCountsTest, DoNotMakeAGroupHalfDurable) {  // W1
    constexpr std::int64_t kEvery = 7;
    CaseCount cases("power cuts among short writes");
    for (std::int64_t cut = 1;; cut += kEvery) {
        CrashingFs fs(FaultPlan{.crash_at = cut, .short_writes = true});
        StoreWorld world;
        StoreWorkload(world, fs).run();
        if (!fs.crashed()) break;
        for (const CutOutcome& outcome : cut_outcomes()) {
            const std::unique_ptr<CrashingFs> disk = cut_power(fs, outcome, cut);
            StoreWorld after = world.fork();
            cases.add(check_disk(after, *disk, Depth::recover),
                      "cut at operation " + std::to_string(cut) + ", " + outcome.name, fs);
        }
    }
}

}  // namespace
}  // namespace rouse::testing
