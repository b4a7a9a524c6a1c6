// A session that was deleted, forgotten, and made again under its old id is there, however the
// store comes to know of it: from a part of the index, from the journal, or from the logs alone.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "base/id_source.h"
#include "base/limits.h"
#include "domain/session_rules.h"
#include "store/files/file_store.h"
#include "store/files/verify.h"
#include "testing/crashing_fs.h"
#include "testing/store_workload.h"

namespace rouse {
namespace {

using testing::CrashingFs;
using testing::kStoreDirectory;

class TombstoneTest : public ::testing::Test {
 protected:
    static constexpr std::size_t kOthers = 40;  // so that the index grows by parts

    TombstoneTest() {
        store_ = open(disk_);
        for (std::size_t i = 0; i < kOthers; ++i)
            create(ids_.make<SessionId>());
        create(again_);
        remove_again();
        EXPECT_TRUE(store_->checkpoint());
    }

    std::unique_ptr<FileStore> open(CrashingFs& fs) {
        FileStoreOptions options;
        options.threads = FileStoreOptions::Threads::none;
        options.segment_bytes = 8 << 10;
        options.journal_kept = Milliseconds(0);
        options.journal_kept_bytes = 0;
        Result<std::unique_ptr<FileStore>> opened =
            FileStore::open(world_.env(fs), kStoreDirectory, options);
        EXPECT_TRUE(opened) << opened.error().message;
        return *std::move(opened);
    }
    void create(const SessionId& id) {
        SessionCreated created;
        created.id = id;
        EXPECT_TRUE(store_->commit_and_wait(make_commit(id, 0, {created})));
    }
    void remove_again() {
        Result<DeletePlan> plan = plan_delete(**store_->load(again_));
        Commit commit = make_commit(again_, std::nullopt, std::move(plan->session));
        commit.appends.push_back({system_log(), std::nullopt, std::move(plan->system)});
        EXPECT_TRUE(store_->commit_and_wait(std::move(commit)));
    }
    // A month later the store forgets it, and its journal begins behind it.
    void forget() {
        world_.clock.advance(limits::kTombstone + std::chrono::hours(1));
        for (std::size_t i = 0; i < kOthers; ++i)
            create(ids_.make<SessionId>());
        EXPECT_TRUE(store_->checkpoint());
        EXPECT_EQ(store_->load(again_).error().reason, "unknown_session");
    }
    void expect_there(CrashingFs& fs) {
        const Result<VerifyReport> report =
            verify(world_.env(fs), kStoreDirectory, VerifyMode::look);
        ASSERT_TRUE(report);
        EXPECT_TRUE(report->clean()) << report->findings.front().what;
        const auto store = open(fs);
        const auto state = store->load(again_);
        ASSERT_TRUE(state) << state.error().reason;
        EXPECT_EQ((*state)->last_seq, 1U);
        EXPECT_TRUE(store->health().damaged.empty());
    }

    testing::StoreWorld world_;
    IdSource ids_{world_.clock, world_.random};
    CrashingFs disk_;
    std::unique_ptr<FileStore> store_;
    const SessionId again_{"sess_again"};
};

TEST_F(TombstoneTest, ItIsInAPartOfTheIndex) {
    forget();
    create(again_);
    ASSERT_TRUE(store_->checkpoint());
    const std::unique_ptr<CrashingFs> crashed = disk_.copy();
    expect_there(*crashed);
}

TEST_F(TombstoneTest, ItIsInTheJournalAlone) {
    forget();
    create(again_);
    const std::unique_ptr<CrashingFs> crashed = disk_.copy();
    expect_there(*crashed);
}

TEST_F(TombstoneTest, ItIsInTheLogsAlone) {
    forget();
    create(again_);
    ASSERT_TRUE(store_->close());
    ASSERT_TRUE(disk_.remove(kStoreDirectory + "/index.ckpt"));
    expect_there(disk_);
}

TEST_F(TombstoneTest, ItWasDeletedOnceMore) {
    forget();
    create(again_);
    ASSERT_TRUE(store_->checkpoint());
    remove_again();
    for (const bool in_index : {false, true}) {
        if (in_index) {
            EXPECT_TRUE(store_->checkpoint());
        }
        const std::unique_ptr<CrashingFs> crashed = disk_.copy();
        const auto store = open(*crashed);
        EXPECT_EQ(store->load(again_).error().reason, "session_gone");
    }
}

}  // namespace
}  // namespace rouse
