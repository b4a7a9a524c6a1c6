// Archives: what is in them, what an import makes of them, and that neither a crash nor a bad file
// leaves anything half done.

#include <gtest/gtest.h>

#include "store/files/archive.h"
#include "store/files/verify.h"
#include "testing/forwarding_fs.h"
#include "testing/store_checks.h"
#include "testing/store_workload.h"

namespace rouse::testing {
namespace {

const std::string kArchive = "/archive";
const std::string kCopy = "/copy";

class StoreArchiveTest : public ::testing::Test {
 protected:
    StoreArchiveTest() {
        StoreWorkload(world_, fs_).run();
        process_.emplace(world_, fs_, BootId("boot_archive"));
        EXPECT_TRUE(process_->open());
    }

    std::unique_ptr<FileStore> open(Fs& fs, const std::string& directory) {
        auto store = FileStore::open(world_.env(fs), directory, tiny_store_options());
        EXPECT_TRUE(store) << (store ? "" : store.error().message);
        return *std::move(store);
    }
    std::vector<SessionLog> sessions(Fs& fs, const std::string& directory) {
        return *read_sessions(*open(fs, directory));
    }
    static std::vector<std::string> system_lines(Store& store) {
        Result<std::vector<std::string>> lines = store.read(system_log(), 1, SIZE_MAX);
        return lines ? *std::move(lines) : std::vector<std::string>();
    }
    // Of a store that is in use.
    ArchiveReport write(const std::string& file, const ArchiveWish& wish = {}) {
        const Result<ArchiveReport> report =
            write_archive(world_.env(fs_), kStoreDirectory, file, wish);
        EXPECT_TRUE(report) << (report ? "" : report.error().message);
        return report ? *report : ArchiveReport{};
    }
    Result<ImportReport> import(Fs& fs, const std::string& file) {
        return import_archive(world_.env(fs), file, kCopy, tiny_store_options());
    }
    void expect_clean(Fs& fs, const std::string& directory) {
        const Result<VerifyReport> report = verify(world_.env(fs), directory, VerifyMode::look);
        ASSERT_TRUE(report);
        for (const Finding& finding : report->findings)
            ADD_FAILURE() << finding.file << ": " << finding.what;
    }

    CrashingFs fs_;
    StoreWorld world_;
    std::optional<StoreProcess> process_;
};

TEST_F(StoreArchiveTest, ABackupOfAStoreInUseIsAllOfIt) {
    const SessionId fresh("sess_fresh");
    ASSERT_TRUE(process_->create(fresh));
    ASSERT_TRUE(process_->message(fresh, "only the journal has this"));
    const std::vector<SessionLog> wanted = *read_sessions(process_->files());
    const std::vector<std::string> system = system_lines(process_->files());
    const ArchiveReport written = write(kArchive, {{}, true});
    EXPECT_EQ(written.sessions, wanted.size());
    EXPECT_TRUE(written.left_out.empty());

    const Result<ImportReport> report = import(fs_, kArchive);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->sessions, wanted.size());
    EXPECT_FALSE(report->left_system_log);
    EXPECT_EQ(sessions(fs_, kCopy), wanted);
    EXPECT_EQ(system_lines(*open(fs_, kCopy)), system);
    expect_clean(fs_, kCopy);
}

TEST_F(StoreArchiveTest, WhatWasDeletedIsNotMissingFromABackup) {
    const SessionId gone("sess_gone");
    ASSERT_TRUE(process_->create(gone));
    ASSERT_TRUE(process_->message(gone, "known to the checkpoint"));
    ASSERT_TRUE(process_->files().checkpoint());
    const std::size_t left = read_sessions(process_->files())->size() - 1;
    ASSERT_TRUE(
        process_->files().commit_and_wait(make_commit(gone, std::nullopt, {SessionDeleted{}})));
    // A checkpoint removes the files before the index says so.
    ASSERT_TRUE(fs_.remove(std::string(kStoreDirectory) + "/sessions/sess_gone.messages.jsonl"));
    const ArchiveReport written = write(kArchive, {{}, true});
    EXPECT_EQ(written.sessions, left);
    EXPECT_TRUE(written.left_out.empty());
    const ArchiveReport asked_for = write("/exported", {{gone}, false});
    ASSERT_EQ(asked_for.left_out.size(), 1U);
    EXPECT_EQ(asked_for.left_out.front().second, "it was deleted");
}

// Somebody deletes a session when its log is about to be read.
class DeletingFs final : public ForwardingFs {
 public:
    DeletingFs(Fs& inner, std::function<void()> delete_it)
        : ForwardingFs(inner), delete_it_(std::move(delete_it)) {}
    Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
        if (path.ends_with("/sess_gone.messages.jsonl") && delete_it_) {
            std::exchange(delete_it_, {})();
        }
        return ForwardingFs::open(path, mode);
    }

 private:
    std::function<void()> delete_it_;
};

TEST_F(StoreArchiveTest, WhatIsDeletedMeanwhileIsNotMissingFromABackup) {
    const SessionId gone("sess_gone");
    ASSERT_TRUE(process_->create(gone));
    ASSERT_TRUE(process_->files().checkpoint());
    const std::size_t left = read_sessions(process_->files())->size() - 1;
    DeletingFs fs(fs_, [&] {
        EXPECT_TRUE(
            process_->files().commit_and_wait(make_commit(gone, std::nullopt, {SessionDeleted{}})));
        EXPECT_TRUE(process_->files().checkpoint());
    });
    const auto written = write_archive(world_.env(fs), kStoreDirectory, kArchive, {{}, true});
    ASSERT_TRUE(written);
    EXPECT_EQ(written->sessions, left);
    EXPECT_TRUE(written->left_out.empty());
}

TEST_F(StoreArchiveTest, OnlyWhatWasWishedForIsInAnExport) {
    const std::vector<SessionLog> all = *read_sessions(process_->files());
    const ArchiveReport written = write(kArchive, {{all[1].id}, false});
    EXPECT_EQ(written.sessions, 1U);
    ASSERT_TRUE(import(fs_, kArchive));
    EXPECT_EQ(sessions(fs_, kCopy), std::vector<SessionLog>{all[1]});
    EXPECT_TRUE(system_lines(*open(fs_, kCopy)).empty());

    const ArchiveWish unknown{{SessionId("sess_nobody")}, false};
    const auto refused = write_archive(world_.env(fs_), kStoreDirectory, "/other", unknown);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().reason, "unknown_session");
    EXPECT_FALSE(fs_.status("/other"));
    EXPECT_FALSE(fs_.status("/other.tmp"));
}

TEST_F(StoreArchiveTest, AnImportBringsSessionsForwardAndNeverBack) {
    write("/early");
    const SessionId id = read_sessions(process_->files())->front().id;
    ASSERT_TRUE(process_->update(id, "Later"));
    write("/late");
    const std::vector<SessionLog> late = *read_sessions(process_->files());
    ASSERT_TRUE(import(fs_, "/early"));
    const Result<ImportReport> forward = import(fs_, "/late");
    ASSERT_TRUE(forward);
    EXPECT_EQ(forward->sessions, 1U);
    EXPECT_EQ(forward->records, 1U);
    const Result<ImportReport> back = import(fs_, "/early");
    ASSERT_TRUE(back);
    EXPECT_EQ(back->known, late.size());
    EXPECT_EQ(sessions(fs_, kCopy), late);
    expect_clean(fs_, kCopy);
}

TEST_F(StoreArchiveTest, ASessionThatDiffersStopsTheWholeImport) {
    write(kArchive);
    const SessionId last = read_sessions(process_->files())->back().id;
    {
        const auto store = open(fs_, kCopy);
        SessionCreated created;
        created.id = last;
        created.title = "Another one of that name";
        ASSERT_TRUE(store->commit_and_wait(make_commit(last, 0, {created})));
    }
    const std::vector<SessionLog> before = sessions(fs_, kCopy);
    const Result<ImportReport> refused = import(fs_, kArchive);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().reason, "session_differs");
    EXPECT_EQ(sessions(fs_, kCopy), before);
}

TEST_F(StoreArchiveTest, AFileThatIsThereIsNotWrittenOver) {
    ASSERT_TRUE(fs_.replace_file(kArchive, "mine"));
    const auto refused = write_archive(world_.env(fs_), kStoreDirectory, kArchive, {});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().reason, "file_exists");
    EXPECT_EQ(fs_.read_file(kArchive), "mine");
}

TEST_F(StoreArchiveTest, AnArchiveThatIsCutAnywhereChangesNothing) {
    write(kArchive);
    const std::string whole = *fs_.read_file(kArchive);
    constexpr std::size_t kStep = 97;
    for (std::size_t length = 0; length + 1 < whole.size(); length += kStep) {
        ASSERT_TRUE(fs_.replace_view("/cut", whole.substr(0, length)));
        const Result<ImportReport> refused = import(fs_, "/cut");
        ASSERT_FALSE(refused) << "cut at " << length;
        EXPECT_EQ(refused.error().reason, "not_an_archive");
        ASSERT_FALSE(fs_.status(kCopy)) << "cut at " << length;
    }
}

TEST_F(StoreArchiveTest, AWrongBitInALogChangesNothing) {
    const SessionId one = read_sessions(process_->files())->front().id;
    write(kArchive, {{one}, false});
    const std::string whole = *fs_.read_file(kArchive);
    const std::size_t begin = whole.find("{\"seq\":1");
    const std::size_t end = whole.find("{\"end\"");
    for (std::size_t at = begin; at < end; ++at) {
        std::string damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ 1);
        ASSERT_TRUE(fs_.replace_view("/damaged", damaged));
        ASSERT_FALSE(import(fs_, "/damaged")) << "byte " << at;
        ASSERT_FALSE(fs_.status(kCopy));
    }
}

TEST_F(StoreArchiveTest, AnImportThatIsCutAnywhereCanBeDoneAgain) {  // P1, P2
    write(kArchive, {{}, true});
    ASSERT_TRUE(fs_.sync_file_system("/"));
    const std::vector<SessionLog> wanted = *read_sessions(process_->files());
    CaseCount cases("power cuts during an import");
    for (std::int64_t cut = 1;; ++cut) {
        const std::unique_ptr<CrashingFs> running = fs_.copy();
        running->reset_operations();
        running->set_plan({.crash_at = cut, .seed = static_cast<std::uint64_t>(cut)});
        (void)import(*running, kArchive);
        if (!running->crashed()) break;
        for (const CutOutcome& outcome : cut_outcomes()) {
            const std::unique_ptr<CrashingFs> disk = cut_power(*running, outcome, cut);
            const Result<ImportReport> again = import(*disk, kArchive);
            Problems problems;
            if (!again) {
                problems.push_back(again.error().message);
            } else if (sessions(*disk, kCopy) != wanted) {
                problems.push_back("the sessions are others");
            } else if (!verify(world_.env(*disk), kCopy, VerifyMode::look)->clean()) {
                problems.push_back("not clean");
            }
            cases.add(problems,
                      "cut at operation " + std::to_string(cut) + " (" + outcome.name + ")",
                      *running);
        }
    }
}

TEST_F(StoreArchiveTest, AnImportOnADiskThatFailsOrFillsUpSaysSo) {  // W9, W10
    write(kArchive, {{}, true});
    const std::vector<SessionLog> wanted = *read_sessions(process_->files());
    CaseCount cases("failures during an import");
    for (const FailCode code : {FailCode::io_error, FailCode::disk_full}) {
        for (std::int64_t at = 1;; ++at) {
            const std::unique_ptr<CrashingFs> running = fs_.copy();
            running->reset_operations();
            running->set_plan({.fail_at = at, .fail_code = code});
            const Result<ImportReport> report = import(*running, kArchive);
            if (running->operations() < at) break;
            running->set_plan({});
            Problems problems;
            if (report && sessions(*running, kCopy) != wanted) {
                problems.emplace_back("told as done, and not all of it is there");
            } else if (!report && !import(*running, kArchive)) {
                problems.emplace_back("it cannot be done again");
            } else if (sessions(*running, kCopy) != wanted) {
                problems.emplace_back("not all of it is there when done again");
            }
            cases.add(problems, "operation " + std::to_string(at), *running);
        }
    }
}

}  // namespace
}  // namespace rouse::testing
