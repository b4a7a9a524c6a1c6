#include "runtime/work_loop.h"

#include <gtest/gtest.h>

#include <boost/asio/post.hpp>
#include <functional>

#include "base/clock.h"
#include "store/memory/memory_store.h"
#include "testing/forwarding_store.h"

namespace rouse {
namespace {

namespace asio = boost::asio;

class WatchedStore final : public testing::ForwardingStore {
 public:
    using ForwardingStore::ForwardingStore;
    bool is_held() const { return held_; }
    int times_let_go() const { return let_go_; }

 private:
    void hold() override { held_ = true; }
    void release(Writer /*writer*/) override {
        held_ = false;
        ++let_go_;
    }

    bool held_ = false;
    int let_go_ = 0;
};

class WorkLoopTest : public ::testing::Test {
 protected:
    SystemClock clock_;
    MemoryStore inner_{clock_};
    WatchedStore store_{inner_};
    asio::io_context loop_;
};

TEST_F(WorkLoopTest, HoldsTheStoreForThoseWhoStandInLine) {
    int ran = 0;
    const auto look = [&] {
        EXPECT_TRUE(store_.is_held());
        EXPECT_EQ(store_.times_let_go(), 0);
        ++ran;
    };
    asio::post(loop_, look);
    asio::post(loop_, look);
    run_together(loop_, store_);
    EXPECT_EQ(ran, 2);
    EXPECT_FALSE(store_.is_held());
}

TEST_F(WorkLoopTest, LetsGoInBetweenHoweverLongTheLineIs) {
    std::function<void()> again = [&] {
        if (store_.times_let_go() < 3) asio::post(loop_, again);
    };
    asio::post(loop_, again);
    run_together(loop_, store_);
    EXPECT_FALSE(store_.is_held());
}

}  // namespace
}  // namespace rouse
