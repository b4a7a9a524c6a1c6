// Which sessions have views beside their log, and what verify makes of those that have none.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "store/files/file_store.h"
#include "store/files/layout.h"
#include "store/files/verify.h"
#include "store/files/views.h"
#include "testing/crashing_fs.h"
#include "testing/session_driver.h"
#include "testing/store_workload.h"

namespace rouse {
namespace {

using testing::CrashingFs;
using testing::kStoreDirectory;
using testing::SessionDriver;

class StoreViewsTest : public ::testing::Test {
 protected:
    static constexpr std::size_t kOpenLogs = 2;

    StoreViewsTest() { open(); }

    void open() {
        FileStoreOptions options;
        options.threads = FileStoreOptions::Threads::none;
        options.segment_bytes = 256U << 10U;
        options.open_logs = kOpenLogs;
        Result<std::unique_ptr<FileStore>> opened =
            FileStore::open(world_.env(disk_), kStoreDirectory, options);
        ASSERT_TRUE(opened) << opened.error().message;
        store_ = *std::move(opened);
    }
    void commit(SessionDriver& driver, Result<Records> planned) {
        ASSERT_TRUE(planned) << planned.error().message;
        const Result<Committed> done =
            store_->commit_and_wait(make_commit(driver.id(), driver.state().last_seq, *planned));
        ASSERT_TRUE(done) << done.error().message;
        driver.apply(*planned, done->appends.front().first, world_.clock.now());
    }
    // It waits for a call.
    void park(SessionDriver& driver) {
        commit(driver, driver.create());
        commit(driver, driver.message());
        commit(driver, driver.say_and_park({{}}));
    }
    void finish(SessionDriver& driver) {
        commit(driver, driver.settle(driver.pending(0), text_result("done")));
        commit(driver, driver.complete());
    }
    void end(SessionDriver& driver) {
        park(driver);
        finish(driver);
    }
    // So that whatever came to rest before is written down.
    void make_others_end() {
        for (std::size_t i = 0; i <= kOpenLogs; ++i) {
            SessionDriver other(100 + i);
            end(other);
        }
    }

    std::string snapshot(const SessionDriver& driver) {
        const Result<std::string> text = disk_.read_file(layout_.snapshot(driver.id()));
        return text ? *text : std::string();
    }
    std::uint64_t written(const SessionDriver& driver) {
        const Result<FileStatus> log = disk_.status(layout_.log(driver.id()));
        return log ? log->size : 0;
    }
    std::string what_is_wrong(VerifyMode mode = VerifyMode::look) {
        const Result<VerifyReport> report = verify(world_.env(disk_), kStoreDirectory, mode);
        if (!report) return report.error().message;
        return report->clean()
                   ? ""
                   : report->findings.front().file + ": " + report->findings.front().what;
    }

    testing::StoreWorld world_;
    CrashingFs disk_;
    files::Layout layout_{kStoreDirectory};
    std::unique_ptr<FileStore> store_;
};

TEST_F(StoreViewsTest, WhatCameAndWentWhileThereWasMuchToDoIsItsLogAlone) {
    SessionDriver driver(1);
    end(driver);
    make_others_end();
    EXPECT_EQ(written(driver), store_->log_bytes(driver.id()));
    EXPECT_EQ(snapshot(driver), "");
    ASSERT_TRUE(store_->close());
    EXPECT_EQ(what_is_wrong(), "");
}

TEST_F(StoreViewsTest, ACheckpointWritesTheViewsOfWhatIsOpen) {  // S3-10
    SessionDriver waiting(1);
    park(waiting);
    SessionDriver over(2);
    end(over);
    ASSERT_TRUE(store_->checkpoint());
    EXPECT_EQ(snapshot(waiting), files::snapshot_text(waiting.state()));
    EXPECT_EQ(snapshot(over), files::snapshot_text(over.state()));
}

TEST_F(StoreViewsTest, ViewsThatAreThereAreKeptUp) {
    SessionDriver driver(1);
    park(driver);
    ASSERT_TRUE(store_->checkpoint());
    const std::string call = layout_.pending(driver.pending(0));
    EXPECT_TRUE(disk_.status(call));
    finish(driver);
    make_others_end();
    EXPECT_EQ(snapshot(driver), files::snapshot_text(driver.state()));
    EXPECT_FALSE(disk_.status(call));
    EXPECT_FALSE(disk_.status(layout_.tokens(driver.id())));
    ASSERT_TRUE(store_->close());
    EXPECT_EQ(what_is_wrong(), "");
}

TEST_F(StoreViewsTest, WhoComesBackGetsItsViews) {
    SessionDriver driver(1);
    end(driver);
    make_others_end();
    ASSERT_EQ(snapshot(driver), "");
    commit(driver, driver.update("again"));
    ASSERT_TRUE(store_->checkpoint());
    EXPECT_EQ(snapshot(driver), files::snapshot_text(driver.state()));
}

TEST_F(StoreViewsTest, RepairWritesAllOfThem) {
    SessionDriver driver(1);
    end(driver);
    make_others_end();
    ASSERT_TRUE(store_->close());
    store_.reset();
    ASSERT_EQ(snapshot(driver), "");
    EXPECT_EQ(what_is_wrong(VerifyMode::repair), "");
    EXPECT_EQ(snapshot(driver), files::snapshot_text(driver.state()));
}

TEST_F(StoreViewsTest, OnlyTheSnapshotOfWhatHasEndedMayBeMissing) {
    SessionDriver waiting(1);
    park(waiting);
    SessionDriver over(2);
    end(over);
    ASSERT_TRUE(store_->close());
    ASSERT_EQ(what_is_wrong(), "");
    ASSERT_TRUE(disk_.remove(layout_.snapshot(over.id())));
    EXPECT_EQ(what_is_wrong(), "");
    ASSERT_TRUE(disk_.remove(layout_.snapshot(waiting.id())));
    EXPECT_NE(what_is_wrong(), "");
}

TEST_F(StoreViewsTest, AnOldSnapshotOfWhatHasEndedIsStillStale) {
    SessionDriver driver(1);
    park(driver);
    ASSERT_TRUE(store_->checkpoint());
    const std::string old = snapshot(driver);
    finish(driver);
    ASSERT_TRUE(store_->close());
    ASSERT_TRUE(disk_.replace_file(layout_.snapshot(driver.id()), old));
    EXPECT_NE(what_is_wrong(), "");
}

}  // namespace
}  // namespace rouse
