// Sessions that came and went while there was much to do: their logs in packs, and out of them.

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "store/files/archive.h"
#include "store/files/packs.h"
#include "testing/busy_store.h"

namespace rouse {
namespace {

using testing::CrashingFs;
using testing::kStoreDirectory;
using testing::SessionDriver;

class StorePacksTest : public testing::BusyStoreTest {
 protected:
    void reopen() {
        ASSERT_TRUE(store_->close());
        store_.reset();
        open();
    }
    // As by kill -9: what is in the page cache stays.
    void die() {
        std::unique_ptr<CrashingFs> left = disk_->copy();
        store_.reset();
        left->kill_process();
        disk_ = std::move(left);
    }
    void die_and_open() {
        die();
        open();
    }
    void remove(const SessionId& id) {
        const auto state = store_->load(id);
        ASSERT_TRUE(state);
        const Result<DeletePlan> plan = plan_delete(**state);
        ASSERT_TRUE(plan);
        Commit commit;
        commit.appends.push_back({id, (*state)->last_seq, plan->session});
        commit.appends.push_back({system_log(), std::nullopt, plan->system});
        ASSERT_TRUE(store_->commit_and_wait(std::move(commit)));
    }
    // Until the journal has nothing of what was before.
    void fill_journal() {
        SessionDriver& driver = drivers_.emplace_back(1 + drivers_.size());
        commit(driver, driver.create());
        for (int i = 0; i < 60; ++i)
            commit(driver, driver.update(std::string(1500, 'x')));
        ASSERT_TRUE(store_->checkpoint());
    }
    // Of one that came and went.
    SessionDriver& packed() {
        SessionDriver& driver = drivers_.emplace_back(1 + drivers_.size());
        end(driver);
        make_others_end();
        return driver;
    }

    bool has_file(const SessionDriver& driver) {
        return disk_->status(layout_.log(driver.id())).has_value();
    }
    std::string packs() {
        std::string all;
        const Result<std::vector<std::uint64_t>> numbers = files::list_packs(*disk_, layout_);
        for (const std::uint64_t number : *numbers)
            all += *disk_->read_file(layout_.pack(number));
        return all;
    }
    bool is_in_packs(const SessionDriver& driver) {
        return packs().find("\"id\":\"" + driver.id().text() + "\"") != std::string::npos;
    }
    std::string log_of(const SessionDriver& driver) {
        const Result<std::vector<std::string>> lines = store_->read(driver.id(), 1, SIZE_MAX);
        if (!lines) return std::string(lines.error().reason);
        std::string text;
        for (const std::string& line : *lines)
            text += line + "\n";
        return text;
    }
    std::string what_is_wrong_when_closed() {
        const Result<void> closed = store_->close();
        store_.reset();
        return closed ? what_is_wrong() : closed.error().message;
    }

    std::deque<SessionDriver> drivers_;
};

TEST_F(StorePacksTest, AShortLogOfWhatCameAndWentIsInAPackAndNowhereElse) {
    SessionDriver& driver = packed();
    EXPECT_FALSE(has_file(driver));
    EXPECT_NE(packs().find(log_of(driver)), std::string::npos);
    EXPECT_EQ(log_of(driver).size(), store_->log_bytes(driver.id()));
    EXPECT_EQ(**store_->load(driver.id()), driver.state());
    EXPECT_EQ(store_->read(driver.id(), 2, 1)->size(), 1U);
    EXPECT_EQ(what_is_wrong_when_closed(), "");
}

TEST_F(StorePacksTest, ALongOneGetsAFile) {
    SessionDriver driver(1);
    commit(driver, driver.create());
    commit(driver, driver.update(std::string(limits::kShortLog, 'x')));
    make_others_end();
    EXPECT_TRUE(has_file(driver));
    EXPECT_FALSE(is_in_packs(driver));
}

TEST_F(StorePacksTest, WhatWaitsGetsAFile) {
    SessionDriver driver(1);
    commit(driver, driver.create());
    commit(driver, driver.message());
    commit(driver, driver.say_and_park({{}}));
    make_others_end();
    ASSERT_TRUE(store_->checkpoint());
    EXPECT_TRUE(has_file(driver));
    EXPECT_FALSE(is_in_packs(driver));
}

TEST_F(StorePacksTest, AnotherProcessReadsIt) {
    SessionDriver& driver = packed();
    const std::string log = log_of(driver);
    reopen();
    EXPECT_EQ(log_of(driver), log);
    EXPECT_EQ(**store_->load(driver.id()), driver.state());
    EXPECT_FALSE(has_file(driver));
}

TEST_F(StorePacksTest, WhoeverComesBackGetsAFileAndLeavesNothingInThePack) {
    SessionDriver& driver = packed();
    commit(driver, driver.update("again"));
    ASSERT_TRUE(store_->checkpoint());
    EXPECT_EQ(*disk_->read_file(layout_.log(driver.id())), log_of(driver));
    reopen();
    EXPECT_FALSE(is_in_packs(driver));
    EXPECT_EQ(**store_->load(driver.id()), driver.state());
    EXPECT_EQ(what_is_wrong_when_closed(), "");
}

TEST_F(StorePacksTest, WhoeverComesBackInAnotherProcessThatIsKilledToo) {
    SessionDriver& driver = packed();
    ASSERT_TRUE(store_->checkpoint());
    die_and_open();
    commit(driver, driver.update("again"));
    const std::string log = log_of(driver);
    die_and_open();
    EXPECT_EQ(log_of(driver), log);
    EXPECT_EQ(**store_->load(driver.id()), driver.state());
    EXPECT_EQ(what_is_wrong_when_closed(), "");
}

// Each part of the index may be the last one that can be read.
TEST_F(StorePacksTest, WhatAnEarlierPartOfTheIndexNamesIsThere) {
    SessionDriver& driver = packed();
    ASSERT_TRUE(store_->checkpoint());
    const std::size_t before = disk_->read_file(layout_.index())->size();
    commit(driver, driver.update("again"));
    const std::string log = log_of(driver);
    ASSERT_TRUE(store_->checkpoint());
    const std::string index = *disk_->read_file(layout_.index());
    ASSERT_GT(index.size(), before) << "no part was added";
    die();
    ASSERT_TRUE(disk_->replace_file(layout_.index(), index.substr(0, index.size() - 1)));
    open();
    EXPECT_EQ(log_of(driver), log);
    EXPECT_TRUE(store_->health().damaged.empty());
}

TEST_F(StorePacksTest, OfOneThatCameBackAndWasDeletedNothingIsLeft) {
    SessionDriver& driver = packed();
    commit(driver, driver.update("again"));
    ASSERT_FALSE(store_->list({}).empty());
    remove(driver.id());
    ASSERT_TRUE(store_->checkpoint());
    EXPECT_FALSE(is_in_packs(driver));
}

TEST_F(StorePacksTest, WhatAKilledProcessWroteInVainGoes) {
    SessionDriver& before = packed();
    ASSERT_TRUE(store_->checkpoint());
    SessionDriver& driver = packed();
    ASSERT_TRUE(is_in_packs(driver));
    die_and_open();
    EXPECT_EQ(**store_->load(driver.id()), driver.state());
    EXPECT_EQ(what_is_wrong_when_closed(), "");
    EXPECT_TRUE(is_in_packs(before));
    EXPECT_FALSE(is_in_packs(driver));
    EXPECT_TRUE(has_file(driver));
}

TEST_F(StorePacksTest, OfADeletedOneNothingIsLeft) {
    SessionDriver& driver = packed();
    ASSERT_TRUE(is_in_packs(driver));
    remove(driver.id());
    ASSERT_TRUE(store_->checkpoint());
    EXPECT_FALSE(is_in_packs(driver));
    EXPECT_EQ(log_of(driver), "session_gone");
    EXPECT_EQ(log_of(others_.front()).find("unknown"), std::string::npos);
    EXPECT_EQ(what_is_wrong_when_closed(), "");
}

TEST_F(StorePacksTest, APackThatNobodyNeedsIsRemoved) {
    (void)packed();
    ASSERT_EQ(files::list_packs(*disk_, layout_)->size(), 1U);
    reopen();
    ASSERT_EQ(files::list_packs(*disk_, layout_)->size(), 1U);
    SessionFilter all;
    for (const SessionSummary& session : store_->list(all)) {
        remove(session.id);
    }
    EXPECT_EQ(what_is_wrong_when_closed(), "");
    EXPECT_TRUE(files::list_packs(*disk_, layout_)->empty());
}

TEST_F(StorePacksTest, RepairGivesEachAFileAndEmptiesThePacks) {
    SessionDriver& driver = packed();
    const std::string log = log_of(driver);
    ASSERT_TRUE(store_->close());
    store_.reset();
    EXPECT_EQ(what_is_wrong(VerifyMode::repair), "");
    EXPECT_EQ(*disk_->read_file(layout_.log(driver.id())), log);
    EXPECT_TRUE(files::list_packs(*disk_, layout_)->empty());
}

TEST_F(StorePacksTest, WithoutAnIndexThePacksSayWhatIsInThem) {
    SessionDriver& driver = packed();
    SessionDriver& again = packed();
    commit(again, again.update("again"));
    const std::string log = log_of(driver);
    const std::string log_of_again = log_of(again);
    ASSERT_TRUE(store_->close());
    store_.reset();
    ASSERT_TRUE(disk_->remove(layout_.index()));
    EXPECT_EQ(what_is_wrong(), "");
    open();
    EXPECT_EQ(log_of(driver), log);
    EXPECT_EQ(log_of(again), log_of_again);
    EXPECT_EQ(what_is_wrong_when_closed(), "");
}

TEST_F(StorePacksTest, DamageInAPackIsNamedAndHitsOneSession) {
    SessionDriver& driver = packed();
    ASSERT_TRUE(store_->close());
    store_.reset();
    const std::string path = layout_.pack(files::list_packs(*disk_, layout_)->front());
    std::string text = *disk_->read_file(path);
    const std::size_t at = text.find("\"kind\":\"run.completed\"", text.find(driver.id().text()));
    text[at + 10] ^= 1;
    ASSERT_TRUE(disk_->replace_file(path, text));
    EXPECT_TRUE(what_is_wrong().starts_with(path + ": ")) << what_is_wrong();
    open();
    EXPECT_EQ(store_->load(driver.id()).error().reason, "session_damaged");
    EXPECT_EQ(store_->read(driver.id(), 1, SIZE_MAX)->size(), driver.state().last_seq - 1);
    for (const SessionDriver& other : others_)
        EXPECT_EQ(**store_->load(other.id()), other.state());
    EXPECT_EQ(*disk_->read_file(path), text);
}

TEST_F(StorePacksTest, DamageInAPackIsNamedWithoutAnIndexToo) {
    SessionDriver& driver = packed();
    fill_journal();
    ASSERT_TRUE(store_->close());
    store_.reset();
    const std::string path = layout_.pack(files::list_packs(*disk_, layout_)->front());
    std::string text = *disk_->read_file(path);
    const std::size_t begin = text.find(driver.id().text());
    text[text.find("\"kind\":\"run.started\"", begin) + 10] ^= 1;
    text[text.find("\"seq\":1,", begin) + 20] ^= 1;  // where the next one begins
    ASSERT_TRUE(disk_->replace_file(path, text));
    ASSERT_TRUE(disk_->remove(layout_.index()));
    EXPECT_NE(what_is_wrong(), "");
    open();
    ASSERT_FALSE(store_->load(driver.id()));
    EXPECT_EQ(store_->load(driver.id()).error().reason, "session_damaged");
    EXPECT_EQ(store_->read(driver.id(), 1, SIZE_MAX)->size(), 2U);
    std::size_t whole = 0;
    for (const SessionDriver& other : others_)
        whole += store_->load(other.id()).has_value() ? 1U : 0U;
    EXPECT_EQ(whole, others_.size() - 1);
    EXPECT_EQ(*disk_->read_file(layout_.damaged() + "/pack-1.jsonl"), text);
}

TEST_F(StorePacksTest, WithoutAnIndexAFileThatWasCutShortDoesNotHideThePack) {
    SessionDriver& driver = packed();
    const std::string log = log_of(driver);
    ASSERT_TRUE(store_->close());
    store_.reset();
    ASSERT_TRUE(disk_->remove(layout_.index()));
    const std::string hole = std::string(100, '\0') + log.substr(100);
    ASSERT_TRUE(disk_->replace_file(layout_.log(driver.id()), hole));
    open();
    EXPECT_EQ(log_of(driver), log);
    EXPECT_TRUE(store_->health().damaged.empty());
    EXPECT_EQ(what_is_wrong_when_closed(), "");
}

TEST_F(StorePacksTest, ABackupHasWhatIsInPacks) {
    SessionDriver& driver = packed();
    const std::string log = log_of(driver);
    const Result<ArchiveReport> report =
        write_archive(world_.env(*disk_), kStoreDirectory, "/backup", {});
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(report->left_out.empty());
    EXPECT_NE(disk_->read_file("/backup")->find(log), std::string::npos);
}

TEST_F(StorePacksTest, ADirectoryOfTheFormatBeforeIsTakenOver) {
    SessionDriver driver(1);
    end(driver);
    ASSERT_TRUE(store_->close());
    store_.reset();
    ASSERT_TRUE(disk_->replace_file(layout_.format(), "{\"format\":1}\n"));
    EXPECT_EQ(what_is_wrong(), "");
    open();
    EXPECT_EQ(*disk_->read_file(layout_.format()), "{\"format\":2}\n");
    EXPECT_EQ(**store_->load(driver.id()), driver.state());
}

}  // namespace
}  // namespace rouse
