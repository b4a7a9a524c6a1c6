// Waits and time: what is due when, extension, and the leases of workers.

#include <gtest/gtest.h>

#include "domain/summary.h"
#include "domain/wait_rules.h"
#include "testing/session_driver.h"

namespace rouse {
namespace {

using testing::CallSpec;
using testing::SessionDriver;
using namespace std::chrono_literals;

using Kinds = std::vector<std::string>;

Kinds kinds_of(const Result<Records>& records) {
    Kinds kinds;
    if (!records) return {std::string(records.error().reason)};
    for (const RecordBody& body : *records)
        kinds.emplace_back(kind_of(body));
    return kinds;
}

// ---- due (S0-65, S0-79, S0-80, S0-88, S3-40) --------------------------------------------------

TEST(DueTest, NothingIsDueBeforeItsTime) {
    SessionDriver driver(1);
    driver.begin({CallSpec{.timeout = 1h}, CallSpec{.timeout = std::nullopt}});
    driver.clock().advance(1h - 1ms);
    EXPECT_EQ(kinds_of(driver.due()), Kinds{});
    driver.clock().advance(1ms);
    EXPECT_EQ(kinds_of(driver.due()), Kinds{"pending.expired"});
}

TEST(DueTest, ACallWithoutOwnTimeoutHasADay) {
    SessionDriver driver(1);
    driver.begin({CallSpec{}});
    EXPECT_EQ(driver.open_calls()[0].expires_at, driver.now() + 24h);  // S0-79
}

TEST(DueTest, TheLastCallThatExpiresLetsTheAgentGoOnWithTheError) {
    SessionDriver driver(1);
    driver.begin({CallSpec{.timeout = 1h}});
    driver.clock().advance(1h);
    const Result<Records> due = driver.due();
    EXPECT_EQ(kinds_of(due), (Kinds{"pending.expired", "token.consumed", "run.resumed"}));
    driver.commit(due);
    EXPECT_EQ(driver.status(), SessionStatus::running);
    EXPECT_EQ(std::get<RunResumed>(driver.log().back().body).reason, ResumeReason::expired);
    EXPECT_EQ(driver.transcript().entries().back().parts.at(0).result,
              error_result("Tool execution timed out"));  // S0-65
    EXPECT_EQ(kinds_of(driver.due()), Kinds{});           // once
}

TEST(DueTest, ExpiryOfOneCallLeavesTheOthersOpen) {
    SessionDriver driver(1);
    driver.begin({CallSpec{.timeout = 2h}, CallSpec{.timeout = 1h}});
    driver.clock().advance(1h);
    driver.commit(driver.due());
    EXPECT_EQ(driver.status(), SessionStatus::waiting);
    ASSERT_EQ(driver.open_calls().size(), 1U);
    EXPECT_EQ(driver.open_calls()[0].call_id.text, "call_1");
}

// Long past everything, after a night of downtime: in the order of the times, and the calls win
// over the wait's deadline.
TEST(DueTest, CallsExpireInTheOrderOfTheirTimesAndBeforeTheirWait) {
    SessionDriver driver(1);
    driver.begin({CallSpec{.timeout = 3h}, CallSpec{.timeout = 1h}, CallSpec{.timeout = 2h}});
    driver.clock().advance(99h);
    const Result<Records> due = driver.due();
    ASSERT_EQ(kinds_of(due), (Kinds{"pending.expired", "pending.expired", "pending.expired",
                                    "token.consumed", "run.resumed"}));
    EXPECT_EQ(std::get<PendingExpired>((*due)[0]).call_id.text, "call_2");
    EXPECT_EQ(std::get<PendingExpired>((*due)[1]).call_id.text, "call_3");
    EXPECT_EQ(std::get<PendingExpired>((*due)[2]).call_id.text, "call_1");
}

// S3-40: the deadline ends a wait without calls.
TEST(DueTest, ADeadlineThatPassesInterruptsTheRunAndEndsTheToken) {
    SessionDriver driver(1);
    driver.begin();
    driver.commit(driver.park_for_input(1h));
    driver.clock().advance(1h);
    const Result<Records> due = driver.due();
    ASSERT_EQ(kinds_of(due), (Kinds{"token.expired", "run.interrupted", "status.derived"}));
    EXPECT_EQ(std::get<RunInterrupted>((*due)[1]).reason, InterruptReason::wait_timeout);
    EXPECT_EQ(std::get<StatusDerived>((*due)[2]).status, SessionStatus::interrupted_waiting);
    driver.commit(due);
    EXPECT_EQ(driver.status(), SessionStatus::interrupted_waiting);
    EXPECT_EQ(driver.state().recovery.interruption->was_doing, WasDoing::waiting);
    EXPECT_EQ(kinds_of(driver.due()), Kinds{});
}

// No rule makes such a wait, but a log may hold one: calls that outlive the deadline.
TEST(DueTest, ADeadlineClosesTheCallsThatAreStillOpen) {
    SessionDriver driver(1);
    driver.begin({CallSpec{.timeout = std::nullopt}, CallSpec{.timeout = std::nullopt}});
    RunWaiting moved{driver.state().run->run_id, driver.state().run->wait->wait_id,
                     WaitKind::external,         driver.state().run->wait->resume_token_id,
                     driver.now() + 1h,          {}};
    driver.commit(Records{moved});
    driver.clock().advance(1h);
    const Result<Records> due = driver.due();
    EXPECT_EQ(kinds_of(due), (Kinds{"pending.cancelled", "pending.cancelled", "token.expired",
                                    "run.interrupted", "status.derived"}));
    driver.commit(due);
    EXPECT_TRUE(driver.open_calls().empty());
    for (const ToolPart& part : driver.transcript().entries().back().parts) {
        EXPECT_TRUE(part.result && part.result->is_error);
    }
}

TEST(DueTest, ACallExpiresWhileItsRunStillComputes) {
    SessionDriver driver(1);
    driver.begin();
    driver.commit(driver.say(1));
    driver.commit(driver.start_async(CallSpec{.timeout = 1min}));
    driver.clock().advance(1min);
    driver.commit(driver.due());
    EXPECT_TRUE(driver.open_calls().empty());
    EXPECT_EQ(driver.status(), SessionStatus::running);
}

// T30: a clock that was set back does not let a result in whose time the log saw pass.
TEST(DueTest, AClockThatGoesBackDoesNotReopenAWait) {
    SessionDriver driver(1);
    driver.begin();
    driver.commit(driver.park_for_input(1h));
    driver.clock().advance(2h);
    driver.commit(driver.update("seen late"));
    driver.clock().set(driver.now() - 2h);
    driver.commit(driver.update("seen by a clock that was set back"));
    EXPECT_EQ(kinds_of(driver.extend(3h)), Kinds{"no_suspended_turn"});
    EXPECT_EQ(kinds_of(driver.due()),
              (Kinds{"token.expired", "run.interrupted", "status.derived"}));
}

// ---- extension -------------------------------------------------------------------------------

TEST(ExtendTest, MovesCallsWaitAndTokenTogether) {
    SessionDriver driver(1);
    driver.begin({CallSpec{.timeout = 1h}, CallSpec{.timeout = 2h}});
    driver.commit(driver.extend(10h));
    for (const PendingCall& call : driver.open_calls()) {
        EXPECT_EQ(call.expires_at, driver.now() + 10h);
    }
    EXPECT_EQ(driver.state().run->wait->deadline_at, driver.now() + 11h);
    EXPECT_EQ(driver.state().tokens.back().expires_at, driver.now() + 11h);
    driver.clock().advance(9h);
    EXPECT_EQ(driver.status(), SessionStatus::waiting);
    EXPECT_TRUE(validate_token(driver.state(), driver.tokens().back(), driver.now()));
}

// A call that a worker holds stays with that worker.
TEST(ExtendTest, KeepsLeases) {
    SessionDriver driver(1);
    driver.begin({CallSpec{.timeout = 1h}});
    driver.commit(driver.claim(driver.pending(0), "worker-a", 5min));
    const PendingCall before = driver.open_calls()[0];
    driver.commit(driver.extend(10h));
    PendingCall after = driver.open_calls()[0];
    EXPECT_EQ(after.expires_at, driver.now() + 10h);
    after.expires_at = before.expires_at;
    EXPECT_EQ(after, before);
    EXPECT_EQ(after.status, PendingStatus::processing);
    EXPECT_EQ(after.worker, "worker-a");
}

TEST(ExtendTest, LeavesAloneWhatNeverExpires) {
    SessionDriver driver(1);
    driver.begin({CallSpec{.timeout = 1h}, CallSpec{.timeout = std::nullopt}});
    driver.commit(driver.extend(10h));
    EXPECT_EQ(driver.open_calls()[0].expires_at, driver.now() + 10h);
    EXPECT_EQ(driver.open_calls()[1].expires_at, std::nullopt);
    EXPECT_EQ(driver.state().run->wait->deadline_at, std::nullopt);
}

// Its end is what is waited for, and the wait must not end before it.
TEST(ExtendTest, LeavesTimersAlone) {
    SessionDriver driver(1);
    const CallSpec timer{.waits_for = WaitsFor::timer, .timeout = 3h};
    driver.begin({CallSpec{.timeout = 1h}, timer});
    const Timestamp rings = driver.now() + 3h;
    driver.commit(driver.extend(2h));
    EXPECT_EQ(driver.open_calls()[0].expires_at, driver.now() + 2h);
    EXPECT_EQ(driver.open_calls()[1].expires_at, rings);
    EXPECT_EQ(driver.state().run->wait->deadline_at, rings + 1h);
    driver.commit(driver.extend(10h));
    EXPECT_EQ(driver.open_calls()[1].expires_at, rings);
    EXPECT_EQ(driver.state().run->wait->deadline_at, driver.now() + 11h);
}

TEST(ExtendTest, RefusesToMoveATimerAlone) {
    SessionDriver driver(1);
    driver.begin({CallSpec{.waits_for = WaitsFor::timer, .timeout = 3h}});
    EXPECT_EQ(kinds_of(driver.extend(5h)), Kinds{"no_deadline"});
}

TEST(ExtendTest, MovesAWaitForAMessageToJustThatTime) {
    SessionDriver driver(1);
    driver.begin();
    driver.commit(driver.park_for_input(1h));
    driver.commit(driver.extend(5h));
    EXPECT_EQ(driver.state().run->wait->deadline_at, driver.now() + 5h);
}

TEST(ExtendTest, RefusesThePastAndWhatDoesNotWait) {
    SessionDriver driver(1);
    driver.begin();
    EXPECT_EQ(kinds_of(driver.extend(1h)), Kinds{"no_suspended_turn"});
    driver.commit(driver.say_and_park({CallSpec{.timeout = 10h}}));
    EXPECT_EQ(kinds_of(driver.extend(0ms)), Kinds{"invalid_deadline"});
    EXPECT_EQ(kinds_of(driver.extend(-1h)), Kinds{"invalid_deadline"});
    // The past is what the log has seen, not what a clock that was set back says.
    driver.clock().advance(5h);
    driver.commit(driver.update("later"));
    driver.clock().set(driver.now() - 4h);
    EXPECT_EQ(kinds_of(driver.extend(1h)), Kinds{"invalid_deadline"});
    driver.clock().advance(20h);
    EXPECT_EQ(kinds_of(driver.extend(1h)), Kinds{"no_suspended_turn"});  // its time is up
}

// The log writes years of four digits: the hour of grace must not lead out of them, or replay would
// read another deadline than the one that was planned (W14).
TEST(ExtendTest, TheEndOfTimeStaysReadable) {
    const Timestamp last = *parse_rfc3339("9999-12-31T23:59:59.999Z");
    SessionDriver driver(1);
    driver.begin({CallSpec{.timeout = last - 10min - driver.now()}});
    EXPECT_EQ(driver.state().run->wait->deadline_at, last);
    driver.commit(plan_extend(driver.state(), last, driver.now()));
    EXPECT_EQ(driver.state().run->wait->deadline_at, last);
    EXPECT_EQ(driver.open_calls()[0].expires_at, last);
    const Result<SessionState> back = from_json<SessionState>(to_json(driver.state()), "state");
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, driver.state());
    EXPECT_EQ(driver.status(), SessionStatus::waiting);
}

// ---- workers ---------------------------------------------------------------------------------

// api 5: at 80 % of its time, once
TEST(WarningTest, ACallIsWarnedOfWhenMostOfItsTimeIsOver) {
    SessionDriver driver(1);
    driver.begin({CallSpec{.timeout = 10h}, CallSpec{.timeout = std::nullopt}});
    EXPECT_EQ(next_warning(summarize(driver.state())), driver.now() + 8h);
    driver.clock().advance(8h - 1ms);
    EXPECT_EQ(kinds_of(Result<Records>(plan_warnings(driver.state(), driver.now()))), Kinds{});
    driver.clock().advance(1ms);
    driver.commit(plan_warnings(driver.state(), driver.now()));
    EXPECT_EQ(driver.log().back().body.index(), RecordBody(PendingExpiring{}).index());
    EXPECT_EQ(kinds_of(Result<Records>(plan_warnings(driver.state(), driver.now()))), Kinds{});
    EXPECT_EQ(next_warning(summarize(driver.state())), std::nullopt);
}

TEST(WarningTest, MoreTimeIsAnotherWarning) {
    SessionDriver driver(1);
    driver.begin({CallSpec{.timeout = 10h}});
    driver.clock().advance(9h);
    driver.commit(plan_warnings(driver.state(), driver.now()));
    driver.commit(plan_extend(driver.state(), driver.now() + 11h, driver.now()));
    EXPECT_EQ(kinds_of(Result<Records>(plan_warnings(driver.state(), driver.now()))), Kinds{});
    EXPECT_EQ(next_warning(summarize(driver.state())), driver.now() + 7h);
}

TEST(WarningTest, WhatHasExpiredIsNotWarnedOf) {
    SessionDriver driver(1);
    driver.begin({CallSpec{.timeout = 10h}});
    driver.clock().advance(10h);
    EXPECT_EQ(kinds_of(Result<Records>(plan_warnings(driver.state(), driver.now()))), Kinds{});
}

struct Worker : ::testing::Test {
    SessionDriver driver{1};
    PendingId call;

    void SetUp() override {
        driver.begin({CallSpec{.timeout = 1h}});
        call = driver.pending(0);
    }
    const PendingCall& now() { return driver.state().pending.at(0); }
};

TEST_F(Worker, ClaimsACallUntilItsLeaseEnds) {
    driver.commit(driver.claim(call, "a", 5min));
    EXPECT_EQ(now().status, PendingStatus::processing);
    EXPECT_EQ(now().worker, "a");
    EXPECT_EQ(now().started_at, driver.now());
    EXPECT_EQ(kinds_of(driver.claim(call, "b", 5min)), Kinds{"lease_held"});
    EXPECT_EQ(kinds_of(driver.claim(call, "a", 9min)), Kinds{"pending.processing"});  // renews
    driver.clock().advance(5min);
    EXPECT_EQ(kinds_of(driver.claim(call, "b", 5min)), Kinds{"pending.processing"});
}

TEST_F(Worker, LosesTheCallWhenTheLeaseEnds) {
    driver.commit(driver.claim(call, "a", 5min));
    EXPECT_EQ(next_due(summarize(driver.state())), driver.now() + 5min);
    driver.clock().advance(5min);
    const Result<Records> due = driver.due();
    ASSERT_EQ(kinds_of(due), Kinds{"pending.waiting"});
    EXPECT_EQ(std::get<PendingWaiting>((*due)[0]).reason, "lease_expired");
    driver.commit(due);
    EXPECT_EQ(now().status, PendingStatus::waiting);
    EXPECT_EQ(now().worker, "");
    EXPECT_EQ(now().lease_until, std::nullopt);
    EXPECT_EQ(kinds_of(driver.due()), Kinds{});
}

TEST_F(Worker, OnlyTheHolderReleases) {
    EXPECT_EQ(kinds_of(driver.release(call, "a")), Kinds{});  // nothing to give back
    driver.commit(driver.claim(call, "a", 5min));
    EXPECT_EQ(kinds_of(driver.release(call, "b")), Kinds{"lease_held"});
    driver.commit(driver.release(call, "a"));
    EXPECT_EQ(now().status, PendingStatus::waiting);
    EXPECT_EQ(kinds_of(driver.claim(call, "b", 5min)), Kinds{"pending.processing"});
}

// "A result from somebody else than the holder is accepted."
TEST_F(Worker, DoesNotKeepOthersFromTheResult) {
    driver.commit(driver.claim(call, "a", 5min));
    driver.commit(driver.settle(call, text_result("done")));
    EXPECT_EQ(driver.status(), SessionStatus::running);
    EXPECT_EQ(kinds_of(driver.claim(call, "b", 5min)), Kinds{"not_waiting"});
    EXPECT_EQ(kinds_of(driver.release(call, "a")), Kinds{"not_waiting"});
    EXPECT_EQ(kinds_of(driver.claim(PendingId("pnd_1_2"), "a", 5min)), Kinds{"unknown_pending_id"});
}

// "processing expires too": the call's own time beats the lease.
TEST_F(Worker, HoldingACallDoesNotStopItsClock) {
    driver.commit(driver.claim(call, "a", 50h));
    driver.clock().advance(1h);
    EXPECT_EQ(kinds_of(driver.due()), (Kinds{"pending.expired", "token.consumed", "run.resumed"}));
}

TEST_F(Worker, TellsHowFarItIs) {
    driver.commit(driver.claim(call, "a", 5min));
    driver.commit(driver.progress(call, 40));
    EXPECT_EQ(now().progress.percent, 40);
    EXPECT_EQ(now().progress.message, "compiling");
    EXPECT_EQ(now().status, PendingStatus::processing);
}

}  // namespace
}  // namespace rouse
