// The power goes at every file operation of a day in a store's life, under three models of what a
// disk keeps (P1, P2, P9). Three broken disks show that the checks would notice a loss.

#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <string>

#include "testing/store_checks.h"
#include "testing/store_workload.h"

namespace rouse::testing {
namespace {

std::string at(std::int64_t cut, const CutOutcome& outcome) {
    return "cut at operation " + std::to_string(cut) + ", " + outcome.name;
}

TEST(StoreCrashTest, TheWorkloadGoesThroughAndLeavesACleanDisk) {
    CrashingFs fs;
    StoreWorld world;
    const WorkloadEnd end = StoreWorkload(world, fs).run();
    std::cout << "the workload: " << fs.operations() << " operations, " << world.ledger.commits()
              << " commits, " << world.ledger.records() << " records\n";
    ASSERT_TRUE(end.whole) << end.first_refusal << "\n" << fs.trace();
    EXPECT_GT(end.packs, 0U);
    EXPECT_EQ(check_disk(world, fs, Depth::go_round), Problems());
}

TEST(StoreCrashTest, NothingAcknowledgedIsLostWhereverThePowerGoes) {
    CaseCount cases("power cuts");
    for (std::int64_t cut = 1;; cut += kCaseStep) {
        CrashingFs fs(FaultPlan{.crash_at = cut, .seed = static_cast<std::uint64_t>(cut)});
        StoreWorld world;
        StoreWorkload(world, fs).run();
        if (!fs.crashed()) break;
        for (const CutOutcome& outcome : cut_outcomes()) {
            const std::unique_ptr<CrashingFs> disk = cut_power(fs, outcome, cut);
            StoreWorld after = world.fork();
            cases.add(check_disk(after, *disk, Depth::go_round), at(cut, outcome), fs);
        }
    }
}

// What the next process finds in the page cache and shows to others is durable by then.
TEST(StoreCrashTest, AKilledProcessLeavesNothingThatALaterPowerCutTakesBack) {
    CaseCount cases("kills with a power cut behind them");
    for (std::int64_t cut = 1;; cut += kCaseStep) {
        CrashingFs fs(FaultPlan{.crash_at = cut, .seed = static_cast<std::uint64_t>(cut)});
        StoreWorld world;
        StoreWorkload(world, fs).run();
        if (!fs.crashed()) break;
        fs.kill_process();
        Problems problems;
        {
            const std::unique_ptr<CrashingFs> running = fs.copy();
            StoreWorld seen = world.fork();
            StoreProcess process(seen, *running, BootId("boot_seen"));
            const Result<void> opened = process.open();
            ASSERT_TRUE(opened) << opened.error().message;
            problems = seen.ledger.compare(process.store());
            const std::unique_ptr<CrashingFs> disk = cut_power(*running, cut_outcomes()[0], 1);
            const Problems lost = check_disk(seen, *disk, Depth::compare);
            problems.insert(problems.end(), lost.begin(), lost.end());
        }
        if (problems.empty()) problems = check_disk(world, fs, Depth::go_round);
        cases.add(problems, "killed at operation " + std::to_string(cut), fs);
    }
}

// A rename that was cut may leave both names, which then lead to the same bytes.
TEST(StoreCrashTest, ASegmentThatACrashLeftWithTwoNamesIsNotOverwritten) {
    const SessionId id("sess_after");
    CaseCount cases("disks on which a segment may have two names");
    for (std::int64_t cut = 1;; ++cut) {
        CrashingFs fs(FaultPlan{.crash_at = cut});
        StoreWorld world;
        StoreWorkload(world, fs).run();
        if (!fs.crashed()) break;
        if (!fs.trace().ends_with(" fsync directory /data/journal: cut\n")) continue;
        for (std::uint64_t seed = 1; seed <= 6; ++seed) {
            const CutOutcome outcome{"any subset kept", DiskModel::keep_any_subset, seed};
            const std::unique_ptr<CrashingFs> disk = cut_power(fs, outcome, cut);
            StoreWorld after = world.fork();
            StoreProcess process(after, *disk, BootId("boot_after"));
            ASSERT_TRUE(process.open());
            ASSERT_EQ(after.ledger.compare(process.store()), Problems());
            ASSERT_TRUE(process.create(id));
            Problems problems;
            for (int i = 0; i < 24 && problems.empty(); ++i) {
                ASSERT_TRUE(process.update(id, std::string(1600, static_cast<char>('a' + i))));
                const std::unique_ptr<CrashingFs> again = cut_power(*disk, cut_outcomes()[0], i);
                StoreWorld later = after.fork();
                problems = check_disk(later, *again, Depth::compare);
            }
            cases.add(problems, at(cut, outcome), *disk);
        }
    }
}

// ---- the checks are checked -----------------------------------------------------------------

enum class Forgets : std::uint8_t { sync_data, sync_directory, sync_file_system };

// A disk that says yes to one kind of sync and does nothing.
class ForgetfulFs final : public Fs {
 public:
    ForgetfulFs(Fs& inner, Forgets what) : inner_(inner), what_(what) {}

    Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
        Result<std::unique_ptr<File>> file = inner_.open(path, mode);
        if (!file || what_ != Forgets::sync_data) return file;
        return std::unique_ptr<File>(std::make_unique<ForgetfulFile>(*std::move(file)));
    }
    Result<FileStatus> status(const std::string& path) override { return inner_.status(path); }
    Result<std::vector<std::string>> list(const std::string& directory) override {
        return inner_.list(directory);
    }
    Result<void> make_directory(const std::string& path) override {
        return inner_.make_directory(path);
    }
    Result<void> rename(const std::string& from, const std::string& to) override {
        return inner_.rename(from, to);
    }
    Result<void> remove(const std::string& path) override { return inner_.remove(path); }
    // Only that of the journal: without any other the directory itself would be gone at once.
    Result<void> sync_directory(const std::string& path) override {
        if (what_ == Forgets::sync_directory && path.ends_with("/journal")) return {};
        return inner_.sync_directory(path);
    }
    Result<void> sync_file_system(const std::string& path) override {
        if (what_ == Forgets::sync_file_system) return {};
        return inner_.sync_file_system(path);
    }
    Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
        return inner_.lock(path);
    }

 private:
    class ForgetfulFile final : public File {
     public:
        explicit ForgetfulFile(std::unique_ptr<File> inner) : inner_(std::move(inner)) {}
        Result<std::size_t> read_some_at(std::uint64_t offset, std::span<char> into) override {
            return inner_->read_some_at(offset, into);
        }
        Result<std::size_t> write_some_at(std::uint64_t offset, std::string_view bytes) override {
            return inner_->write_some_at(offset, bytes);
        }
        Result<std::uint64_t> size() override { return inner_->size(); }
        Result<void> truncate(std::uint64_t size) override { return inner_->truncate(size); }
        Result<void> allocate(std::uint64_t size) override { return inner_->allocate(size); }
        Result<void> sync_data() override { return {}; }
        Result<void> sync() override { return inner_->sync(); }
        Result<void> close() override { return inner_->close(); }

     private:
        std::unique_ptr<File> inner_;
    };

    Fs& inner_;
    Forgets what_;
};

class BrokenDiskTest : public ::testing::TestWithParam<Forgets> {};

TEST_P(BrokenDiskTest, IsNoticed) {
    constexpr std::int64_t kEvery = 5;
    std::uint64_t noticed = 0;
    std::uint64_t cuts = 0;
    for (std::int64_t cut = 1;; cut += kEvery) {
        CrashingFs fs(FaultPlan{.crash_at = cut});
        ForgetfulFs broken(fs, GetParam());
        StoreWorld world;
        StoreWorkload(world, broken).run();
        if (!fs.crashed()) break;
        ++cuts;
        const std::unique_ptr<CrashingFs> disk = cut_power(fs, cut_outcomes()[0], cut);
        noticed += check_disk(world, *disk, Depth::compare).empty() ? 0 : 1;
    }
    EXPECT_GT(noticed, 0U) << "a disk that does not sync passed " << cuts << " cuts";
    std::cout << noticed << " of " << cuts << " cuts lost something on this disk\n";
}

INSTANTIATE_TEST_SUITE_P(Oracle, BrokenDiskTest,
                         ::testing::Values(Forgets::sync_data, Forgets::sync_directory,
                                           Forgets::sync_file_system),
                         [](const auto& test) -> std::string {
                             switch (test.param) {
                                 case Forgets::sync_data: return "WithoutSyncOfData";
                                 case Forgets::sync_directory: return "WithoutSyncOfDirectories";
                                 default: return "WithoutSyncOfTheFileSystem";
                             }
                         });

}  // namespace
}  // namespace rouse::testing
