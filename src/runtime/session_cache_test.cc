#include <gtest/gtest.h>

#include "runtime/run_driver.h"
#include "testing/slow_store.h"

namespace rouse {
namespace {

using namespace testing;

class SessionCacheTest : public SlowStoreTest {
 protected:
    // With a conversation of about so many bytes.
    std::shared_ptr<DurableSession> rested(std::size_t bytes) {
        const RunId run = ids_.make<RunId>();
        return made(bytes, {RunStarted{run, boot_, {}, {}}, RunCompleted{run, {}}});
    }
    std::shared_ptr<DurableSession> made(std::size_t bytes, const Records& then) {
        SessionCreated created;
        created.id = ids_.make<SessionId>();
        Records records = {
            created,
            MessageUser{ids_.make<MessageId>(), text_content(std::string(bytes, 'x')), false, {}}};
        records.insert(records.end(), then.begin(), then.end());
        EXPECT_TRUE(inner_.commit_and_wait(make_commit(created.id, Seq{0}, records)));
        auto session = std::make_shared<DurableSession>(nullptr, env_, store_, boot_, created.id);
        EXPECT_TRUE(session->refresh());
        return session;
    }
    SessionId add(std::size_t bytes) {
        std::shared_ptr<DurableSession> session = rested(bytes);
        const SessionId id = session->id();
        cache_.put(std::move(session));
        cache_.weigh(id);
        return id;
    }
    bool has(const SessionId& id) { return cache_.find(id) != nullptr; }

    SessionCache cache_{4, 10'000, 0};
};

TEST_F(SessionCacheTest, AConversationIsWeighedAsItIs) {
    const std::size_t bytes = rested(5000)->conversation_bytes();
    EXPECT_GT(bytes, 5000U);
    EXPECT_LT(bytes, 6000U);
}

TEST_F(SessionCacheTest, ATurnThatIsNotOverIsWeighedToo) {
    EXPECT_GT(made(5000, {})->conversation_bytes(), 5000U);
}

TEST_F(SessionCacheTest, LongOnesMakeTheOldestGo) {
    const SessionId first = add(4000);
    const SessionId second = add(4000);
    EXPECT_TRUE(has(first)) << "and is the latest now";
    const SessionId third = add(4000);
    EXPECT_FALSE(has(second));
    EXPECT_TRUE(has(first));
    EXPECT_TRUE(has(third));
    add(10);
    EXPECT_EQ(cache_.size(), 3U) << "there was room";
}

TEST_F(SessionCacheTest, OneThatIsTooLongByItselfStaysUntilTheNext) {
    const SessionId small = add(10);
    const SessionId large = add(20'000);
    EXPECT_FALSE(has(small));
    EXPECT_TRUE(has(large));
    add(10);
    EXPECT_FALSE(has(large));
}

TEST_F(SessionCacheTest, WhatSomebodyWorksOnStays) {
    const std::shared_ptr<DurableSession> busy = rested(6000);
    cache_.put(busy);
    cache_.weigh(busy->id());
    const SessionId idle = add(100);
    add(6000);
    EXPECT_TRUE(has(busy->id()));
    EXPECT_FALSE(has(idle));
}

TEST_F(SessionCacheTest, ThereIsRoomForSoMany) {
    const SessionId first = add(1);
    for (int i = 0; i < 4; ++i)
        add(1);
    EXPECT_EQ(cache_.size(), 4U);
    EXPECT_FALSE(has(first));
}

TEST_F(SessionCacheTest, AShortOneWhoseRunIsOverGoes) {
    SessionCache picky(4, 10'000, 1000);
    const auto put = [&](const std::shared_ptr<DurableSession>& session) {
        const SessionId id = session->id();
        picky.put(session);
        return id;
    };
    const SessionId brief = put(rested(10));
    const SessionId lengthy = put(rested(2000));
    const RunId run = ids_.make<RunId>();
    const SessionId working = put(made(10, {RunStarted{run, boot_, {}, {}}}));
    const std::shared_ptr<DurableSession> held = rested(10);
    (void)put(held);
    for (const SessionId& id : {brief, lengthy, working, held->id()})
        picky.weigh(id);
    EXPECT_FALSE(picky.find(brief));
    EXPECT_TRUE(picky.find(lengthy));
    EXPECT_TRUE(picky.find(working)) << "its run is not over";
    EXPECT_TRUE(picky.find(held->id())) << "somebody works on it";
}

TEST_F(SessionCacheTest, ThoseThatAreErasedWeighNothing) {
    cache_.erase(add(9000));
    const SessionId first = add(4000);
    add(4000);
    EXPECT_TRUE(has(first));
    cache_.erase_unused();
    EXPECT_EQ(cache_.size(), 0U);
    const SessionId again = add(9000);
    EXPECT_TRUE(has(again));
}

}  // namespace
}  // namespace rouse
