#include "agent/store_async.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/strand.hpp>

#include "store/files/file_store.h"
#include "testing/crashing_fs.h"
#include "testing/slow_store.h"

namespace rouse {
namespace {

namespace asio = boost::asio;
using namespace testing;

class StoreAsyncTest : public SlowStoreTest {
 protected:
    Commit a_session() {
        SessionCreated created;
        created.id = ids_.make<SessionId>();
        return make_commit(created.id, Seq{0}, {created});
    }
    // Holds `token` as long as it waits.
    Task<void> wait_with(std::shared_ptr<int> token, Commit commit) {
        (void)co_await commit_async(*store_, std::move(commit));
        ++*token;
    }
};

TEST_F(StoreAsyncTest, WhoWaitsGoesWithTheLoopThoughTheStoreIsNotDone) {
    const auto token = std::make_shared<int>(0);
    for (int i = 0; i < 3; ++i)
        asio::co_spawn(loop_, wait_with(token, a_session()), asio::detached);
    work();
    let_go();
    EXPECT_EQ(*token, 1);
    store_->let_go();  // answered, and not taken
    {
        auto gone = std::make_unique<asio::io_context>(1);
        for (int i = 0; i < 3; ++i)
            asio::co_spawn(*gone, wait_with(token, a_session()), asio::detached);
        asio::co_spawn(asio::make_strand(*gone), wait_with(token, a_session()), asio::detached);
        gone->poll();
        ASSERT_EQ(store_->waiting(), 5U);
        store_->let_go();  // of the first loop
        store_->let_go();
        EXPECT_EQ(token.use_count(), 7);
    }
    EXPECT_EQ(token.use_count(), 3) << "the first loop's two alone";
    while (store_->waiting() > 0)
        store_->let_go();
    work();
    EXPECT_EQ(*token, 3);
    EXPECT_EQ(token.use_count(), 1);
}

TEST_F(StoreAsyncTest, ALoopMayGoWhileTheStoresThreadAnswers) {
    CrashingFs disk;
    const Env env{clock_, random_, disk, log_};
    Result<std::unique_ptr<FileStore>> store = FileStore::open(env, "/data");
    ASSERT_TRUE(store);
    const auto token = std::make_shared<int>(0);
    const auto wait = [&](Commit commit) -> Task<void> {
        const std::shared_ptr<int> held = token;
        (void)co_await commit_async(**store, std::move(commit));
    };
    for (int i = 0; i < 300; ++i) {
        asio::io_context loop(1);
        for (int n = 0; n < 8; ++n)
            asio::co_spawn(loop, wait(a_session()), asio::detached);
        loop.poll();
    }
    EXPECT_EQ(token.use_count(), 1);
    EXPECT_TRUE((*store)->close());
}

}  // namespace
}  // namespace rouse
