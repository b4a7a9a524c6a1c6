#include "runtime/webhook_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace rouse {
namespace {

using Webhook = WebhookQueue::Webhook;

Timestamp at(std::int64_t seconds) {
    return from_epoch_ms(seconds * 1000);
}

DeliveryRow row(const std::string& id, const std::string& url, const std::string& session) {
    DeliveryRow row;
    row.webhook.delivery_id = id;
    row.webhook.url = url;
    row.webhook.session_id = SessionId(session);
    return row;
}

class WebhookQueueTest : public ::testing::Test {
 protected:
    // All that may go now, which are on their way from then on.
    std::vector<std::string> take_all(std::int64_t now = 0) {
        std::vector<std::string> ids;
        while (std::optional<Webhook> next = queue_.take(at(now))) {
            ids.push_back(next->id);
            taken_.push_back(*std::move(next));
        }
        return ids;
    }
    Webhook taken(const std::string& id) {
        const auto found = std::ranges::find(taken_, id, &Webhook::id);
        EXPECT_NE(found, taken_.end()) << id;
        Webhook webhook = *found;
        taken_.erase(found);
        return webhook;
    }

    using Ids = std::vector<std::string>;
    WebhookQueue queue_{{.at_once = 5, .at_once_each = 2, .waiting_each = 4}};
    std::vector<Webhook> taken_;
};

TEST_F(WebhookQueueTest, FirstAttemptsOfASessionGoOneAfterTheOther) {
    queue_.add(row("a1", "u", "sess_a"));
    queue_.add(row("a2", "u", "sess_a"));
    queue_.add(row("b1", "u", "sess_b"));
    EXPECT_EQ(take_all(), (Ids{"a1", "b1"}));
    queue_.done(taken("b1"));
    EXPECT_EQ(take_all(), Ids{});
    queue_.done(taken("a1"));
    EXPECT_EQ(take_all(), Ids{"a2"});
}

TEST_F(WebhookQueueTest, TwoEndpointsHearOfASessionSideBySide) {
    queue_.add(row("a1", "u", "sess_a"));
    queue_.add(row("a1'", "v", "sess_a"));
    EXPECT_EQ(take_all(), (Ids{"a1", "a1'"}));
}

TEST_F(WebhookQueueTest, AnEndpointThatDoesNotAnswerHoldsNobodyElseUp) {
    for (const char* id : {"1", "2", "3", "4"})
        EXPECT_TRUE(queue_.add(row(id, "dead", std::string("sess_") + id)));
    EXPECT_EQ(take_all(), (Ids{"1", "2"}));
    queue_.add(row("5", "good", "sess_1"));
    EXPECT_EQ(take_all(), Ids{"5"});
    queue_.done(taken("5"));
    queue_.add(row("6", "good", "sess_1"));
    EXPECT_EQ(take_all(), Ids{"6"});
}

TEST_F(WebhookQueueTest, EndpointsTakeTurns) {
    for (const char* url : {"u", "v", "w"}) {
        for (const char* session : {"sess_a", "sess_b", "sess_c"})
            queue_.add(row(std::string(url) + session, url, session));
    }
    EXPECT_EQ(take_all(), (Ids{"usess_a", "vsess_a", "wsess_a", "usess_b", "vsess_b"}));
    queue_.done(taken("usess_a"));
    EXPECT_EQ(take_all(), Ids{"wsess_b"});
}

TEST_F(WebhookQueueTest, AFailedOneIsTriedAgainOnItsOwn) {
    queue_.add(row("a1", "u", "sess_a"));
    queue_.add(row("a2", "u", "sess_a"));
    EXPECT_EQ(take_all(), Ids{"a1"});
    const Webhook failed = taken("a1");
    queue_.add_again(failed, at(10));
    queue_.done(failed);
    EXPECT_EQ(queue_.next_due(), at(10));
    EXPECT_EQ(take_all(9), Ids{"a2"});
    EXPECT_EQ(take_all(10), Ids{"a1"});
    EXPECT_EQ(queue_.next_due(), std::nullopt);
    queue_.done(taken("a1"));
    queue_.done(taken("a2"));
    EXPECT_EQ(take_all(99), Ids{});
}

TEST_F(WebhookQueueTest, WhatAnEarlierProcessTriedIsDueAtItsTime) {
    DeliveryRow tried = row("a1", "u", "sess_a");
    tried.attempts = 2;
    tried.next_at = at(30);
    queue_.add(tried);
    queue_.add(row("a2", "u", "sess_a"));
    EXPECT_EQ(take_all(29), Ids{"a2"});
    EXPECT_EQ(take_all(30), Ids{"a1"});
}

TEST_F(WebhookQueueTest, OnlySoManyWaitForAnEndpoint) {
    int taken = 0;
    for (int i = 0; i < 10; ++i)
        taken += queue_.add(row(std::to_string(i), "u", "sess_" + std::to_string(i))) ? 1 : 0;
    EXPECT_EQ(taken, 4);
    EXPECT_TRUE(queue_.add(row("other", "v", "sess_a")));
    EXPECT_EQ(take_all().size(), 3U);
    EXPECT_TRUE(queue_.add(row("room", "u", "sess_r")));
}

TEST_F(WebhookQueueTest, WhatWaitsForAnotherAttemptTakesNoPlaceOfNewOnes) {
    for (int i = 0; i < 20; ++i) {
        const std::string id = std::to_string(i);
        ASSERT_TRUE(queue_.add(row(id, "u", "sess_" + id)));
        ASSERT_EQ(take_all(), Ids{id});
        const Webhook failed = taken(id);
        EXPECT_EQ(queue_.too_many_failed("u"), i >= 4) << i;
        queue_.add_again(failed, at(100));
        queue_.done(failed);
    }
    EXPECT_TRUE(queue_.add(row("new", "u", "sess_new")));
    EXPECT_EQ(take_all(), Ids{"new"});
    EXPECT_FALSE(queue_.too_many_failed("v"));
}

TEST_F(WebhookQueueTest, ThoseThatFailedAndNewOnesTakeTurns) {
    for (const char* id : {"1", "2"}) {
        DeliveryRow tried = row(id, "u", "sess_t");
        tried.attempts = 1;
        tried.next_at = at(5);
        queue_.add(tried);
    }
    for (const char* id : {"a", "b", "c", "d"})
        queue_.add(row(id, "u", std::string("sess_") + id));
    Ids order;
    for (int i = 0; i < 3; ++i) {
        for (const std::string& id : take_all(5))
            order.push_back(id);
        while (!taken_.empty())
            queue_.done(taken(taken_.front().id));
    }
    EXPECT_EQ(order, (Ids{"a", "1", "b", "2", "c", "d"}));
}

TEST_F(WebhookQueueTest, WhatAnEarlierProcessHadTakenIsTaken) {
    for (int i = 0; i < 10; ++i) {
        EXPECT_TRUE(queue_.add(row(std::to_string(i), "u", "sess_" + std::to_string(i)),
                               WebhookQueue::From::earlier));
    }
    EXPECT_FALSE(queue_.add(row("new", "u", "sess_new")));
}

}  // namespace
}  // namespace rouse
