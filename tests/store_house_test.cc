// What is committed while the house writes: the store is a real one with threads, the disk is not.

#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "base/id_source.h"
#include "domain/session_rules.h"
#include "store/files/file_store.h"
#include "store/files/verify.h"
#include "testing/crashing_fs.h"
#include "testing/forwarding_fs.h"
#include "testing/store_workload.h"

namespace rouse {
namespace {

using testing::CrashingFs;
using testing::kStoreDirectory;

// Calls, once, before the thread that asked for it writes to a session's file.
class CallingFs final : public testing::ForwardingFs {
 public:
    using ForwardingFs::ForwardingFs;

    void before_next_write(std::function<void()> call) {
        const std::lock_guard lock(mutex_);
        call_ = std::move(call);
        thread_ = std::this_thread::get_id();
    }
    bool has_called() {
        const std::lock_guard lock(mutex_);
        return !call_;
    }

    Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
        if (mode != OpenMode::read && path.contains("/sess_")) call();
        return ForwardingFs::open(path, mode);
    }

 private:
    void call() {
        std::function<void()> call;
        {
            const std::lock_guard lock(mutex_);
            if (thread_ == std::this_thread::get_id()) call = std::exchange(call_, nullptr);
        }
        if (call) call();
    }

    std::mutex mutex_;
    std::function<void()> call_;
    std::thread::id thread_;
};

class StoreHouseTest : public ::testing::Test {
 protected:
    static constexpr std::size_t kSessions = 100;  // in several portions

    StoreHouseTest() {
        Result<std::unique_ptr<FileStore>> opened = FileStore::open(env_, kStoreDirectory);
        EXPECT_TRUE(opened);
        store_ = *std::move(opened);
        for (std::size_t i = 0; i < kSessions; ++i) {
            SessionCreated created;
            created.id = ids_.make<SessionId>();
            commit(created.id, {created});
            sessions_.push_back(created.id);
        }
    }

    void commit(const SessionId& id, Records records) {
        EXPECT_TRUE(store_->commit_and_wait(make_commit(id, std::nullopt, std::move(records))));
    }
    void remove(const SessionId& id) { commit(id, plan_delete(**store_->load(id))->session); }
    void say(const SessionId& id) {
        commit(id,
               {MessageUser{ids_.make<MessageId>(), text_content("one more thing"), false, {}}});
    }

    // The disk as it is now, opened after a crash.
    std::unique_ptr<FileStore> crash_and_open() {
        crashed_ = disk_.copy();
        Result<std::unique_ptr<FileStore>> opened = FileStore::open(
            {clock_, random_, *crashed_, log_}, kStoreDirectory, testing::tiny_store_options());
        EXPECT_TRUE(opened) << (opened ? "" : opened.error().message);
        return *std::move(opened);
    }

    bool verified_clean() {
        const Result<VerifyReport> report =
            verify({clock_, random_, *crashed_, log_}, kStoreDirectory, VerifyMode::look);
        return report && report->clean();
    }

    SystemClock clock_;
    SystemRandom random_;
    Logger log_{LogLevel::off};
    IdSource ids_{clock_, random_};
    CrashingFs disk_;
    CallingFs fs_{disk_};
    Env env_{clock_, random_, fs_, log_};
    std::unique_ptr<FileStore> store_;
    std::vector<SessionId> sessions_;
    std::unique_ptr<CrashingFs> crashed_;
};

// The index that is being written knows them; the journal knows that they are gone.
TEST_F(StoreHouseTest, WhatIsDeletedWhileACheckpointWritesIsGoneAndNoDamage) {
    ASSERT_TRUE(store_->checkpoint());
    for (const SessionId& id : sessions_)
        say(id);
    constexpr std::size_t kDeleted = 60;
    fs_.before_next_write([this] {
        for (std::size_t i = 0; i < kDeleted; ++i)
            remove(sessions_[i]);
    });
    ASSERT_TRUE(store_->checkpoint());
    ASSERT_TRUE(fs_.has_called()) << "nothing was deleted";

    const auto after = crash_and_open();
    EXPECT_TRUE(after->health().damaged.empty());
    for (std::size_t i = 0; i < kSessions; ++i) {
        const auto state = after->load(sessions_[i]);
        if (i < kDeleted) {
            EXPECT_EQ(state.error().reason, "session_gone");
        } else {
            EXPECT_EQ((*state)->last_seq, 2U);
        }
    }
    EXPECT_TRUE(after->close());
    EXPECT_TRUE(verified_clean());
}

TEST_F(StoreHouseTest, WhatIsCommittedWhileACheckpointWritesIsThereAfterACrash) {
    for (const bool first : {true, false}) {
        fs_.before_next_write([this] {
            for (const SessionId& id : sessions_)
                say(id);
        });
        for (std::size_t i = 0; i < kSessions; i += 2)
            say(sessions_[i]);
        ASSERT_TRUE(store_->checkpoint());
        ASSERT_TRUE(fs_.has_called());
        const auto after = crash_and_open();
        EXPECT_TRUE(after->health().damaged.empty());
        for (std::size_t i = 0; i < kSessions; ++i) {
            const Seq each = i % 2 == 0 ? 2 : 1;
            EXPECT_EQ((*after->load(sessions_[i]))->last_seq, 1 + each * (first ? 1 : 2));
        }
        EXPECT_TRUE(after->close());
        EXPECT_TRUE(verified_clean());
    }
}

}  // namespace
}  // namespace rouse
