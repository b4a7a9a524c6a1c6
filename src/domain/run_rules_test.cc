#include "domain/run_rules.h"

#include <gtest/gtest.h>

#include <array>

#include "domain/fold.h"
#include "testing/session_driver.h"

namespace rouse {
namespace {

using testing::CallSpec;
using testing::reason_of;
using testing::SessionDriver;
using namespace std::chrono_literals;

using Kinds = std::vector<std::string>;

Kinds kinds_of(const Records& records) {
    Kinds kinds;
    for (const RecordBody& body : records)
        kinds.emplace_back(kind_of(body));
    return kinds;
}

// ---- a message: session × on_waiting × on_running (S2-22, S3-41) -----------------------------

enum class Session : std::uint8_t {
    fresh,
    finished,
    interrupted,
    running,
    parked,
    user_input,
    late
};

void bring_to(Session session, SessionDriver& driver) {
    switch (session) {
        case Session::fresh: driver.commit(driver.create()); break;
        case Session::finished:
            driver.begin();
            driver.commit(driver.say(0));
            driver.commit(driver.complete());
            break;
        case Session::interrupted:
            driver.begin();
            driver.commit(driver.restart());
            break;
        case Session::running: driver.begin(); break;
        case Session::parked: driver.begin({CallSpec{}, CallSpec{}}); break;
        case Session::user_input:
            driver.begin();
            driver.commit(driver.park_for_input(1h));
            break;
        case Session::late:
            driver.begin();
            driver.commit(driver.park_for_input(1h));
            driver.clock().advance(1h);
            break;
    }
}

MessageCommand new_message(SessionDriver& driver) {
    MessageCommand command;
    command.message.message_id = MessageId("msg_new");
    command.message.content = text_content("Never mind, do this");
    command.new_run = RunId("run_new");
    command.boot = driver.boot();
    command.now = driver.now();
    return command;
}

// started | resumed | queued, or the refusal.
std::string outcome_of(const Result<MessagePlan>& plan) {
    if (!plan) return std::string(plan.error().reason);
    EXPECT_EQ(plan->started + plan->resumed + plan->queued, 1);
    return plan->started ? "started" : plan->resumed ? "resumed" : "queued";
}

struct MessageCase {
    std::string name;
    Session session;
    // supersede, reject, queue while waiting
    std::array<std::string, 3> when_queueing;  // with on_running: queue
    std::array<std::string, 3> when_busy;      // with on_running: reject
};
void PrintTo(const MessageCase& c, std::ostream* out) {
    *out << c.name;
}
class MessageTest : public ::testing::TestWithParam<MessageCase> {};

TEST_P(MessageTest, StartsResumesQueuesOrIsRefused) {
    constexpr std::array kOnWaiting = {OnWaiting::supersede, OnWaiting::reject, OnWaiting::queue};
    for (const OnRunning on_running : {OnRunning::queue, OnRunning::reject}) {
        for (std::size_t i = 0; i < kOnWaiting.size(); ++i) {
            SessionDriver driver(1);
            bring_to(GetParam().session, driver);
            MessageCommand command = new_message(driver);
            command.on_waiting = kOnWaiting[i];
            command.on_running = on_running;
            const auto& want =
                on_running == OnRunning::queue ? GetParam().when_queueing : GetParam().when_busy;
            EXPECT_EQ(outcome_of(plan_message(driver.state(), command)), want[i]) << i;
        }
    }
}

constexpr std::string_view kSuspended = "input_on_suspended_session";
std::array<std::string, 3> always(std::string_view what) {
    return {std::string(what), std::string(what), std::string(what)};
}

INSTANTIATE_TEST_SUITE_P(
    Table, MessageTest,
    ::testing::Values(
        MessageCase{"Fresh", Session::fresh, always("started"), always("started")},
        MessageCase{"Finished", Session::finished, always("started"), always("started")},
        MessageCase{"Interrupted", Session::interrupted, always("started"), always("started")},
        MessageCase{"Running", Session::running, always("queued"), always("session_busy")},
        MessageCase{"Parked",
                    Session::parked,
                    {"started", std::string(kSuspended), "queued"},
                    {"started", std::string(kSuspended), "queued"}},
        MessageCase{"WaitingForIt", Session::user_input, always("resumed"), always("resumed")},
        MessageCase{"TooLateForIt", Session::late, always("started"), always("started")}),
    [](const auto& test) { return test.param.name; });

// S3-41, S3-49: supersede closes the calls, revokes the token and starts a new run, in one commit.
TEST(RunRulesTest, ANewMessageSupersedesAWait) {
    SessionDriver driver(1);
    driver.begin({CallSpec{}, CallSpec{}});
    const RunId old = driver.state().run->run_id;
    const Result<MessagePlan> plan = plan_message(driver.state(), new_message(driver));
    ASSERT_TRUE(plan);
    EXPECT_EQ(kinds_of(plan->records),
              (Kinds{"pending.cancelled", "pending.cancelled", "token.revoked", "run.cancelled",
                     "message.user", "run.started"}));
    EXPECT_EQ(plan->superseded, (std::vector<PendingId>{driver.pending(0), driver.pending(1)}));
    EXPECT_EQ(std::get<RunCancelled>(plan->records[3]).run_id, old);
    EXPECT_EQ(plan->run_id, RunId("run_new"));
    driver.commit(plan->records);
    EXPECT_EQ(driver.status(), SessionStatus::running);
    EXPECT_EQ(driver.state().run->run_id, RunId("run_new"));
}

TEST(RunRulesTest, OnAUserInputWaitTheMessageIsTheAnswer) {
    SessionDriver driver(1);
    bring_to(Session::user_input, driver);
    const RunId run = driver.state().run->run_id;
    const Result<MessagePlan> plan = plan_message(driver.state(), new_message(driver));
    EXPECT_EQ(kinds_of(plan->records), (Kinds{"message.user", "token.consumed", "run.resumed"}));
    EXPECT_EQ(plan->run_id, run);
    driver.commit(plan->records);
    EXPECT_EQ(driver.state().run->run_id, run);
    EXPECT_EQ(driver.status(), SessionStatus::running);
}

TEST(RunRulesTest, AQueuedMessageLeavesTheRunAndItsWaitAsTheyAre) {
    SessionDriver driver(1);
    driver.begin({CallSpec{}});
    SessionState before = driver.state();
    driver.commit(driver.message(OnWaiting::queue));
    EXPECT_TRUE(std::get<MessageUser>(driver.log().back().body).queued);
    before.last_seq = driver.state().last_seq;
    before.queued = 1;
    EXPECT_EQ(driver.state(), before);
}

TEST(RunRulesTest, WhatWasQueuedIsReadByTheRunThatFollows) {
    SessionDriver driver(1);
    driver.begin({CallSpec{}});
    driver.commit(driver.message(OnWaiting::queue));
    const RunId next("run_next");
    EXPECT_FALSE(plan_next_run(driver.state(), next, driver.boot()));  // not while a run is open
    driver.commit(driver.settle(driver.pending(0), text_result("done")));
    driver.commit(driver.complete());
    const std::optional<RecordBody> started = plan_next_run(driver.state(), next, driver.boot());
    ASSERT_TRUE(started);
    driver.commit(Records{*started});
    EXPECT_EQ(driver.state().queued, 0U);
    EXPECT_EQ(driver.transcript().entries().back().role, Role::user);
    driver.commit(driver.complete());
    EXPECT_FALSE(plan_next_run(driver.state(), next, driver.boot()));
}

// What the parent's calls queue is its own; with a person's message among it the run is not the
// parent's to give up. The chain of causes holds either way.
TEST(RunRulesTest, AQueuedRunBelongsToWhoeverAskedForIt) {
    for (const bool person_too : {false, true}) {
        SessionDriver driver(1);
        driver.begin({CallSpec{}});
        for (const std::uint32_t hops : {3U, 2U}) {
            MessageCommand command = new_message(driver);
            command.on_waiting = OnWaiting::queue;
            const RunId asker("run_parent" + std::to_string(hops));
            command.message.asked_by = AskedBy{asker, CallId{"call_1"}, "chain", hops};
            driver.commit(plan_message(driver.state(), command)->records);
        }
        if (person_too) driver.commit(driver.message(OnWaiting::queue));
        driver.commit(driver.settle(driver.pending(0), text_result("done")));
        driver.commit(driver.complete());
        const auto next = plan_next_run(driver.state(), RunId("run_next"), driver.boot());
        ASSERT_TRUE(next);
        driver.commit(Records{*next});
        const auto& run = *driver.state().run;
        EXPECT_EQ(run.parent_run, person_too ? RunId() : RunId("run_parent2"));
        EXPECT_EQ(run.chain_id, "chain");
        EXPECT_EQ(run.hops, 3U);
        EXPECT_TRUE(driver.state().queued_asks.empty());
    }
}

TEST(RunRulesTest, ARunThatGoesOnBelongsToTheSameOne) {
    SessionDriver driver(1);
    bring_to(Session::interrupted, driver);
    MessageCommand command = new_message(driver);
    command.message.asked_by = AskedBy{RunId("run_parent"), CallId{"call_1"}, "chain", 2};
    driver.commit(plan_message(driver.state(), command)->records);
    EXPECT_EQ(driver.state().run->parent_run, RunId("run_parent"));
    driver.commit(Records{RunInterrupted{driver.state().run->run_id}});
    driver.commit(*plan_continue(driver.state(), RunId("run_next"), driver.boot()));
    EXPECT_EQ(driver.state().run->parent_run, RunId("run_parent"));
    EXPECT_EQ(driver.state().run->hops, 2U);
}

TEST(RunRulesTest, ADeletedSessionTakesNoCommands) {
    SessionDriver driver(1);
    driver.begin({CallSpec{.approval = true}});
    const PendingId call = driver.pending(0);
    const PresentedToken token = driver.tokens().back();
    driver.commit(driver.remove());
    const std::vector<Result<Records>> commands = {
        driver.message(),
        driver.go_on(),
        driver.cancel(CancelMode::discard),
        driver.cancel(CancelMode::acknowledge),
        driver.settle(call, text_result("x")),
        driver.decide(call, Decision{}),
        driver.resume(token, {{CallId{"call_1"}, text_result("x")}}),
        driver.rotate_token(),
        driver.extend(1h),
        driver.claim(call, "w", 1min),
        driver.release(call, "w"),
        driver.update("title"),
        driver.compact(0),
        driver.remove()};
    for (const Result<Records>& command : commands) {
        ASSERT_FALSE(command);
        EXPECT_EQ(command.error().kind, ErrorKind::not_found);
        EXPECT_EQ(reason_of(command), "session_gone");
    }
    EXPECT_TRUE(driver.restart()->empty());
    EXPECT_TRUE(driver.due()->empty());
    EXPECT_TRUE(driver.shut_down()->empty());
}

// ---- the end of a run ------------------------------------------------------------------------

TEST(RunRulesTest, ARunCompletesOnlyWhenEveryCallHasAResult) {
    SessionDriver driver(1);
    driver.begin();
    driver.commit(driver.say(1));
    EXPECT_EQ(reason_of(driver.complete()), "open_calls");
    driver.commit(driver.start_tool(CallId{"call_1"}));
    EXPECT_EQ(reason_of(driver.complete()), "open_calls");
    driver.commit(driver.end_tool(CallId{"call_1"}, text_result("done")));
    EXPECT_EQ(kinds_of(*driver.complete()), Kinds{"run.completed"});
    driver.commit(driver.complete());
    EXPECT_EQ(reason_of(driver.complete()), "not_running");
    EXPECT_EQ(reason_of(driver.fail()), "not_running");
}

// Or its token would stay active behind a run that is over (S3-49, S3-51).
TEST(RunRulesTest, ARunThatWaitsDoesNotComplete) {
    for (const Session session : {Session::parked, Session::user_input}) {
        SessionDriver driver(1);
        bring_to(session, driver);
        EXPECT_EQ(reason_of(driver.complete()), "suspended_session");
    }
}

TEST(RunRulesTest, ARunThatIsNotTheLatestCannotEnd) {
    SessionDriver driver(1);
    driver.begin();
    EXPECT_EQ(reason_of(plan_complete(driver.state(), RunId("run_old"))), "not_running");
    EXPECT_EQ(reason_of(plan_fail(driver.state(), RunId("run_old"), "x", "y")), "not_running");
}

TEST(RunRulesTest, GoingOnIsANewRunThatNamesTheOld) {
    SessionDriver driver(1);
    driver.begin();
    EXPECT_EQ(reason_of(driver.go_on()), "not_interrupted");
    const RunId old = driver.state().run->run_id;
    driver.commit(driver.restart());
    driver.commit(driver.go_on());
    EXPECT_NE(driver.state().run->run_id, old);
    EXPECT_EQ(driver.state().run->continues, old);
    EXPECT_EQ(driver.state().recovery.interruption, std::nullopt);
    EXPECT_EQ(driver.status(), SessionStatus::running);
}

TEST(RunRulesTest, CancelNeedsARun) {
    SessionDriver driver(1);
    bring_to(Session::finished, driver);
    for (const CancelMode mode : {CancelMode::discard, CancelMode::acknowledge}) {
        EXPECT_EQ(reason_of(driver.cancel(mode)), "not_running");
    }
}

TEST(RunRulesTest, DiscardEndsTheRunAndAcknowledgeLetsItAnswerOnce) {
    SessionDriver driver(1);
    driver.begin({CallSpec{}});
    EXPECT_EQ(kinds_of(*driver.cancel(CancelMode::discard)),
              (Kinds{"pending.cancelled", "token.revoked", "run.cancelled"}));
    EXPECT_EQ(kinds_of(*driver.cancel(CancelMode::acknowledge)),
              (Kinds{"pending.cancelled", "token.consumed", "run.resumed"}));
    driver.commit(driver.cancel(CancelMode::acknowledge));
    EXPECT_EQ(driver.status(), SessionStatus::running);
    EXPECT_TRUE(driver.commit(driver.say(0)));
    EXPECT_TRUE(driver.commit(driver.complete()));
}

// It would only wait for the same again.
TEST(RunRulesTest, AcknowledgeEndsAWaitThatHasNoCalls) {
    SessionDriver driver(1);
    driver.begin();
    driver.commit(driver.park_for_input(1h));
    EXPECT_EQ(kinds_of(*driver.cancel(CancelMode::acknowledge)),
              (Kinds{"token.revoked", "run.cancelled"}));
}

// What was approved, or never started, must not run after somebody cancelled.
TEST(RunRulesTest, AcknowledgeLeavesNoCallToRun) {
    SessionDriver driver(1);
    driver.begin();
    driver.commit(driver.say(3));
    driver.commit(driver.park({CallSpec{.approval = true}, CallSpec{}}));
    Decision approve;
    approve.approve = true;
    driver.commit(driver.decide(driver.pending(0), approve));
    driver.commit(driver.cancel(CancelMode::acknowledge));
    for (const TurnCall& call : driver.state().calls) {
        EXPECT_EQ(call.phase, CallPhase::settled) << call.call_id.text;
    }
    EXPECT_TRUE(driver.state().run->resume_unapplied);
}

// ---- whatever ends a turn closes all of its calls ---------------------------------------------

struct EndCase {
    std::string name;
    Result<Records> (*end)(SessionDriver&);
    std::string error;  // what the model is told of the open calls
};
void PrintTo(const EndCase& c, std::ostream* out) {
    *out << c.name;
}
class EndOfTurnTest : public ::testing::TestWithParam<EndCase> {};

// One call of each phase: settled, approved, pending twice, never started.
TEST_P(EndOfTurnTest, GivesEveryOpenCallAnErrorResult) {
    SessionDriver driver(1);
    driver.begin();
    driver.commit(driver.say(5));
    driver.commit(driver.start_tool(CallId{"call_1"}));
    driver.commit(driver.end_tool(CallId{"call_1"}, text_result("kept")));
    driver.commit(driver.park({CallSpec{.approval = true}, CallSpec{}, CallSpec{}}));
    Decision approve;
    approve.approve = true;
    driver.commit(driver.decide(driver.pending(0), approve));
    driver.commit(driver.claim(driver.pending(1), "worker", 5min));
    ASSERT_TRUE(driver.commit(GetParam().end(driver)));

    EXPECT_TRUE(driver.open_calls().empty());
    for (const TranscriptEntry& entry : driver.transcript().entries()) {
        for (const ToolPart& part : entry.parts) {
            const ToolResult want = part.call_id.text == "call_1" ? text_result("kept")
                                                                  : error_result(GetParam().error);
            EXPECT_EQ(part.result, want) << part.call_id.text;
        }
    }
    for (const TurnCall& call : driver.state().calls)
        EXPECT_EQ(call.phase, CallPhase::settled);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, EndOfTurnTest,
    ::testing::Values(EndCase{"Discard",
                              [](SessionDriver& d) { return d.cancel(CancelMode::discard); },
                              "Cancelled by user"},
                      EndCase{"Acknowledge",
                              [](SessionDriver& d) { return d.cancel(CancelMode::acknowledge); },
                              "Cancelled by user"},
                      EndCase{"Supersede", [](SessionDriver& d) { return d.message(); },
                              "Superseded by a new message"},
                      EndCase{"Failure", [](SessionDriver& d) { return d.fail(); },
                              "The run failed: the model is out"},
                      EndCase{"Deletion", [](SessionDriver& d) { return d.remove(); },
                              "The session was deleted"}),
    [](const auto& test) { return test.param.name; });

// A run that died keeps its calls, so that somebody can go on from them; a new message closes them.
TEST(RunRulesTest, AMessageAfterAnInterruptionClosesTheCallsThatDied) {
    SessionDriver driver(1);
    driver.begin();
    driver.commit(driver.say(2));
    driver.commit(driver.start_tool(CallId{"call_1"}));
    driver.commit(driver.restart());
    EXPECT_EQ(driver.state().calls.at(0).phase, CallPhase::started);
    EXPECT_EQ(driver.state().calls.at(1).phase, CallPhase::requested);
    driver.commit(driver.message());
    const std::vector<TranscriptEntry>& entries = driver.transcript().entries();
    for (const ToolPart& part : entries.at(1).parts) {
        EXPECT_EQ(part.result, error_result("interrupted, outcome unknown"));
    }
}

}  // namespace
}  // namespace rouse
