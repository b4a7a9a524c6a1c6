// The simulator must be at least as harsh as a real disk may be; each test is one of its rules. The
// last part runs Fs::replace_file on it, and versions of it with a step missing, which it must
// find.

#include "testing/crashing_fs.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <thread>

namespace rouse::testing {
namespace {

constexpr std::uint64_t kSeeds = 64;
constexpr DiskModel kModels[] = {DiskModel::lose_unsynced, DiskModel::keep_any_subset,
                                 DiskModel::tear_last_write};

std::unique_ptr<File> open_file(Fs& fs, const std::string& path, OpenMode mode = OpenMode::create) {
    Result<std::unique_ptr<File>> file = fs.open(path, mode);
    if (!file) ADD_FAILURE() << file.error().message;
    return file ? *std::move(file) : nullptr;
}

// A file whose name is durable; its bytes are not.
std::unique_ptr<File> write_named(CrashingFs& fs, const std::string& path, std::string_view bytes) {
    std::unique_ptr<File> file = open_file(fs, path);
    EXPECT_TRUE(fs.sync_directory(parent_directory(path)));
    EXPECT_TRUE(file->write_at(0, bytes));
    return file;
}

bool is_io_error(const auto& result) {
    return !result && result.error().kind == ErrorKind::io && result.error().reason == "io_error";
}

bool is_full(const auto& result) {
    return !result && result.error().kind == ErrorKind::io && result.error().reason == "disk_full";
}

// What the disk holds after a power cut, for each of many seeds.
std::vector<std::map<std::string, std::string>> outcomes(const CrashingFs& fs, DiskModel model) {
    std::vector<std::map<std::string, std::string>> all;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
        const std::unique_ptr<CrashingFs> other = fs.copy();
        other->restart(model, seed);
        all.push_back(other->files());
    }
    return all;
}

bool any_outcome(const CrashingFs& fs, DiskModel model, const auto& predicate) {
    return std::ranges::any_of(outcomes(fs, model), predicate);
}

TEST(CrashingFsTest, UnsyncedBytesAreLost) {
    CrashingFs fs;
    const auto file = write_named(fs, "/a", "synced");
    ASSERT_TRUE(file->sync_data());
    ASSERT_TRUE(file->write_at(0, "later, and longer"));
    fs.restart();
    EXPECT_EQ(fs.read_raw("/a"), "synced");
}

TEST(CrashingFsTest, SyncOfTheFileDoesNotKeepItsName) {  // W3
    CrashingFs fs;
    const auto file = open_file(fs, "/a");
    ASSERT_TRUE(file->write_at(0, "bytes"));
    ASSERT_TRUE(file->sync());
    fs.restart();
    EXPECT_EQ(fs.read_raw("/a"), std::nullopt);
}

TEST(CrashingFsTest, SyncOfTheDirectoryDoesNotKeepTheBytes) {
    CrashingFs fs;
    const auto file = open_file(fs, "/a");
    ASSERT_TRUE(file->write_at(0, "bytes"));
    ASSERT_TRUE(fs.sync_directory("/"));
    fs.restart();
    EXPECT_EQ(fs.read_raw("/a"), "");
}

TEST(CrashingFsTest, RenameAndRemoveAreUndoneWithoutDirectorySync) {  // W4
    CrashingFs fs;
    fs.write_raw("/d/a", "1");
    fs.write_raw("/d/b", "2");
    fs.write_raw("/d/c", "3");
    ASSERT_TRUE(fs.rename("/d/a", "/d/b"));
    ASSERT_TRUE(fs.remove("/d/c"));
    const auto kept = fs.copy();
    fs.restart();
    EXPECT_EQ(fs.files(),
              (std::map<std::string, std::string>{{"/d/a", "1"}, {"/d/b", "2"}, {"/d/c", "3"}}));

    ASSERT_TRUE(kept->sync_directory("/d"));
    kept->restart();
    EXPECT_EQ(kept->files(), (std::map<std::string, std::string>{{"/d/b", "1"}}));
}

TEST(CrashingFsTest, RenameToAnotherDirectoryNeedsBothSyncs) {
    CrashingFs fs;
    fs.write_raw("/from/a", "1");
    fs.write_raw("/to/other", "2");
    ASSERT_TRUE(fs.rename("/from/a", "/to/a"));
    const auto source_only = fs.copy();
    ASSERT_TRUE(fs.sync_directory("/to"));
    fs.restart();
    EXPECT_EQ(fs.read_raw("/from/a"), "1");
    EXPECT_EQ(fs.read_raw("/to/a"), "1");

    ASSERT_TRUE(source_only->sync_directory("/from"));
    source_only->restart();
    EXPECT_EQ(source_only->files(), (std::map<std::string, std::string>{{"/to/other", "2"}}));
}

TEST(CrashingFsTest, NewDirectoryIsGoneUntilItsParentIsSynced) {
    CrashingFs fs;
    ASSERT_TRUE(fs.make_directory("/d"));
    const auto file = write_named(fs, "/d/a", "bytes");
    ASSERT_TRUE(file->sync());
    const auto kept = fs.copy();
    fs.restart();
    EXPECT_EQ(fs.status("/d").error().kind, ErrorKind::not_found);

    ASSERT_TRUE(kept->sync_directory("/"));
    kept->restart();
    EXPECT_EQ(kept->read_raw("/d/a"), "bytes");
}

TEST(CrashingFsTest, SyncOfTheFileSystemKeepsAllBytesAndNames) {  // W5
    CrashingFs fs;
    ASSERT_TRUE(fs.make_directory("/d"));
    ASSERT_TRUE(fs.make_directory("/d/e"));
    ASSERT_TRUE(fs.replace_view("/d/e/a", "1"));
    ASSERT_TRUE(fs.replace_view("/d/b", "2"));
    ASSERT_TRUE(fs.sync_file_system("/d"));
    for (const DiskModel model : kModels) {
        for (const auto& files : outcomes(fs, model)) {
            EXPECT_EQ(files, (std::map<std::string, std::string>{{"/d/b", "2"}, {"/d/e/a", "1"}}));
        }
    }
}

TEST(CrashingFsTest, SizeIsAsVolatileAsBytes) {
    CrashingFs fs;
    fs.write_raw("/cut", "0123456789");
    fs.write_raw("/grown", "0123456789");
    fs.write_raw("/emptied", "0123456789");
    ASSERT_TRUE(open_file(fs, "/cut")->truncate(3));
    ASSERT_TRUE(open_file(fs, "/grown")->allocate(12));
    ASSERT_TRUE(open_file(fs, "/emptied")->truncate(0));
    EXPECT_EQ(fs.read_raw("/cut"), "012");
    EXPECT_EQ(fs.read_raw("/grown"), std::string("0123456789\0\0", 12));
    EXPECT_EQ(fs.read_raw("/emptied"), "");

    const auto kept = fs.copy();
    fs.restart();
    for (const auto& [path, content] : fs.files())
        EXPECT_EQ(content, "0123456789") << path;

    ASSERT_TRUE(open_file(*kept, "/cut")->sync_data());
    ASSERT_TRUE(open_file(*kept, "/grown")->sync_data());
    kept->restart();
    EXPECT_EQ(kept->read_raw("/cut"), "012");
    EXPECT_EQ(kept->read_raw("/grown"), std::string("0123456789\0\0", 12));
    EXPECT_EQ(kept->read_raw("/emptied"), "0123456789");
}

TEST(CrashingFsTest, SubsetKeepsSectorsInAnyOrder) {  // W8
    CrashingFs fs;
    fs.write_raw("/a", std::string(1536, 'o'));
    ASSERT_TRUE(open_file(fs, "/a")->write_at(0, std::string(1536, 'n')));
    std::set<std::string> seen;
    for (auto& files : outcomes(fs, DiskModel::keep_any_subset)) {
        const std::string& content = files["/a"];
        ASSERT_EQ(content.size(), 1536U);
        std::string sectors;
        for (std::size_t at = 0; at < 1536; at += 512) {
            EXPECT_EQ(content.substr(at, 512), std::string(512, content[at]));
            sectors += content[at];
        }
        seen.insert(sectors);
    }
    EXPECT_EQ(seen.size(), 8U);  // each of the three kept or lost, the last without the first too
}

TEST(CrashingFsTest, SubsetMayKeepTheSizeWithoutTheBytes) {
    CrashingFs fs;
    const auto file = write_named(fs, "/a", "first");
    ASSERT_TRUE(file->write_at(5, " second"));
    std::set<std::string> seen;
    for (auto& files : outcomes(fs, DiskModel::keep_any_subset))
        seen.insert(files["/a"]);
    EXPECT_EQ(seen, (std::set<std::string>{"", "first", std::string(5, '\0'), "first second",
                                           std::string(12, '\0')}));
}

TEST(CrashingFsTest, SubsetTreatsEachNameByItself) {
    CrashingFs fs;
    fs.write_raw("/d/a", "1");
    ASSERT_TRUE(fs.rename("/d/a", "/d/b"));
    std::set<std::pair<bool, bool>> seen;
    for (const auto& files : outcomes(fs, DiskModel::keep_any_subset)) {
        seen.emplace(files.contains("/d/a"), files.contains("/d/b"));
    }
    EXPECT_EQ(seen.size(), 4U);  // both and neither too
}

TEST(CrashingFsTest, SubsetMayKeepAnEarlierVersionOfAName) {
    CrashingFs fs;
    fs.write_raw("/a", "1");
    for (const char* content : {"2", "3"}) {
        ASSERT_TRUE(fs.replace_view("/a", content));
        ASSERT_TRUE(open_file(fs, "/a")->sync());
    }
    std::set<std::string> seen;
    for (auto& files : outcomes(fs, DiskModel::keep_any_subset))
        seen.insert(files["/a"]);
    EXPECT_EQ(seen, (std::set<std::string>{"1", "2", "3"}));
}

TEST(CrashingFsTest, NewNameMayComeBeforeTheBytes) {  // W4
    CrashingFs fs;
    fs.write_raw("/a", "old");
    ASSERT_TRUE(fs.replace_view("/a", "new"));
    EXPECT_TRUE(any_outcome(fs, DiskModel::keep_any_subset,
                            [](auto& files) { return files.at("/a").empty(); }));
}

TEST(CrashingFsTest, WhatWasSyncedStaysUnderEveryModel) {
    CrashingFs fs;
    const auto file = write_named(fs, "/a", std::string(700, 's'));
    ASSERT_TRUE(file->sync_data());
    ASSERT_TRUE(file->write_at(1024, std::string(700, 'u')));
    for (const DiskModel model : kModels) {
        for (auto& files : outcomes(fs, model)) {
            EXPECT_EQ(files["/a"].substr(0, 700), std::string(700, 's'));
        }
    }
}

TEST(CrashingFsTest, TornWriteEndsAtAnyByte) {
    CrashingFs fs;
    const auto file = write_named(fs, "/a", "head");
    ASSERT_TRUE(file->sync_data());
    ASSERT_TRUE(file->write_at(4, std::string(2000, 'n')));
    bool zeros = false;
    bool shorter = false;
    for (auto& files : outcomes(fs, DiskModel::tear_last_write)) {
        const std::string& content = files["/a"];
        const std::size_t end = content.find_last_of('n') + 1;
        EXPECT_NE(end % 512, 0U);
        EXPECT_GT(end, 4U);
        EXPECT_LT(end, 2004U);
        EXPECT_EQ(content.substr(0, end), "head" + std::string(end - 4, 'n'));
        EXPECT_EQ(content.substr(end), std::string(content.size() - end, '\0'));
        (content.size() == end ? shorter : zeros) = true;
    }
    EXPECT_TRUE(zeros);
    EXPECT_TRUE(shorter);
}

TEST(CrashingFsTest, TearingAnOverwriteLeavesTheOldBytesBehind) {
    CrashingFs fs;
    fs.write_raw("/a", std::string(100, 'o'));
    fs.write_raw("/b", "");
    ASSERT_TRUE(open_file(fs, "/b")->write_at(0, "earlier"));
    ASSERT_TRUE(open_file(fs, "/a")->write_at(10, std::string(50, 'n')));
    ASSERT_TRUE(fs.remove("/b"));  // not a write
    for (auto& files : outcomes(fs, DiskModel::tear_last_write)) {
        const std::size_t kept = files["/a"].find_last_of('n') + 1 - 10;
        EXPECT_EQ(files["/a"],
                  std::string(10, 'o') + std::string(kept, 'n') + std::string(90 - kept, 'o'));
        EXPECT_LT(kept, 50U);
        EXPECT_FALSE(files.contains("/b"));
    }
}

TEST(CrashingFsTest, SyncedWriteIsNotTornButTheLastUnsyncedOneIs) {
    CrashingFs fs;
    const auto first = write_named(fs, "/first", "0123456789");
    const auto second = write_named(fs, "/second", "0123456789");
    ASSERT_TRUE(second->sync_data());
    for (auto& files : outcomes(fs, DiskModel::tear_last_write)) {
        EXPECT_NE(files["/first"], "0123456789");
        EXPECT_EQ(files["/second"], "0123456789");
    }
}

TEST(CrashingFsTest, CutWriteIsLostSplitOrTorn) {
    CrashingFs fs;
    const auto file = write_named(fs, "/a", std::string(2048, 'o'));
    ASSERT_TRUE(file->sync_data());
    fs.set_plan({.crash_at = fs.operations() + 1});
    EXPECT_TRUE(is_io_error(file->write_at(0, std::string(2048, 'n'))));
    ASSERT_TRUE(fs.crashed());
    const std::string all(2048, 'n');
    const std::string none(2048, 'o');
    for (auto& files : outcomes(fs, DiskModel::lose_unsynced))
        EXPECT_EQ(files["/a"], none);
    EXPECT_TRUE(any_outcome(fs, DiskModel::keep_any_subset, [&](auto& files) {
        return files.at("/a") != all && files.at("/a") != none;
    }));
    for (auto& files : outcomes(fs, DiskModel::tear_last_write)) {
        EXPECT_NE(files["/a"], all);
        EXPECT_EQ(files["/a"].front(), 'n');
        EXPECT_EQ(files["/a"].back(), 'o');
    }
}

TEST(CrashingFsTest, CutSyncMakesNothingDurable) {
    for (const bool whole : {false, true}) {
        CrashingFs fs;
        const auto file = write_named(fs, "/a", "bytes");
        fs.set_plan({.crash_at = fs.operations() + 1});
        EXPECT_TRUE(is_io_error(whole ? fs.sync_file_system("/") : file->sync_data()));
        fs.restart();
        EXPECT_EQ(fs.read_raw("/a"), "");
    }
}

TEST(CrashingFsTest, CutRenameHasHappenedOrNot) {
    std::set<std::string> seen;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
        CrashingFs fs({.crash_at = 1, .seed = seed});
        fs.write_raw("/a", "new");
        fs.write_raw("/b", "old");
        EXPECT_TRUE(is_io_error(fs.rename("/a", "/b")));
        fs.restart(DiskModel::tear_last_write);
        seen.insert(fs.read_raw("/b").value_or("none"));
    }
    EXPECT_EQ(seen, (std::set<std::string>{"new", "old"}));
}

TEST(CrashingFsTest, WithoutPowerEveryCallFails) {
    CrashingFs fs;
    const auto file = write_named(fs, "/a", "bytes");
    const auto lock = fs.lock("/lock");
    fs.set_plan({.crash_at = fs.operations() + 1});
    EXPECT_TRUE(is_io_error(fs.make_directory("/d")));

    char buffer[4];
    EXPECT_TRUE(is_io_error(file->read_some_at(0, buffer)));
    EXPECT_TRUE(is_io_error(file->write_some_at(0, "x")));
    EXPECT_TRUE(is_io_error(file->size()));
    EXPECT_TRUE(is_io_error(file->truncate(0)));
    EXPECT_TRUE(is_io_error(file->allocate(9)));
    EXPECT_TRUE(is_io_error(file->sync_data()));
    EXPECT_TRUE(is_io_error(file->sync()));
    EXPECT_TRUE(is_io_error(file->close()));
    EXPECT_TRUE(is_io_error(fs.open("/a", OpenMode::read)));
    EXPECT_TRUE(is_io_error(fs.status("/a")));
    EXPECT_TRUE(is_io_error(fs.list("/")));
    EXPECT_TRUE(is_io_error(fs.make_directory("/d")));
    EXPECT_TRUE(is_io_error(fs.rename("/a", "/b")));
    EXPECT_TRUE(is_io_error(fs.remove("/a")));
    EXPECT_TRUE(is_io_error(fs.sync_directory("/")));
    EXPECT_TRUE(is_io_error(fs.sync_file_system("/")));
    EXPECT_TRUE(is_io_error(fs.lock("/lock")));
}

TEST(CrashingFsTest, OpenFilesAndLocksDoNotSurviveTheRestart) {
    CrashingFs fs;
    const auto file = write_named(fs, "/a", "bytes");
    auto lock = fs.lock("/lock");
    ASSERT_TRUE(lock);
    ASSERT_TRUE(fs.sync_directory("/"));
    fs.restart();
    EXPECT_FALSE(fs.crashed());
    EXPECT_TRUE(is_io_error(file->write_at(0, "from the grave")));
    EXPECT_TRUE(is_io_error(file->sync()));

    auto again = fs.lock("/lock");
    ASSERT_TRUE(again);
    *lock = nullptr;  // the dead one lets go of nothing
    EXPECT_EQ(fs.lock("/lock").error().reason, "directory_in_use");
}

TEST(CrashingFsTest, OneLockAtATime) {  // W12
    CrashingFs fs;
    auto lock = fs.lock("/lock");
    ASSERT_TRUE(lock);
    const auto second = fs.lock("/lock");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().kind, ErrorKind::unavailable);
    EXPECT_EQ(second.error().reason, "directory_in_use");
    *lock = nullptr;
    EXPECT_TRUE(fs.lock("/lock"));
}

TEST(CrashingFsTest, KilledProcessLeavesThePageCache) {
    CrashingFs fs;
    const auto file = write_named(fs, "/a", "unsynced");
    const auto lock = fs.lock("/lock");
    fs.kill_process();
    EXPECT_TRUE(is_io_error(file->sync()));
    EXPECT_TRUE(fs.lock("/lock"));
    EXPECT_EQ(fs.read_raw("/a"), "unsynced");
    fs.restart();
    EXPECT_EQ(fs.read_raw("/a"), "");
}

TEST(CrashingFsTest, FailedWriteMayLeaveAPrefix) {
    std::set<std::size_t> lengths;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
        CrashingFs fs;
        fs.write_raw("/a", "");
        fs.set_plan({.fail_at = 1, .fail_code = FailCode::disk_full, .seed = seed});
        const auto file = open_file(fs, "/a");
        EXPECT_TRUE(is_full(file->write_at(0, "012345")));
        const std::string content = *fs.read_raw("/a");
        EXPECT_EQ(content, std::string("012345").substr(0, content.size()));
        lengths.insert(content.size());
        EXPECT_EQ(fs.failures(), 1);
        EXPECT_TRUE(file->write_at(0, "012345"));
    }
    EXPECT_EQ(lengths, (std::set<std::size_t>{0, 1, 2, 3, 4, 5}));
}

TEST(CrashingFsTest, FailedSyncForgetsWhatItShouldHaveWritten) {  // W9
    CrashingFs fs;
    fs.write_raw("/a", std::string(1024, 'o'));
    const auto file = open_file(fs, "/a");
    ASSERT_TRUE(file->write_at(0, std::string(1024, 'n')));
    fs.set_plan({.fail_at = fs.operations() + 1});
    EXPECT_TRUE(is_io_error(file->sync_data()));
    EXPECT_TRUE(file->sync_data());
    EXPECT_TRUE(fs.sync_file_system("/"));
    EXPECT_EQ(fs.read_raw("/a"), std::string(1024, 'n'));  // it still looks fine
    const auto repaired = fs.copy();

    for (const DiskModel model : {DiskModel::lose_unsynced, DiskModel::tear_last_write}) {
        for (auto& files : outcomes(fs, model))
            EXPECT_EQ(files["/a"], std::string(1024, 'o'));
    }
    EXPECT_TRUE(any_outcome(fs, DiskModel::keep_any_subset, [](auto& files) {
        return files.at("/a") == std::string(512, 'n') + std::string(512, 'o');
    }));

    const auto again = open_file(*repaired, "/a");
    ASSERT_TRUE(again->write_at(512, std::string(512, 'N')));
    ASSERT_TRUE(again->sync_data());
    repaired->restart();
    EXPECT_EQ(repaired->read_raw("/a"), std::string(512, 'o') + std::string(512, 'N'));
}

TEST(CrashingFsTest, FailedSyncForgetsSizesAndNamesToo) {  // W9
    CrashingFs fs;
    const auto file = write_named(fs, "/a", "unsynced");
    ASSERT_TRUE(open_file(fs, "/b"));
    fs.set_plan({.fail_at = fs.operations() + 1});
    EXPECT_TRUE(is_io_error(fs.sync_file_system("/")));
    EXPECT_TRUE(file->sync());
    EXPECT_TRUE(fs.sync_directory("/"));
    const auto appended = fs.copy();
    fs.restart();
    EXPECT_EQ(fs.files(), (std::map<std::string, std::string>{{"/a", ""}}));

    // A later append that is synced leaves a hole in front of it.
    const auto again = open_file(*appended, "/a");
    ASSERT_TRUE(again->write_at(512, "later"));
    ASSERT_TRUE(again->sync());
    appended->restart();
    EXPECT_EQ(appended->read_raw("/a"), std::string(512, '\0') + "later");
}

TEST(CrashingFsTest, StickyErrorsStay) {
    for (const bool sticky : {false, true}) {
        CrashingFs fs({.fail_at = 1, .sticky = sticky});
        fs.write_raw("/a", "1");
        EXPECT_TRUE(is_io_error(fs.make_directory("/d")));
        EXPECT_EQ(is_io_error(fs.rename("/a", "/b")), sticky);
        EXPECT_EQ(is_io_error(fs.sync_directory("/")), sticky);
        EXPECT_EQ(fs.failures(), sticky ? 3 : 1);
        EXPECT_FALSE(fs.crashed());
        EXPECT_TRUE(fs.read_file(sticky ? "/a" : "/b"));
    }
}

TEST(CrashingFsTest, FullDiskStopsOnlyWhatNeedsSpace) {  // W10
    CrashingFs fs;
    fs.write_raw("/old", "0123456789");
    const auto file = open_file(fs, "/segment");
    ASSERT_TRUE(file->allocate(1024));
    ASSERT_TRUE(fs.sync_directory("/"));
    const FaultPlan full{
        .fail_at = fs.operations() + 1, .fail_code = FailCode::disk_full, .sticky = true};
    fs.set_plan(full);
    EXPECT_TRUE(is_full(fs.open("/new", OpenMode::create)));
    EXPECT_TRUE(is_full(fs.make_directory("/d")));
    EXPECT_TRUE(is_full(fs.rename("/old", "/new")));
    EXPECT_TRUE(is_full(file->write_at(1000, std::string(25, 'x'))));
    EXPECT_TRUE(is_full(file->allocate(2048)));

    EXPECT_TRUE(file->write_at(0, std::string(1024, 'x')));
    EXPECT_TRUE(open_file(fs, "/old")->write_at(3, "3456789"));
    EXPECT_TRUE(file->sync_data());
    EXPECT_TRUE(fs.sync_directory("/"));
    EXPECT_TRUE(fs.remove("/old"));
}

TEST(CrashingFsTest, ShortReadsAndWritesArriveWholeThroughTheLoops) {  // W1
    CrashingFs fs({.short_writes = true, .short_reads = true});
    const std::string bytes = "0123456789abcdef";
    const auto file = open_file(fs, "/a");
    EXPECT_EQ(file->write_some_at(0, bytes), 8U);
    EXPECT_EQ(file->write_some_at(0, "x"), 1U);
    EXPECT_TRUE(file->write_at(0, bytes));
    EXPECT_EQ(fs.read_raw("/a"), bytes);
    EXPECT_EQ(fs.read_file("/a"), bytes);
    char buffer[16];
    EXPECT_EQ(file->read_some_at(0, buffer), 8U);
    EXPECT_EQ(file->read_some_at(15, buffer), 1U);
}

TEST(CrashingFsTest, CountsWhatChangesSomething) {
    CrashingFs fs;
    const auto count = [&](auto call) {
        const std::int64_t before = fs.operations();
        static_cast<void>(call());
        return fs.operations() - before;
    };
    EXPECT_EQ(count([&] { return fs.make_directory("/d"); }), 1);
    EXPECT_EQ(count([&] { return fs.make_directory("/d"); }), 0);
    EXPECT_EQ(count([&] { return fs.open("/d/a", OpenMode::read); }), 0);
    EXPECT_EQ(count([&] { return fs.open("/d/a", OpenMode::create); }), 1);
    EXPECT_EQ(count([&] { return fs.open("/d/a", OpenMode::create); }), 0);
    EXPECT_EQ(count([&] { return fs.open("/d/a", OpenMode::create_new); }), 0);
    EXPECT_EQ(count([&] { return fs.open("/d/new", OpenMode::create_new); }), 1);
    const auto file = open_file(fs, "/d/a", OpenMode::write);
    EXPECT_EQ(count([&] { return file->write_some_at(0, "abc"); }), 1);
    EXPECT_EQ(count([&] { return file->truncate(1); }), 1);
    EXPECT_EQ(count([&] { return file->allocate(5); }), 1);
    EXPECT_EQ(count([&] { return file->sync_data(); }), 1);
    EXPECT_EQ(count([&] { return file->sync(); }), 1);
    EXPECT_EQ(count([&] { return file->read_at(0, 5); }), 0);
    EXPECT_EQ(count([&] { return fs.rename("/d/missing", "/d/b"); }), 0);
    EXPECT_EQ(count([&] { return fs.rename("/d/a", "/d/b"); }), 1);
    EXPECT_EQ(count([&] { return fs.sync_directory("/d"); }), 1);
    EXPECT_EQ(count([&] { return fs.sync_file_system("/"); }), 1);
    EXPECT_EQ(count([&] { return fs.lock("/d/lock"); }), 1);
    EXPECT_EQ(count([&] { return fs.lock("/d/lock"); }), 0);
    EXPECT_EQ(count([&] { return fs.remove("/d/b"); }), 1);
    EXPECT_EQ(count([&] { return fs.read_raw("/d/b"); }), 0);
    fs.reset_operations();
    EXPECT_EQ(fs.operations(), 0);
}

TEST(CrashingFsTest, TraceNamesTheLatestOperations) {
    CrashingFs fs({.crash_at = 3, .fail_at = 2});
    ASSERT_TRUE(fs.make_directory("/d"));
    EXPECT_FALSE(fs.make_directory("/e"));
    EXPECT_FALSE(fs.sync_directory("/d"));
    fs.restart();
    EXPECT_EQ(fs.trace(),
              "1 make directory /d\n2 make directory /e: failed\n3 fsync directory /d: cut\n"
              "3 restart\n");
}

TEST(CrashingFsTest, CopyIsADiskOfItsOwn) {
    CrashingFs fs;
    const auto file = write_named(fs, "/a", "unsynced");
    const auto copied = fs.copy();
    ASSERT_TRUE(file->write_at(0, "changed!"));
    EXPECT_EQ(copied->read_raw("/a"), "unsynced");
    copied->restart();
    EXPECT_EQ(copied->read_raw("/a"), "");
    EXPECT_EQ(fs.read_raw("/a"), "changed!");
}

TEST(CrashingFsTest, SameCallsAndSeedsLeaveTheSameDisk) {
    const auto disk = [](std::uint64_t seed) {
        CrashingFs fs({.crash_at = 9, .seed = seed});
        for (const char* path : {"/a", "/b", "/c"}) {
            if (!fs.replace_view(path, std::string(3000, path[1]))) break;
        }
        fs.restart(DiskModel::keep_any_subset, seed);
        return fs.files();
    };
    std::set<std::map<std::string, std::string>> different;
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
        EXPECT_EQ(disk(seed), disk(seed));
        different.insert(disk(seed));
    }
    EXPECT_GT(different.size(), kSeeds / 2);
}

TEST(CrashingFsTest, RawBytesAreDurableAtOnce) {
    CrashingFs fs;
    fs.write_raw("/d/e/a", "damaged");
    EXPECT_EQ(fs.operations(), 0);
    fs.restart();
    EXPECT_EQ(fs.read_raw("/d/e/a"), "damaged");
    EXPECT_EQ(fs.read_raw("/d/e"), std::nullopt);
    EXPECT_EQ(fs.read_raw("/d/x/a"), std::nullopt);
}

TEST(CrashingFsTest, RemovedFileStaysReadableWhileItIsOpen) {
    CrashingFs fs;
    const auto file = write_named(fs, "/a", "bytes");
    ASSERT_TRUE(fs.remove("/a"));
    ASSERT_TRUE(fs.sync_file_system("/"));
    EXPECT_EQ(file->read_at(0, 9), "bytes");
}

TEST(CrashingFsTest, MayBeUsedFromSeveralThreads) {
    CrashingFs fs({.crash_at = 400});
    std::vector<std::thread> threads;
    threads.reserve(4);
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&fs, path = "/" + std::to_string(i)] {
            for (int round = 0; round < 50; ++round) {
                if (!fs.replace_file(path, std::to_string(round))) return;
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_TRUE(fs.crashed());
    EXPECT_EQ(fs.operations(), 400);
}

// A directory of the real file system, removed afterwards.
class TemporaryDirectory final {
 public:
    TemporaryDirectory() {
        if (::mkdtemp(path_.data()) == nullptr) ADD_FAILURE() << "no temporary directory";
    }
    ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
    const std::string& path() const { return path_; }

 private:
    std::string path_ = std::filesystem::temp_directory_path() / "rouse_fs_XXXXXX";
};

std::string described(const auto& result) {
    if (result) return "ok";
    return std::string(to_string(result.error().kind)) + " " + std::string(result.error().reason);
}

// One random call, the same on any file system for the same numbers; says what came of it.
std::string random_call(Fs& fs, const std::string& root, SeededRandom& random) {
    const auto path = [&] {
        constexpr const char* kPaths[] = {"/a", "/b", "/d", "/d/a", "/d/b", "/a/x"};
        return root + kPaths[random.below(6)];
    };
    const auto file_path = [&] { return root + (random.coin() ? "/a" : "/d/b"); };
    switch (random.below(8)) {
        case 0: return "mkdir " + described(fs.make_directory(root + "/d"));
        case 1: return "remove " + described(fs.remove(path()));
        case 2: {
            const std::string from = file_path();
            return "rename " + described(fs.rename(from, path()));
        }
        case 3: {
            const auto status = fs.status(path());
            if (!status) return "status " + described(status);
            return status->directory ? "directory" : "file " + std::to_string(status->size);
        }
        case 4: {
            const auto names = fs.list(random.coin() ? root + "/" : path());
            if (!names) return "list " + described(names);
            std::string all = "list";
            for (const std::string& name : *names)
                all += " " + name;
            return all;
        }
        case 5: return "sync " + described(fs.sync_directory(path()));
        case 6: {
            const auto content = fs.read_file(file_path());
            return "read " + described(content) + content.value_or("");
        }
        default: break;
    }
    const std::string file_name = random.coin() ? path() : file_path();
    // Opening a directory for reading is the one thing that the real one allows and this does not.
    const auto mode = static_cast<OpenMode>(1 + random.below(3));
    const auto file = fs.open(file_name, mode);
    const std::uint64_t a = random.below(1500);
    const std::string bytes(1 + random.below(800), static_cast<char>('a' + random.below(26)));
    const bool shorter = random.coin();
    if (!file) return "open " + described(file);
    std::string said = described((*file)->write_at(a, bytes));
    if (shorter) {
        said += described((*file)->truncate(a / 2));
    } else {
        said += described((*file)->allocate(a * 2 + 1));
    }
    said += described((*file)->sync_data());
    said += std::to_string((*file)->size().value_or(0));
    said += described((*file)->close());
    said += described((*file)->write_at(0, "closed"));
    return said;
}

TEST(CrashingFsTest, AnswersAsTheRealFileSystemDoes) {
    RealFs real;
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        const TemporaryDirectory directory;
        CrashingFs simulated;
        SeededRandom for_real(seed);
        SeededRandom for_simulated(seed);
        for (int step = 0; step < 60; ++step) {
            const std::string expected = random_call(real, directory.path(), for_real);
            ASSERT_EQ(random_call(simulated, "", for_simulated), expected)
                << "seed " << seed << "\n"
                << simulated.trace();
        }
    }
}

}  // namespace
}  // namespace rouse::testing
