#include "runtime/wait_graph.h"

#include <gtest/gtest.h>

#include "base/id_source.h"
#include "domain/child.h"
#include "domain/mail.h"
#include "store/memory/memory_store.h"
#include "testing/manual_clock.h"
#include "testing/seeded_random.h"

namespace rouse {
namespace {

using namespace testing;

// Sessions that run, and what they come to wait for.
class WaitGraphTest : public ::testing::Test {
 protected:
    SessionId session() {
        SessionCreated created;
        created.id = ids_.make<SessionId>();
        write(created.id, {created, RunStarted{run_, BootId("boot_1"), {}, {}}});
        return created.id;
    }
    void write(const SessionId& id, Records records) {
        ASSERT_TRUE(store_.commit_and_wait(make_commit(id, std::nullopt, std::move(records))));
    }
    Seq last(const SessionId& id) { return (*store_.load(id))->last_seq; }
    Records call(const SessionId& of, WaitsFor waits_for, RawJson metadata) {
        PendingCreated pending;
        pending.pending_id = make_pending_id(of, ids_.random_text(20));
        pending.run_id = run_;
        pending.call_id = {"call_1"};
        pending.waits_for = waits_for;
        pending.metadata = std::move(metadata);
        return {pending};
    }
    Records question(const SessionId& of, const SessionId& to) {
        Letter letter;
        letter.message_id = ids_.make<MessageId>();
        letter.to = {{to, "other"}};
        letter.asks = true;
        return call(of, WaitsFor::message, letter_metadata(letter));
    }

    ManualClock clock_;
    testing::SeededRandom random_{1};
    IdSource ids_{clock_, random_};
    RunId run_{"run_1"};
    MemoryStore store_{clock_};
    WaitGraph graph_{store_};
};

TEST_F(WaitGraphTest, FollowsQuestionsAndChildren) {
    const SessionId a = session();
    const SessionId b = session();
    const SessionId c = session();
    write(a, question(a, b));
    write(b, call(b, WaitsFor::child, wish_metadata({c, "agent", "work"})));
    EXPECT_TRUE(graph_.leads(a, c));
    EXPECT_FALSE(graph_.leads(c, a));
    EXPECT_FALSE(graph_.leads(b, a));
}

// Four that ask one another at once: the first two questions share no session, nor do the others,
// so that all of them could be committed together.
TEST_F(WaitGraphTest, WhatIsOnItsWayToTheDiskCounts) {
    const SessionId a = session();
    const SessionId b = session();
    const SessionId c = session();
    const SessionId d = session();
    graph_.begin(a, last(a), b);
    graph_.begin(c, last(c), d);
    EXPECT_FALSE(graph_.leads(c, b));
    graph_.begin(b, last(b), c);
    EXPECT_TRUE(graph_.leads(a, d)) << "d would close the circle";
}

TEST_F(WaitGraphTest, WhatDidNotComeToItIsForgottenWhenTheLogGoesOn) {
    const SessionId a = session();
    const SessionId b = session();
    graph_.begin(a, last(a), b);
    EXPECT_TRUE(graph_.leads(a, b));
    write(a, {RunFailed{run_, "store_failed", {}}});
    EXPECT_FALSE(graph_.leads(a, b));
}

TEST_F(WaitGraphTest, WhatIsDurableIsLookedUpInTheStore) {
    const SessionId a = session();
    const SessionId b = session();
    const SessionId c = session();
    const Seq before = last(a);
    graph_.begin(a, before, b);
    graph_.begin(a, before + 1, c);
    graph_.durable(a, before);
    EXPECT_FALSE(graph_.leads(a, b));
    EXPECT_TRUE(graph_.leads(a, c)) << "this one is still on its way";
}

}  // namespace
}  // namespace rouse
