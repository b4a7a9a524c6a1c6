// A run that begins while the records that began it are on their way to the disk, and ends while
// its last ones are: it works on, and nothing of it leaves the process before they have arrived.

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>

#include "agent/durable_session.h"
#include "agent/store_async.h"
#include "base/limits.h"
#include "testing/agent_kit.h"
#include "testing/slow_store.h"

namespace rouse {
namespace {

using namespace testing;

class AheadTest : public SlowStoreTest {
 protected:
    // A session with a message, its first commit on its way; the agent works on it.
    void begin(AgentOptions options) {
        agent_ = std::make_unique<Agent>(std::move(options));
        SessionCreated created;
        created.id = ids_.make<SessionId>();
        const RunId run = ids_.make<RunId>();
        const Records records = {created,
                                 MessageUser{ids_.make<MessageId>(), text_content("Go"), false, {}},
                                 RunStarted{run, boot_, {}, {}}};
        session_ = std::make_shared<DurableSession>(nullptr, env_, store_, boot_, created.id);
        auto under_way =
            start_commit(*store_, make_commit(created.id, Seq{0}, records), loop_.get_executor());
        ASSERT_FALSE(under_way->refused());
        session_->take_over(1, records);
        session_->go_ahead_of(std::move(under_way));
        if (ends_ahead_) session_->end_ahead_on(loop_.get_executor());
        AgentRequest request;
        request.session = session_;
        request.go_on = true;
        request.stop = stop_.get_token();
        boost::asio::co_spawn(loop_, agent_->respond(std::move(request)),
                              [this](const std::exception_ptr& thrown, TurnResult result) {
                                  if (thrown) std::rethrow_exception(thrown);
                                  result_ = std::move(result);
                              });
        work();
    }

    std::unique_ptr<Agent> agent_;
    std::shared_ptr<DurableSession> session_;
    std::stop_source stop_;
    bool ends_ahead_ = false;
    std::optional<TurnResult> result_;
};

TEST_F(AheadTest, WhatReachesNobodyGoesOnAndFollowsToTheDisk) {
    const auto model = std::make_shared<ScriptedModel>(std::vector{says("hello")});
    begin({.model = model});
    EXPECT_EQ(store_->waiting(), 2U) << "the beginning of the run, and its end";
    EXPECT_FALSE(session_->is_on_disk());
    let_go();
    EXPECT_TRUE(session_->is_on_disk());
    EXPECT_FALSE(result_) << "told before it is durable";
    let_go();
    ASSERT_TRUE(result_ && *result_) << (result_ ? result_->error().message : "nothing");
    EXPECT_EQ(outline(history_of(*session_)), "u:Go | a:hello");
    EXPECT_TRUE(session_->refresh()) << "the log is what it thinks it is";
    EXPECT_EQ(*inner_.last_seq(session_->id()), session_->state().last_seq);
}

TEST_F(AheadTest, AModelOutsideIsNotAskedBefore) {  // P1, W2
    const auto model = playing({says("hello")});
    begin({.model = model});
    EXPECT_TRUE(model->requests.empty());
    EXPECT_EQ(store_->waiting(), 1U);
    let_go();
    EXPECT_EQ(model->requests.size(), 1U);
    let_go();
    ASSERT_TRUE(result_ && *result_);
}

TEST_F(AheadTest, AToolThatMayRunAgainIsNotCalledBefore) {  // P1, W2
    const auto model =
        std::make_shared<ScriptedModel>(std::vector{calls({{"c1", "look"}}), says("seen")});
    ToolAnnotations harmless;
    harmless.idempotent = true;
    const Counted look = answering("look", "a tree", harmless);
    begin({.model = model, .tools = {look.tool}});
    EXPECT_EQ(store_->waiting(), 2U) << "the beginning of the run, and the message that calls";
    let_go();
    EXPECT_EQ(*look.calls, 0);
    let_go();
    EXPECT_EQ(*look.calls, 1);
    while (store_->waiting() > 0)
        let_go();
    ASSERT_TRUE(result_ && *result_);
    EXPECT_EQ(outline(history_of(*session_)), "u:Go | a:look#c1 | u:c1=a tree | a:seen");
}

// A step that a crash takes back is paid twice, and what it did outside is done under another id.
TEST_F(AheadTest, AnotherStepOutsideBeginsOnceTheLogHasTheOneBefore) {
    const auto model = playing({calls({{"c1", "look"}}), says("seen")});
    const Counted look = answering("look", "a tree", {.read_only = true});
    begin({.model = model, .tools = {look.tool}});
    let_go();
    EXPECT_EQ(model->requests.size(), 1U);
    EXPECT_EQ(*look.calls, 0) << "called by a message that is in no log";
    let_go();
    EXPECT_EQ(*look.calls, 1);
    EXPECT_EQ(model->requests.size(), 1U) << "asked again for a result that is in no log";
    let_go();
    EXPECT_EQ(model->requests.size(), 2U);
    let_go();
    ASSERT_TRUE(result_ && *result_);
    EXPECT_EQ(outline(history_of(*session_)), "u:Go | a:look#c1 | u:c1=a tree | a:seen");
}

TEST_F(AheadTest, ManyLargeResultsAreNotKeptForOneCommit) {
    const std::string large(limits::kKeptResultBytes, 'x');
    for (const auto& [answer, commits] : {std::pair(std::string("small"), 3), {large, 5}}) {
        const Counted look = answering("look", answer, {.read_only = true});
        result_.reset();
        begin({.model = std::make_shared<ScriptedModel>(
                   std::vector{calls({{"c1", "look"}, {"c2", "look"}}), says("seen")}),
               .tools = {look.tool}});
        int let = 0;
        for (; store_->waiting() > 0; ++let)
            let_go();
        ASSERT_TRUE(result_ && *result_);
        EXPECT_EQ(let, commits) << answer.size();
    }
}

TEST_F(AheadTest, WhatStandsInLineBehindAWriteThatFailedFailsWithIt) {
    const Counted look =
        answering("look", std::string(limits::kKeptResultBytes, 'x'), {.read_only = true});
    begin({.model = std::make_shared<ScriptedModel>(
               std::vector{calls({{"c1", "look"}, {"c2", "look"}}), says("seen")}),
           .tools = {look.tool}});
    let_go();  // the beginning of the run
    let_go();  // the message that calls
    ASSERT_EQ(store_->waiting(), 1U) << "the first result; the other one stands in line";
    store_->lose();
    work();
    while (store_->waiting() > 0)
        let_go();
    ASSERT_TRUE(result_ && !*result_);
    EXPECT_EQ(result_->error().reason, "store_failed");
    const auto log = read_records(inner_, session_->id());
    ASSERT_TRUE(log);
    for (const Record& record : *log)
        EXPECT_FALSE(std::holds_alternative<ToolCompleted>(record.body)) << record.seq;
}

TEST_F(AheadTest, EverybodyInLineHearsThatTheRunWasEnded) {
    const Counted look =
        answering("look", std::string(limits::kKeptResultBytes, 'x'), {.read_only = true});
    begin({.model = std::make_shared<ScriptedModel>(
               std::vector{calls({{"c1", "look"}, {"c2", "look"}, {"c3", "look"}}), says("seen")}),
           .tools = {look.tool}});
    let_go();  // the beginning of the run
    let_go();  // the message that calls
    ASSERT_EQ(store_->waiting(), 1U) << "the first result; the others stand in line";
    const RunCancelled ended{session_->state().run->run_id, {}, {}};
    ASSERT_TRUE(inner_.commit_and_wait(make_commit(session_->id(), std::nullopt, {ended})));
    let_go();
    while (!result_ && loop_.run_one_for(std::chrono::seconds(5)) > 0) {
    }
    ASSERT_TRUE(result_ && !*result_) << "somebody still waits";
    EXPECT_EQ(result_->error().reason, "run_ended");
}

// Whatever made it plan again.
class PlanAgainTest : public AheadTest, public ::testing::WithParamInterface<Error> {};

INSTANTIATE_TEST_SUITE_P(
    Reasons, PlanAgainTest,
    ::testing::Values(Error(ErrorKind::conflict, "log_moved", "somebody else wrote"),
                      Error(ErrorKind::not_found, "session_gone", "whom it writes to was deleted")),
    [](const auto& one) { return std::string(one.param.reason); });

TEST_P(PlanAgainTest, OneThatHasToPlanAgainWaitsForWhatItBeganWith) {
    store_->refused_at = 2;
    store_->refusal = GetParam();
    const auto model = std::make_shared<ScriptedModel>(std::vector{says("hello")});
    begin({.model = model});
    loop_.restart();
    loop_.run_one();  // the pause before it reads the log again
    work();
    EXPECT_FALSE(result_) << "the log does not have the run yet";
    let_go();
    ASSERT_EQ(store_->waiting(), 1U);
    let_go();
    ASSERT_TRUE(result_ && *result_) << (result_ ? result_->error().message : "nothing");
    EXPECT_EQ(outline(history_of(*session_)), "u:Go | a:hello");
}

TEST_F(AheadTest, WhoeverIsCancelledInTheLineOfWritersLeavesIt) {
    const auto model = std::make_shared<ScriptedModel>(
        std::vector{calls({{"c1", "one"}, {"c2", "two"}}), says("done")});
    const Counted one = answering("one", "1");
    const Counted two = answering("two", "2");
    begin({.model = model, .tools = {one.tool, two.tool}});
    let_go();  // the run
    let_go();  // both calls are about to start
    ASSERT_EQ(*one.calls + *two.calls, 2);
    ASSERT_EQ(store_->waiting(), 1U) << "one result on its way, the other behind it";
    stop_.request_stop();
    work();
    while (store_->waiting() > 0)
        let_go();
    ASSERT_TRUE(result_);
    ASSERT_FALSE(*result_);
    EXPECT_EQ(result_->error().kind, ErrorKind::cancelled);
    EXPECT_TRUE(session_->refresh());
}

// After so many steps of the loop; the log says the same as the session, whenever it came.
class CancelledAtTest : public AheadTest, public ::testing::WithParamInterface<int> {};

INSTANTIATE_TEST_SUITE_P(Steps, CancelledAtTest, ::testing::Range(0, 40));

TEST_P(CancelledAtTest, WhatTheSessionKnowsIsInTheLog) {
    const auto model = std::make_shared<ScriptedModel>(
        std::vector{calls({{"c1", "one"}, {"c2", "two"}}), says("done")});
    begin({.model = model, .tools = {answering("one", "1").tool, answering("two", "2").tool}});
    let_go();
    let_go();
    int steps = 0;
    while (!result_ && steps < 400) {
        if (steps++ == GetParam()) stop_.request_stop();
        loop_.restart();
        if (loop_.poll_one() == 0 && store_->waiting() > 0) store_->let_go();
    }
    ASSERT_TRUE(result_) << "hangs";
    const SessionState known = session_->state();
    ASSERT_TRUE(session_->refresh());
    const SessionState& logged = **inner_.load(session_->id());
    EXPECT_EQ(session_->state(), logged);
    EXPECT_EQ(known.last_seq, logged.last_seq);
    EXPECT_FALSE(logged.run_is_open()) << "what was cancelled says so, what was done is done";
}

TEST_F(AheadTest, WhatIsLostWhileTheModelThinksIsKnownBeforeAToolIsCalled) {  // P1, W2
    ScriptEntry slow = calls({{"c1", "look"}});
    slow.delay_ms = 1;
    ToolAnnotations harmless;
    harmless.idempotent = true;
    const Counted look = answering("look", "a tree", harmless);
    begin({.model = std::make_shared<ScriptedModel>(std::vector{slow, says("seen")}),
           .tools = {look.tool}});
    store_->lose();
    while (!result_) {
        loop_.restart();
        loop_.run_one();
    }
    ASSERT_FALSE(*result_);
    EXPECT_EQ(result_->error().reason, "store_failed");
    EXPECT_EQ(*look.calls, 0) << "called for a run that is in no log";
}

// Somebody drives the turn and waits for the disk in its place.
class EndAheadTest : public AheadTest {
 protected:
    EndAheadTest() { ends_ahead_ = true; }

    void wait_for_disk() {
        auto waiting = [](DurableSession& session) { return session.reach_disk(); };
        boost::asio::co_spawn(
            loop_, waiting(*session_),
            [this](const std::exception_ptr&, const Result<void>& reached) { reached_ = reached; });
        work();
    }

    std::optional<Result<void>> reached_;
};

TEST_F(EndAheadTest, ATurnIsOverBeforeItsLastCommitIsDurable) {
    begin({.model = std::make_shared<ScriptedModel>(std::vector{says("hello")})});
    ASSERT_TRUE(result_ && *result_) << (result_ ? result_->error().message : "hangs");
    EXPECT_EQ(store_->waiting(), 2U);
    EXPECT_FALSE(session_->is_on_disk());
    wait_for_disk();
    let_go();
    EXPECT_FALSE(reached_) << "only its beginning is durable";
    let_go();
    ASSERT_TRUE(reached_ && *reached_);
    EXPECT_TRUE(session_->is_on_disk());
    EXPECT_TRUE(session_->refresh());
    EXPECT_EQ(*inner_.last_seq(session_->id()), session_->state().last_seq);
    EXPECT_EQ(outline(history_of(*session_)), "u:Go | a:hello");
}

TEST_F(EndAheadTest, OneThatParksIsOverToo) {
    const auto model = std::make_shared<ScriptedModel>(std::vector{calls({{"c1", "ask"}})});
    begin({.model = model, .tools = {suspending("ask").tool}});
    while (!result_ && store_->waiting() > 0)
        let_go();  // the run, and that the call is about to start
    ASSERT_TRUE(result_ && *result_) << (result_ ? result_->error().message : "hangs");
    EXPECT_EQ((*result_)->status, ResponseStatus::suspended);
    ASSERT_EQ(store_->waiting(), 1U) << "told what is not durable";
    wait_for_disk();
    EXPECT_FALSE(reached_);
    let_go();
    ASSERT_TRUE(reached_ && *reached_);
    EXPECT_TRUE((*inner_.load(session_->id()))->is_parked());
}

TEST_F(EndAheadTest, WhoeverWaitsIsToldThatItsEndWasLost) {
    begin({.model = std::make_shared<ScriptedModel>(std::vector{says("hello")})});
    ASSERT_TRUE(result_ && *result_);
    wait_for_disk();
    let_go();
    store_->lose();
    work();
    ASSERT_TRUE(reached_);
    ASSERT_FALSE(*reached_);
    EXPECT_EQ(reached_->error().reason, "store_failed");
    ASSERT_TRUE(session_->refresh());
    EXPECT_TRUE(session_->state().run_is_open()) << "it believes the log again";
}

TEST_F(EndAheadTest, WhoeverAsksAfterwardsIsToldTheSame) {
    begin({.model = std::make_shared<ScriptedModel>(std::vector{says("hello")})});
    let_go();
    store_->lose();
    work();
    for (int times = 0; times < 2; ++times) {
        wait_for_disk();
        ASSERT_TRUE(reached_);
        ASSERT_FALSE(*reached_) << "an end that is lost is forgotten";
        EXPECT_EQ(reached_->error().reason, "store_failed");
    }
    ASSERT_TRUE(session_->refresh());
    wait_for_disk();
    EXPECT_TRUE(*reached_) << "it has read the log since";
}

TEST_F(EndAheadTest, WhatTheStoreRefusesIsPlannedAgainWithinTheTurn) {
    store_->refused_at = 2;
    begin({.model = std::make_shared<ScriptedModel>(std::vector{says("hello")})});
    loop_.restart();
    loop_.run_one();  // the pause before it reads the log again
    work();
    EXPECT_FALSE(result_) << "the log does not have the run yet";
    let_go();
    ASSERT_TRUE(result_ && *result_) << (result_ ? result_->error().message : "nothing");
    wait_for_disk();
    EXPECT_FALSE(reached_);
    let_go();
    ASSERT_TRUE(reached_ && *reached_);
    EXPECT_EQ(outline(history_of(*session_)), "u:Go | a:hello");
}

TEST_F(AheadTest, WhatIsLostTakesTheRunWithIt) {
    const auto model = playing({says("hello")});
    begin({.model = model});
    store_->lose();
    work();
    ASSERT_TRUE(result_);
    ASSERT_FALSE(*result_);
    EXPECT_EQ(result_->error().reason, "store_failed");
    EXPECT_TRUE(model->requests.empty());
    EXPECT_EQ(session_->refresh().error().reason, "unknown_session") << "it believes the log again";
}

}  // namespace
}  // namespace rouse
