#include "domain/status.h"

#include <gtest/gtest.h>

#include <array>

#include "domain/fold.h"
#include "testing/session_driver.h"

namespace rouse {
namespace {

using testing::CallSpec;
using testing::SessionDriver;
using namespace std::chrono_literals;

const BootId kBoot("boot_now");
const BootId kEarlierBoot("boot_before");
const Timestamp kNow = from_epoch_ms(1'767'225'600'000);

// ---- every combination of what the status depends on (S3-70) ---------------------------------

constexpr std::array kPhases = {RunPhase::none,       RunPhase::active, RunPhase::parked,
                                RunPhase::completed,  RunPhase::failed, RunPhase::cancelled,
                                RunPhase::interrupted};
constexpr std::array<std::optional<TokenStatus>, 5> kTokens = {
    TokenStatus::active, TokenStatus::consumed, TokenStatus::revoked, TokenStatus::expired,
    std::nullopt};
const std::array<std::optional<Timestamp>, 4> kTimes = {std::nullopt, kNow + 1ms, kNow, kNow - 1h};
constexpr std::array kReasons = {InterruptReason::process_restart, InterruptReason::process_exit,
                                 InterruptReason::wait_timeout};

struct Facts {
    RunPhase phase;
    BootId boot;
    std::optional<TokenStatus> token;  // absent: the wait's token is in no index
    std::optional<Timestamp> token_expires_at;
    std::optional<Timestamp> deadline_at;
    InterruptReason reason;
};

void PrintTo(const Facts& f, std::ostream* out) {
    *out << to_string(f.phase) << (f.boot == kBoot ? ", this boot" : ", earlier boot") << ", token "
         << (f.token ? to_string(*f.token) : "missing") << " until "
         << (f.token_expires_at ? to_rfc3339(*f.token_expires_at) : "ever") << ", deadline "
         << (f.deadline_at ? to_rfc3339(*f.deadline_at) : "never") << ", " << to_string(f.reason);
}

// The table of the five statuses as the requirements word it, condition by condition; where more
// than one holds, the precedence of S3-33 decides.
SessionStatus expected(const Facts& f) {
    const bool terminal =
        f.phase != RunPhase::none && f.phase != RunPhase::active && f.phase != RunPhase::parked;
    const bool has_run = f.phase != RunPhase::none;
    const bool token_is_good =
        f.token == TokenStatus::active && (!f.token_expires_at || kNow < *f.token_expires_at);
    const bool deadline_passed = f.deadline_at && *f.deadline_at <= kNow;
    const bool interrupted = f.phase == RunPhase::interrupted;

    // S3-31; and the interruption stays visible once it is recorded. A parked run needs no process.
    const bool interrupted_startup =
        (f.phase == RunPhase::active && f.boot != kBoot) ||
        (interrupted && (f.reason == InterruptReason::process_restart ||
                         f.reason == InterruptReason::process_exit));
    // S3-32, S3-39, S3-40
    const bool interrupted_waiting =
        (f.phase == RunPhase::parked && (!token_is_good || deadline_passed)) ||
        (interrupted && f.reason == InterruptReason::wait_timeout);
    const bool waiting = f.phase == RunPhase::parked && token_is_good;  // S3-29
    const bool running = has_run && !terminal;                          // S3-28
    const bool idle = !has_run || terminal;                             // S3-30

    if (interrupted_startup) return SessionStatus::interrupted_startup;
    if (interrupted_waiting) return SessionStatus::interrupted_waiting;
    if (waiting) return SessionStatus::waiting;
    if (running) return SessionStatus::running;
    EXPECT_TRUE(idle);
    return SessionStatus::idle;
}

std::optional<RunOutcome> outcome_of(RunPhase phase) {
    switch (phase) {
        case RunPhase::completed: return RunOutcome::completed;
        case RunPhase::failed: return RunOutcome::failed;
        case RunPhase::cancelled: return RunOutcome::cancelled;
        case RunPhase::interrupted: return RunOutcome::interrupted;
        default: return std::nullopt;
    }
}

SessionState state_of(const Facts& f) {
    SessionState state;
    state.id = SessionId("sess_1");
    state.last_seq = 9;
    state.updated_at = kNow - 2h;
    if (f.phase == RunPhase::none) return state;
    Run run;
    run.run_id = RunId("run_1");
    run.boot_id = f.boot;
    run.started_at = kNow - 3h;
    run.outcome = outcome_of(f.phase);
    if (run.outcome) run.ended_at = kNow - 2h;
    if (f.phase == RunPhase::parked) {
        run.wait = Wait{WaitId("wait_1"), WaitKind::external, 5, TokenId("rt_1"), f.deadline_at};
    }
    if (f.phase == RunPhase::interrupted) {
        state.recovery.interruption =
            Interruption{run.run_id, f.reason, kNow - 2h, WasDoing::running, false};
    }
    if (f.token) {
        state.tokens.push_back(Token{TokenId("rt_1"),
                                     "hash",
                                     run.run_id,
                                     WaitId("wait_1"),
                                     WaitKind::external,
                                     f.token_expires_at,
                                     *f.token,
                                     {}});
    }
    state.run = run;
    return state;
}

template <class Check>
void for_all_facts(const Check& check) {
    for (const RunPhase phase : kPhases)
        for (const BootId& boot : {kBoot, kEarlierBoot})
            for (const auto& token : kTokens)
                for (const auto& token_expires_at : kTimes)
                    for (const auto& deadline_at : kTimes)
                        for (const InterruptReason reason : kReasons)
                            check(Facts{phase, boot, token, token_expires_at, deadline_at, reason});
}

// S3-27 S3-28 S3-29 S3-30 S3-31 S3-32 S3-33 S3-70
TEST(StatusTest, FollowsFromTheRunItsTokenAndTheTimeInEveryCombination) {
    std::size_t combinations = 0;
    for_all_facts([&](const Facts& facts) {
        ++combinations;
        ASSERT_EQ(project(state_of(facts), kBoot, kNow).status, expected(facts))
            << ::testing::PrintToString(facts);
    });
    EXPECT_EQ(combinations, 7U * 2 * 5 * 4 * 4 * 3);
}

// The same combinations in the words of boards.
TEST(StatusTest, BoardStateSaysTheSameInItsOwnWords) {
    for_all_facts([](const Facts& facts) {
        const SessionView view = project(state_of(facts), kBoot, kNow);
        std::string_view want;
        switch (expected(facts)) {
            case SessionStatus::running: want = "RUNNING"; break;
            case SessionStatus::waiting: want = "WAITING_FOR_INPUT"; break;
            case SessionStatus::interrupted_startup:
            case SessionStatus::interrupted_waiting: want = "ERROR"; break;
            case SessionStatus::idle:
                want = facts.phase == RunPhase::none        ? "CREATED"
                       : facts.phase == RunPhase::completed ? "COMPLETED"
                       : facts.phase == RunPhase::failed    ? "ERROR"
                                                            : "CANCELLED";
        }
        ASSERT_EQ(to_string(view.state), want) << ::testing::PrintToString(facts);
    });
}

// ---- S0's activity (S0-75 S0-76 S0-77 S0-78) -------------------------------------------------

// No call is open in these states: a wait alone is no async call.
TEST(StatusTest, ActivityWithoutCallsIsBusyOrIdle) {
    for_all_facts([](const Facts& facts) {
        const Activity activity = project(state_of(facts), kBoot, kNow).activity;
        const bool running = expected(facts) == SessionStatus::running;
        ASSERT_EQ(to_string(activity.type), running ? "busy" : "idle")
            << ::testing::PrintToString(facts);
    });
}

TEST(StatusTest, ActivityOfARunThatRetriesTellsWhen) {
    SessionDriver driver(1);
    driver.begin();
    driver.commit(driver.retry());
    const Activity activity = project(driver.state(), driver.boot(), driver.now()).activity;
    EXPECT_EQ(to_string(activity.type), "retry");
    ASSERT_TRUE(activity.retry);
    EXPECT_EQ(activity.retry->attempt, 2U);
    EXPECT_EQ(activity.retry->message, "overloaded");
    EXPECT_EQ(activity.retry->next, driver.now() + 5s);

    // The next step of the turn shows that the retry worked.
    driver.commit(driver.say(0));
    EXPECT_EQ(to_string(project(driver.state(), driver.boot(), driver.now()).activity.type),
              "busy");
}

TEST(StatusTest, ActivityOfAWaitNamesTheOldestOpenCall) {
    SessionDriver driver(1);
    driver.begin();
    driver.commit(driver.say(2));
    driver.commit(driver.start_async(CallSpec{.timeout = 2h}));
    const Timestamp first_at = driver.now();
    driver.clock().advance(1min);
    driver.commit(driver.park({CallSpec{.timeout = std::nullopt}}));
    const std::vector<PendingCall> open = driver.open_calls();
    ASSERT_EQ(open.size(), 2U);

    Activity activity = project(driver.state(), driver.boot(), driver.now()).activity;
    EXPECT_EQ(to_string(activity.type), "waiting_async");
    EXPECT_EQ(activity.pending_id, open[0].pending_id);
    EXPECT_EQ(activity.tool, "deploy");
    EXPECT_EQ(activity.since, first_at);
    EXPECT_EQ(activity.timeout, first_at + 2h);

    // A call that is being worked on is as open as one that nobody took (S0-66).
    driver.commit(driver.claim(open[0].pending_id, "worker", 5min));
    EXPECT_EQ(project(driver.state(), driver.boot(), driver.now()).activity.pending_id,
              open[0].pending_id);

    driver.commit(driver.settle(open[0].pending_id, text_result("done")));
    activity = project(driver.state(), driver.boot(), driver.now()).activity;
    EXPECT_EQ(to_string(activity.type), "waiting_async");
    EXPECT_EQ(activity.pending_id, open[1].pending_id);
    EXPECT_EQ(activity.since, first_at + 1min);
    EXPECT_EQ(activity.timeout, std::nullopt);
}

TEST(StatusTest, AWaitForAMessageIsWaitingButNoAsyncCall) {
    SessionDriver driver(1);
    driver.begin();
    driver.commit(driver.park_for_input(1h));
    const SessionView view = project(driver.state(), driver.boot(), driver.now());
    EXPECT_EQ(view.status, SessionStatus::waiting);
    EXPECT_EQ(view.activity, Activity{});
}

// ---- along a log -----------------------------------------------------------------------------

TEST(StatusTest, EveryViewCarriesTheSeqItSpeaksOf) {
    SessionDriver driver(1);
    driver.begin();
    EXPECT_EQ(project(driver.state(), driver.boot(), driver.now()).seq, driver.log().size());
}

// S3-61 gap (a): the interrupted status outlives the record that ends the run.
TEST(StatusTest, StaysInterruptedUntilANewRunStarts) {
    SessionDriver driver(1);
    driver.begin();
    driver.commit(driver.restart());
    EXPECT_EQ(driver.status(), SessionStatus::interrupted_startup);
    driver.commit(driver.restart());
    driver.commit(driver.update("Another title"));
    EXPECT_EQ(driver.status(), SessionStatus::interrupted_startup);
    driver.commit(driver.message());
    EXPECT_EQ(driver.status(), SessionStatus::running);
}

// Gap (b): a wait with a good token outlives any number of boots.
TEST(StatusTest, AWaitOutlivesItsBoot) {
    SessionDriver driver(1);
    driver.begin({CallSpec{}});
    EXPECT_EQ(project(driver.state(), BootId("boot_other"), driver.now()).status,
              SessionStatus::waiting);
}

// W11, T30: what the log has seen expired stays expired, even when a later record is stamped with
// the time of a clock that was set back.
TEST(StatusTest, AClockThatGoesBackDoesNotReviveAWait) {
    SessionDriver driver(1);
    driver.begin({CallSpec{.timeout = 1h}});
    driver.clock().advance(3h);
    driver.commit(driver.update("seen at a time when the wait is over"));
    EXPECT_EQ(driver.status(), SessionStatus::interrupted_waiting);
    driver.clock().set(driver.now() - 3h);
    EXPECT_EQ(driver.status(), SessionStatus::interrupted_waiting);
    driver.commit(driver.update("written by a clock that was set back"));
    EXPECT_EQ(driver.status(), SessionStatus::interrupted_waiting);
}

// The words on the wire.
TEST(StatusTest, StatusesAreSpelledAsOnTheWire) {
    EXPECT_EQ(to_string(SessionStatus::idle), "idle");
    EXPECT_EQ(to_string(SessionStatus::running), "running");
    EXPECT_EQ(to_string(SessionStatus::waiting), "waiting");
    EXPECT_EQ(to_string(SessionStatus::interrupted_startup), "interrupted_startup");
    EXPECT_EQ(to_string(SessionStatus::interrupted_waiting), "interrupted_waiting");
}

}  // namespace
}  // namespace rouse
