// Which sessions have views beside their log, and what verify makes of those that have none.

#include <string>

#include "store/files/views.h"
#include "testing/busy_store.h"

namespace rouse {
namespace {

using testing::SessionDriver;

class StoreViewsTest : public testing::BusyStoreTest {
 protected:
    std::string snapshot(const SessionDriver& driver) {
        const Result<std::string> text = disk_->read_file(layout_.snapshot(driver.id()));
        return text ? *text : std::string();
    }
};

TEST_F(StoreViewsTest, WhatCameAndWentWhileThereWasMuchToDoIsItsLogAlone) {
    SessionDriver driver(1);
    end(driver);
    make_others_end();
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
    EXPECT_TRUE(disk_->status(call));
    finish(driver);
    make_others_end();
    EXPECT_EQ(snapshot(driver), files::snapshot_text(driver.state()));
    EXPECT_FALSE(disk_->status(call));
    EXPECT_FALSE(disk_->status(layout_.tokens(driver.id())));
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
    ASSERT_TRUE(disk_->remove(layout_.snapshot(over.id())));
    EXPECT_EQ(what_is_wrong(), "");
    ASSERT_TRUE(disk_->remove(layout_.snapshot(waiting.id())));
    EXPECT_NE(what_is_wrong(), "");
}

TEST_F(StoreViewsTest, AnOldSnapshotOfWhatHasEndedIsStillStale) {
    SessionDriver driver(1);
    park(driver);
    ASSERT_TRUE(store_->checkpoint());
    const std::string old = snapshot(driver);
    finish(driver);
    ASSERT_TRUE(store_->close());
    ASSERT_TRUE(disk_->replace_file(layout_.snapshot(driver.id()), old));
    EXPECT_NE(what_is_wrong(), "");
}

}  // namespace
}  // namespace rouse
