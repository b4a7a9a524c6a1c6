#include "domain/recovery_plan.h"

#include <gtest/gtest.h>

#include <map>

#include "domain/status.h"
#include "testing/session_driver.h"

namespace rouse {
namespace {

using testing::CallSpec;
using testing::SessionDriver;
using namespace std::chrono_literals;

using Kinds = std::vector<std::string>;
using Action = RecoveryAction;

Kinds kinds_of(const Records& records) {
    Kinds kinds;
    for (const RecordBody& body : records)
        kinds.emplace_back(kind_of(body));
    return kinds;
}

BootFacts next_boot(SessionDriver& driver, const std::string& name) {
    return {BootId("boot_" + name), driver.now(), WaitId("wait_" + name),
            NewToken{TokenId("rt_" + name), "hash"}};
}

// ---- what the process was doing when it died -------------------------------------------------

void nothing(SessionDriver& d) {
    d.commit(d.create());
}
void computing(SessionDriver& d) {
    d.begin();
}
void finished(SessionDriver& d) {
    d.begin();
    d.commit(d.complete());
}
void failed(SessionDriver& d) {
    d.begin();
    d.commit(d.fail());
}
void cancelled(SessionDriver& d) {
    d.begin({CallSpec{}});
    d.commit(d.cancel(CancelMode::discard));
}
void deleted(SessionDriver& d) {
    d.begin({CallSpec{}});
    d.commit(d.remove());
}
void interrupted_before(SessionDriver& d) {
    d.begin();
    d.commit(d.restart());
}
void shut_down_cleanly(SessionDriver& d) {
    d.begin();
    d.commit(d.shut_down());
}
void running_a_tool(SessionDriver& d) {
    d.begin();
    d.commit(d.say(1));
    d.commit(d.start_tool(CallId{"call_1"}));
}
void parked(SessionDriver& d) {
    d.begin({CallSpec{}, CallSpec{}});
}
void parked_for_ever(SessionDriver& d) {
    d.begin({CallSpec{.timeout = std::nullopt}});
}
void parked_for_input(SessionDriver& d) {
    d.begin();
    d.commit(d.park_for_input(1h));
}
void resumed(SessionDriver& d) {
    d.begin({CallSpec{}});
    d.commit(d.settle(d.pending(0), text_result("done")));
}
void resumed_by_a_message(SessionDriver& d) {
    parked_for_input(d);
    d.commit(d.message());
}
void redriven_and_died_again(SessionDriver& d) {
    resumed(d);
    d.commit(d.restart());
}
void resumed_and_moved_on(SessionDriver& d) {
    resumed(d);
    d.commit(d.say(0));
}
void async_started(SessionDriver& d) {
    d.begin();
    d.commit(d.say(1));
    d.commit(d.start_async(CallSpec{.timeout = 1h}));
}
void async_started_and_parked(SessionDriver& d) {
    async_started(d);
    d.commit(d.park({}));
}
void async_claimed(SessionDriver& d) {
    async_started(d);
    d.commit(d.claim(d.pending(0), "worker", 50h));
}
void async_settled(SessionDriver& d) {
    async_started(d);
    d.commit(d.settle(d.pending(0), text_result("quick")));
}
void local_started(SessionDriver& d) {
    d.begin();
    d.commit(d.say(1));
    d.commit(d.start_async(CallSpec{.local = true}));
}
void parked_on_local(SessionDriver& d) {
    d.begin({CallSpec{.local = true}});
}
void parked_on_local_that_asks(SessionDriver& d) {
    d.begin({CallSpec{.local = true, .ask = true}});
}
void local_that_asks_started(SessionDriver& d) {
    d.begin();
    d.commit(d.say(1));
    d.commit(d.start_async(CallSpec{.local = true, .ask = true}));
}
void parked_on_local_that_repeats(SessionDriver& d) {
    d.begin({CallSpec{.local = true, .ask = true, .again = true}});
}
void local_that_repeats_started(SessionDriver& d) {
    d.begin();
    d.commit(d.say(1));
    d.commit(d.start_async(CallSpec{.local = true, .again = true}));
}
void parked_on_local_and_other(SessionDriver& d) {
    d.begin({CallSpec{.local = true}, CallSpec{}});
}
void processing(SessionDriver& d) {
    d.begin({CallSpec{.timeout = 1h}});
    d.commit(d.claim(d.pending(0), "worker", 50h));
}
void one_of_two_short(SessionDriver& d) {
    d.begin({CallSpec{.timeout = 1h}, CallSpec{.timeout = 24h}});
}

struct RecoveryCase {
    std::string name;
    void (*was)(SessionDriver&);
    Milliseconds down;  // how long nobody was there
    Action action;
    Kinds records;
    SessionStatus status;  // afterwards
};
void PrintTo(const RecoveryCase& c, std::ostream* out) {
    *out << c.name;
}

class RecoveryTest : public ::testing::TestWithParam<RecoveryCase> {};

// S0-65 S0-66 S0-82 S0-83 S3-03 S3-35 S3-36 S3-37 S3-38 S3-40
TEST_P(RecoveryTest, WritesWhatTheDeathLeftOpen) {
    SessionDriver driver(1);
    GetParam().was(driver);
    driver.clock().advance(GetParam().down);
    const BootFacts facts = next_boot(driver, "b");
    const RecoveryPlan plan = plan_recovery(driver.state(), facts);
    EXPECT_EQ(kinds_of(plan.records), GetParam().records);
    EXPECT_EQ(plan.action, GetParam().action);
    driver.commit(plan.records);
    EXPECT_EQ(project(driver.state(), facts.boot, facts.now).status, GetParam().status);
}

// S3-01, S3-38, P9: same bytes, same plan; and once it is in the log, no plan at all.
TEST_P(RecoveryTest, IsDoneAfterOnce) {
    SessionDriver driver(1);
    GetParam().was(driver);
    driver.clock().advance(GetParam().down);
    const BootFacts facts = next_boot(driver, "b");
    const Records records = plan_recovery(driver.state(), facts).records;
    EXPECT_EQ(records, plan_recovery(driver.state(), facts).records);
    driver.commit(records);
    const RecoveryPlan again = plan_recovery(driver.state(), facts);
    EXPECT_TRUE(again.records.empty());
    EXPECT_EQ(again.action, Action::none);
}

// However many boots follow: one run.interrupted at most (S3-61), and a wait gets no record more.
TEST_P(RecoveryTest, LaterBootsAddNothingButARedrive) {
    SessionDriver driver(1);
    GetParam().was(driver);
    driver.clock().advance(GetParam().down);
    driver.commit(plan_recovery(driver.state(), next_boot(driver, "b")).records);
    const bool drives = driver.state().run_is_open() && !driver.state().is_parked();
    for (const std::string boot : {"c", "d", "e", "f"}) {
        const RecoveryPlan plan = plan_recovery(driver.state(), next_boot(driver, boot));
        EXPECT_EQ(kinds_of(plan.records), drives ? Kinds{"run.redriven"} : Kinds{}) << boot;
        driver.commit(plan.records);
    }
    std::map<RunId, int> interruptions;
    for (const Record& record : driver.log()) {
        if (const auto* r = std::get_if<RunInterrupted>(&record.body)) ++interruptions[r->run_id];
    }
    for (const auto& [run, times] : interruptions)
        EXPECT_EQ(times, 1) << run.text();
}

const Kinds kInterrupted = {"run.interrupted", "status.derived"};

INSTANTIATE_TEST_SUITE_P(
    Table, RecoveryTest,
    ::testing::Values(
        RecoveryCase{"NoRun", nothing, 1h, Action::none, {}, SessionStatus::idle},
        RecoveryCase{"Finished", finished, 1h, Action::none, {}, SessionStatus::idle},
        RecoveryCase{"Failed", failed, 1h, Action::none, {}, SessionStatus::idle},
        RecoveryCase{"Cancelled", cancelled, 99h, Action::none, {}, SessionStatus::idle},
        RecoveryCase{"Deleted", deleted, 99h, Action::none, {}, SessionStatus::idle},
        RecoveryCase{"InterruptedBefore",
                     interrupted_before,
                     1h,
                     Action::none,
                     {},
                     SessionStatus::interrupted_startup},
        RecoveryCase{"ShutDownCleanly",
                     shut_down_cleanly,
                     1h,
                     Action::none,
                     {},
                     SessionStatus::interrupted_startup},
        RecoveryCase{"Computing", computing, 0ms, Action::interrupted, kInterrupted,
                     SessionStatus::interrupted_startup},
        RecoveryCase{"RunningATool", running_a_tool, 0ms, Action::interrupted, kInterrupted,
                     SessionStatus::interrupted_startup},
        RecoveryCase{"ResumedAndMovedOn", resumed_and_moved_on, 0ms, Action::interrupted,
                     kInterrupted, SessionStatus::interrupted_startup},
        RecoveryCase{"AsyncSettledNotParked", async_settled, 0ms, Action::interrupted, kInterrupted,
                     SessionStatus::interrupted_startup},
        RecoveryCase{"Parked", parked, 1h, Action::none, {}, SessionStatus::waiting},
        RecoveryCase{
            "ParkedForEver", parked_for_ever, 9'999h, Action::none, {}, SessionStatus::waiting},
        RecoveryCase{
            "ParkedForInput", parked_for_input, 59min, Action::none, {}, SessionStatus::waiting},
        RecoveryCase{"DeadlinePassedWhileDown",
                     parked_for_input,
                     1h,
                     Action::interrupted,
                     {"token.expired", "run.interrupted", "status.derived"},
                     SessionStatus::interrupted_waiting},
        // P4: an accepted result is applied, whatever the policy says about interrupted runs.
        RecoveryCase{"ResumedNotApplied",
                     resumed,
                     99h,
                     Action::redriven,
                     {"run.redriven"},
                     SessionStatus::running},
        RecoveryCase{"ResumedByAMessage",
                     resumed_by_a_message,
                     1h,
                     Action::redriven,
                     {"run.redriven"},
                     SessionStatus::running},
        RecoveryCase{"RedrivenAndDiedAgain",
                     redriven_and_died_again,
                     1h,
                     Action::redriven,
                     {"run.redriven"},
                     SessionStatus::running},
        // An async call that was started is never "unknown": the run parks on it.
        RecoveryCase{"AsyncStartedNotParked",
                     async_started,
                     10min,
                     Action::parked,
                     {"token.minted", "run.waiting"},
                     SessionStatus::waiting},
        RecoveryCase{"AsyncClaimedNotParked",
                     async_claimed,
                     10min,
                     Action::parked,
                     {"pending.waiting", "token.minted", "run.waiting"},
                     SessionStatus::waiting},
        RecoveryCase{
            "AsyncStartedAndExpired",
            async_started,
            99h,
            Action::resumed,
            {"token.minted", "run.waiting", "pending.expired", "token.consumed", "run.resumed"},
            SessionStatus::running},
        RecoveryCase{"LocalNotParked",
                     local_started,
                     0ms,
                     Action::interrupted,
                     {"pending.failed", "run.interrupted", "status.derived"},
                     SessionStatus::interrupted_startup},
        RecoveryCase{"ParkedOnLocal",
                     parked_on_local,
                     0ms,
                     Action::resumed,
                     {"pending.failed", "token.consumed", "run.resumed"},
                     SessionStatus::running},
        RecoveryCase{"ParkedOnLocalThatAsks",
                     parked_on_local_that_asks,
                     0ms,
                     Action::repaired,
                     {"pending.waiting"},
                     SessionStatus::waiting},
        RecoveryCase{"LocalThatAsksNotParked",
                     local_that_asks_started,
                     0ms,
                     Action::parked,
                     {"pending.waiting", "token.minted", "run.waiting"},
                     SessionStatus::waiting},
        RecoveryCase{"ParkedOnLocalThatRepeats",
                     parked_on_local_that_repeats,
                     0ms,
                     Action::resumed,
                     {"pending.approved", "token.consumed", "run.resumed"},
                     SessionStatus::running},
        RecoveryCase{"ParkedOnLocalThatRepeatsTooLate",
                     parked_on_local_that_repeats,
                     24h,
                     Action::resumed,
                     {"pending.expired", "token.consumed", "run.resumed"},
                     SessionStatus::running},
        RecoveryCase{"LocalThatRepeatsNotParked",
                     local_that_repeats_started,
                     0ms,
                     Action::interrupted,
                     {"pending.approved", "run.interrupted", "status.derived"},
                     SessionStatus::interrupted_startup},
        RecoveryCase{"ParkedOnLocalAndOther",
                     parked_on_local_and_other,
                     0ms,
                     Action::repaired,
                     {"pending.failed"},
                     SessionStatus::waiting},
        // S0-83: no lease survives the process that gave it, however long it was.
        RecoveryCase{"Processing",
                     processing,
                     1min,
                     Action::repaired,
                     {"pending.waiting"},
                     SessionStatus::waiting},
        RecoveryCase{"ProcessingAndExpired",
                     processing,
                     2h,
                     Action::resumed,
                     {"pending.waiting", "pending.expired", "token.consumed", "run.resumed"},
                     SessionStatus::running},
        // S0-65
        RecoveryCase{"OneOfTwoExpired",
                     one_of_two_short,
                     1h,
                     Action::repaired,
                     {"pending.expired"},
                     SessionStatus::waiting},
        RecoveryCase{"TheOnlyOneExpired",
                     async_started_and_parked,
                     1h,
                     Action::resumed,
                     {"pending.expired", "token.consumed", "run.resumed"},
                     SessionStatus::running},
        RecoveryCase{"AllExpired",
                     one_of_two_short,
                     24h,
                     Action::resumed,
                     {"pending.expired", "pending.expired", "token.consumed", "run.resumed"},
                     SessionStatus::running}),
    [](const auto& test) { return test.param.name; });

// S3-35: a run of this very boot is nobody's business.
TEST(RecoveryPlanTest, RunsOfThisBootAreLeftAlone) {
    SessionDriver driver(1);
    driver.begin();
    BootFacts facts = next_boot(driver, "b");
    facts.boot = driver.boot();
    EXPECT_TRUE(plan_recovery(driver.state(), facts).records.empty());
}

// S3-36
TEST(RecoveryPlanTest, TheInterruptionSaysWhyAndWhat) {
    SessionDriver driver(1);
    driver.begin();
    const RunId run = driver.state().run->run_id;
    driver.clock().advance(1h);
    driver.commit(driver.restart());
    const std::optional<Interruption>& interruption = driver.state().recovery.interruption;
    ASSERT_TRUE(interruption);
    EXPECT_EQ(*interruption, (Interruption{run, InterruptReason::process_restart, driver.now(),
                                           WasDoing::running, false}));
    EXPECT_EQ(driver.state().run->ended_at, driver.now());
    EXPECT_EQ(std::get<StatusDerived>(driver.log().back().body).status,
              SessionStatus::interrupted_startup);  // S3-37
}

// S0-82: a wait that lives through ten boots can still be answered, once.
TEST(RecoveryPlanTest, AWaitIsAnsweredAfterAnyNumberOfBoots) {
    SessionDriver driver(1);
    driver.begin({CallSpec{.timeout = std::nullopt}});
    const std::size_t records = driver.log().size();
    const PresentedToken token = driver.tokens().back();
    for (int boot = 0; boot < 10; ++boot) {
        driver.clock().advance(24h);
        driver.commit(driver.restart());
    }
    EXPECT_EQ(driver.log().size(), records);
    EXPECT_TRUE(driver.commit(driver.resume(token, {{CallId{"call_1"}, text_result("at last")}})));
    EXPECT_EQ(driver.status(), SessionStatus::running);
    EXPECT_EQ(driver.state().run->boot_id, driver.boot());
}

// The wait that recovery makes is a wait like any other.
TEST(RecoveryPlanTest, ARunThatParksAtBootIsResumedByItsNewToken) {
    SessionDriver driver(1);
    async_started(driver);
    driver.commit(driver.restart());
    ASSERT_TRUE(driver.state().is_parked());
    EXPECT_EQ(driver.state().run->wait->deadline_at, driver.now() + 2h);
    EXPECT_TRUE(driver.commit(
        driver.resume(driver.tokens().back(), {{CallId{"call_1"}, text_result("done")}})));
    EXPECT_EQ(driver.status(), SessionStatus::running);
}

// "A call that had started may have run": it stays visible as started for whoever goes on.
TEST(RecoveryPlanTest, CallsThatHadStartedStayAsTheyAre) {
    SessionDriver driver(1);
    running_a_tool(driver);
    driver.commit(driver.restart());
    EXPECT_EQ(driver.state().calls.at(0).phase, CallPhase::started);
    driver.commit(driver.go_on());
    EXPECT_EQ(driver.state().calls.at(0).phase, CallPhase::started);
}

TEST(RecoveryPlanTest, ACallInsideTheDeadProcessEndsAsUnknown) {
    SessionDriver driver(1);
    parked_on_local(driver);
    driver.commit(driver.restart());
    EXPECT_EQ(driver.transcript().entries().back().parts.at(0).result,
              error_result("interrupted, outcome unknown"));
}

TEST(RecoveryPlanTest, ACallInsideTheDeadProcessThatMayRunAgainDoesSo) {
    SessionDriver driver(1);
    local_that_repeats_started(driver);
    driver.commit(driver.restart());
    EXPECT_EQ(driver.state().calls.at(0).phase, CallPhase::approved);
    driver.commit(driver.go_on());
    EXPECT_EQ(driver.state().calls.at(0).phase, CallPhase::approved);
    EXPECT_FALSE(driver.transcript().entries().back().parts.at(0).result);
}

TEST(RecoveryPlanTest, ACallThatTakesItsProcessAlongEachTimeIsGivenUp) {
    constexpr CallSpec kAgain{.local = true, .again = true};
    SessionDriver driver(1);
    driver.begin({kAgain});
    for (std::uint32_t death = 0; death < limits::kInterruptionsInARow; ++death) {
        driver.commit(driver.restart());
        ASSERT_EQ(driver.state().calls.at(0).phase, CallPhase::approved) << death;
        ASSERT_TRUE(driver.commit(driver.start_async(kAgain)));
        ASSERT_TRUE(driver.commit(driver.park({})));
    }
    driver.commit(driver.restart());
    EXPECT_EQ(driver.transcript().entries().back().parts.at(0).result,
              error_result("interrupted, outcome unknown"));
}

TEST(RecoveryPlanTest, APersonIsAskedAboutACallInsideTheDeadProcess) {
    SessionDriver driver(1);
    local_that_asks_started(driver);
    driver.commit(driver.restart());
    const PendingCall& call = driver.state().pending.at(0);
    EXPECT_EQ(call.waits_for, WaitsFor::person);
    EXPECT_EQ(call.prompt, lost_call_question(call.tool));
    EXPECT_EQ(driver.state().run->wait->kind, WaitKind::person);
    EXPECT_EQ(kinds_of(*driver.restart()), Kinds{});  // asked once
}

// ---- three in a row --------------------------------------------------------------------------

bool is_exhausted(const SessionDriver& driver) {
    return driver.state().recovery.interruption && driver.state().recovery.interruption->exhausted;
}

TEST(RecoveryPlanTest, AfterThreeInterruptionsInARowTheSessionIsExhausted) {
    SessionDriver driver(1);
    driver.begin();
    driver.commit(driver.restart());
    EXPECT_FALSE(is_exhausted(driver));
    driver.commit(driver.go_on());
    driver.commit(driver.shut_down());  // a clean stop counts as well
    EXPECT_FALSE(is_exhausted(driver));
    driver.commit(driver.restart());
    driver.commit(driver.go_on());
    driver.commit(driver.restart());
    EXPECT_TRUE(is_exhausted(driver));
}

TEST(RecoveryPlanTest, AModelStepInBetweenStartsTheCountAnew) {
    SessionDriver driver(1);
    driver.begin();
    for (int i = 0; i < 6; ++i) {
        driver.commit(driver.restart());
        driver.commit(driver.go_on());
        if (i % 2 == 1) driver.commit(driver.say(0));
    }
    driver.commit(driver.restart());
    EXPECT_FALSE(is_exhausted(driver));
}

TEST(RecoveryPlanTest, AWaitThatTimesOutIsNoDeath) {
    SessionDriver driver(1);
    driver.begin();
    for (int i = 0; i < 5; ++i) {
        driver.commit(driver.park_for_input(1h));
        driver.clock().advance(2h);
        driver.commit(driver.due());
        EXPECT_FALSE(is_exhausted(driver));
        driver.commit(driver.go_on());
    }
    EXPECT_EQ(driver.state().recovery.in_a_row, 0U);
}

// ---- a clean shutdown ------------------------------------------------------------------------

TEST(RecoveryPlanTest, ShutdownMarksWhatComputesAndLeavesTheRest) {
    struct Case {
        std::string name;
        void (*was)(SessionDriver&);
        Kinds records;
    };
    const std::vector<Case> cases = {
        {"no run", nothing, {}},
        {"finished", finished, {}},
        {"computing", computing, kInterrupted},
        {"running a tool", running_a_tool, kInterrupted},
        {"parked", parked, {}},
        {"resumed", resumed, {}},             // the next boot drives it
        {"async started", async_started, {}}  // the next boot parks it
    };
    for (const Case& c : cases) {
        SessionDriver driver(1);
        c.was(driver);
        const Records records = plan_shutdown(driver.state());
        EXPECT_EQ(kinds_of(records), c.records) << c.name;
        if (records.empty()) continue;
        EXPECT_EQ(std::get<RunInterrupted>(records[0]).reason, InterruptReason::process_exit);
        driver.commit(records);
        EXPECT_TRUE(plan_shutdown(driver.state()).empty()) << c.name;
    }
}

}  // namespace
}  // namespace rouse
