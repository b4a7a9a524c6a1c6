// Parking, and the two doors through which results come. Time is in wait_time_test.cc, approval in
// approval_test.cc.

#include "domain/wait_rules.h"

#include <gtest/gtest.h>

#include <array>

#include "domain/history.h"
#include "domain/status.h"
#include "testing/session_driver.h"

namespace rouse {
namespace {

using testing::CallSpec;
using testing::reason_of;
using testing::SessionDriver;
using namespace std::chrono_literals;

const CallId kFirst{"call_1"};
const CallId kSecond{"call_2"};

Result<ResumePlan> try_resume(SessionDriver& session,
                              const std::vector<std::pair<CallId, ToolResult>>& results) {
    const ResumeCommand command{session.tokens().back(), results, session.boot()};
    return plan_resume(session.state(), command, session.now());
}

std::vector<std::string> kinds_of(const Records& records) {
    std::vector<std::string> kinds;
    for (const RecordBody& body : records)
        kinds.emplace_back(kind_of(body));
    return kinds;
}
using Kinds = std::vector<std::string>;

// What a rule answered, as one word.
template <class Plan>
std::string answer_of(const Result<Plan>& plan) {
    if (!plan) return std::string(plan.error().reason);
    return plan->duplicate ? "duplicate" : "accepted";
}

// ---- parking ---------------------------------------------------------------------------------

struct ParkCase {
    std::string name;
    std::vector<CallSpec> calls;
    WaitKind kind;
    std::optional<Milliseconds> deadline;  // from now
};
void PrintTo(const ParkCase& c, std::ostream* out) {
    *out << c.name;
}
class ParkTest : public ::testing::TestWithParam<ParkCase> {};

TEST_P(ParkTest, KindAndDeadlineFollowFromTheCalls) {
    SessionDriver session(1);
    session.begin(GetParam().calls);
    const Wait& wait = *session.state().run->wait;
    EXPECT_EQ(wait.kind, GetParam().kind);
    std::optional<Timestamp> deadline;
    if (GetParam().deadline) deadline = session.now() + *GetParam().deadline;
    EXPECT_EQ(wait.deadline_at, deadline);
    EXPECT_EQ(session.state().tokens.back().expires_at, deadline);
    EXPECT_EQ(session.log()[wait.since_seq - 1].seq, wait.since_seq);
    EXPECT_EQ(kind_of(session.log()[wait.since_seq - 1].body), "run.waiting");
    EXPECT_EQ(session.status(), SessionStatus::waiting);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, ParkTest,
    ::testing::Values(
        ParkCase{"External", {{.waits_for = WaitsFor::external}}, WaitKind::external, 25h},
        ParkCase{"Person", {{.waits_for = WaitsFor::person}}, WaitKind::person, 25h},
        ParkCase{"Timer", {{.waits_for = WaitsFor::timer}}, WaitKind::timer, 25h},
        ParkCase{"Child", {{.waits_for = WaitsFor::child}}, WaitKind::child, 25h},
        ParkCase{"Message", {{.waits_for = WaitsFor::message}}, WaitKind::message, 25h},
        ParkCase{"AgreeingCalls", {{.timeout = 2h}, {.timeout = 1h}}, WaitKind::external, 3h},
        ParkCase{"DifferentCalls",
                 {{.waits_for = WaitsFor::timer}, {.waits_for = WaitsFor::child}},
                 WaitKind::tool_result,
                 25h},
        ParkCase{"OneNeverExpires",
                 {{.timeout = 1h}, {.timeout = std::nullopt}},
                 WaitKind::external,
                 std::nullopt},
        ParkCase{"Approval", {{.approval = true}}, WaitKind::person, 25h}),
    [](const auto& test) { return test.param.name; });

// S0-04 S0-54 S0-56: one commit holds the calls, the token and the wait; then it is safe to stop.
TEST(WaitRulesTest, ParkingWritesCallsTokenAndWaitInThisOrder) {
    SessionDriver session(1);
    session.begin({CallSpec{}, CallSpec{}});
    Kinds kinds;
    for (const Record& record : session.log())
        kinds.emplace_back(kind_of(record.body));
    EXPECT_EQ(kinds, (Kinds{"session.created", "message.user", "run.started", "message.assistant",
                            "pending.created", "pending.created", "token.minted", "run.waiting"}));
}

TEST(WaitRulesTest, OnlyAnOpenRunThatComputesCanPark) {
    SessionDriver driver(1);
    driver.commit(driver.create());
    const auto refused = [&] { return reason_of(driver.park({CallSpec{}})); };
    EXPECT_EQ(refused(), "not_running");  // no run
    driver.commit(driver.message());
    const ParkCommand other{RunId("run_other"), WaitId("wait_1"), {}, {}, true, std::nullopt};
    EXPECT_EQ(reason_of(plan_park(driver.state(), other)), "not_running");
    driver.commit(driver.say_and_park({CallSpec{}}));
    EXPECT_EQ(refused(), "not_running");  // parked already
    driver.commit(driver.cancel(CancelMode::discard));
    EXPECT_EQ(refused(), "not_running");  // ended
}

// A very fast callback: the result is there before the turn came to park.
TEST(WaitRulesTest, NoWaitIsMadeWhenAllResultsAreThere) {
    SessionDriver driver(1);
    driver.begin();
    driver.commit(driver.say(1));
    driver.commit(driver.start_async(CallSpec{}));
    const PendingId call = driver.open_calls().at(0).pending_id;
    const Result<SettlePlan> settled =
        plan_settle(driver.state(), call, text_result("quick"), driver.boot(), driver.now());
    ASSERT_TRUE(settled);
    EXPECT_FALSE(settled->resumed);
    EXPECT_EQ(kinds_of(settled->records), (Kinds{"pending.completed"}));
    driver.commit(settled->records);
    const Result<Records> parked = driver.park({});
    ASSERT_TRUE(parked);
    EXPECT_TRUE(parked->empty());
    EXPECT_TRUE(driver.commit(driver.complete()));
}

TEST(WaitRulesTest, AParkTakesInTheCallsThatWereStartedBefore) {
    SessionDriver driver(1);
    driver.begin();
    driver.commit(driver.say(2));
    driver.commit(driver.start_async(CallSpec{.waits_for = WaitsFor::external, .timeout = 9h}));
    driver.commit(driver.park({CallSpec{.waits_for = WaitsFor::person, .timeout = 1h}}));
    EXPECT_EQ(driver.open_calls().size(), 2U);
    EXPECT_EQ(driver.state().run->wait->kind, WaitKind::tool_result);
    EXPECT_EQ(driver.state().run->wait->deadline_at, driver.now() + 10h);
}

// ---- settling by the pending id: status × payload (S0-59, S3-63) ------------------------------

struct SettleCase {
    PendingStatus status;
    std::array<std::string, 5> want;  // same result, other result, same failure, other, cancel
};
void PrintTo(const SettleCase& c, std::ostream* out) {
    *out << to_string(c.status);
}
class SettleTest : public ::testing::TestWithParam<SettleCase> {
 protected:
    static std::array<Settlement, 5> payloads() {
        return {text_result("done"), text_result("done, differently"), CallFailure{"no luck"},
                CallFailure{"no money"}, CallCancelled{}};
    }

    // The first of two calls in the given status; the second stays open.
    static void bring_to(PendingStatus status, SessionDriver& session) {
        const PendingId id = session.pending(0);
        switch (status) {
            case PendingStatus::waiting: break;
            case PendingStatus::processing: session.commit(session.claim(id, "w", 1min)); break;
            case PendingStatus::completed: session.commit(session.settle(id, payloads()[0])); break;
            case PendingStatus::failed: session.commit(session.settle(id, payloads()[2])); break;
            case PendingStatus::cancelled: session.commit(session.settle(id, payloads()[4])); break;
            case PendingStatus::expired:
                session.clock().advance(1h);
                session.commit(session.due());
                break;
        }
        EXPECT_EQ(session.state().pending[0].status, status);
    }
};

TEST_P(SettleTest, IsAcceptedRepeatedOrRefused) {
    for (std::size_t i = 0; i < payloads().size(); ++i) {
        SessionDriver session(1);
        session.begin({CallSpec{.timeout = 1h}, CallSpec{.timeout = 24h}});
        bring_to(GetParam().status, session);
        const Result<SettlePlan> plan = plan_settle(session.state(), session.pending(0),
                                                    payloads()[i], session.boot(), session.now());
        EXPECT_EQ(answer_of(plan), GetParam().want[i]) << "payload " << i;
        if (!plan) continue;
        EXPECT_EQ(plan->records.size(), plan->duplicate ? 0U : 1U);  // the second is still open
        EXPECT_FALSE(plan->resumed);
    }
}

// The same answers once the wait is history and only the log remembers.
TEST_P(SettleTest, IsAnsweredFromTheLogWhenItsWaitIsHistory) {
    SessionDriver session(1);
    session.begin({CallSpec{.timeout = 1h}, CallSpec{.timeout = 24h}});
    bring_to(GetParam().status, session);
    const PendingId id = session.pending(0);
    if (is_open(GetParam().status)) return;
    session.commit(session.message());  // supersedes
    session.commit(session.say_and_park({CallSpec{}}));
    EXPECT_EQ(
        reason_of(plan_settle(session.state(), id, payloads()[0], session.boot(), session.now())),
        "unknown_pending_id");
    const std::optional<PendingCall> call = find_settled_call(session.log(), id);
    ASSERT_TRUE(call);
    for (std::size_t i = 0; i < payloads().size(); ++i) {
        EXPECT_EQ(answer_of(answer_settled(call->status, call->digest, payloads()[i])),
                  GetParam().want[i])
            << "payload " << i;
    }
}

INSTANTIATE_TEST_SUITE_P(
    Table, SettleTest,
    ::testing::Values(
        SettleCase{PendingStatus::waiting,
                   {"accepted", "accepted", "accepted", "accepted", "accepted"}},
        SettleCase{PendingStatus::processing,
                   {"accepted", "accepted", "accepted", "accepted", "accepted"}},
        SettleCase{PendingStatus::completed,
                   {"duplicate", "conflicting_result", "conflicting_result", "conflicting_result",
                    "not_waiting"}},
        SettleCase{PendingStatus::failed,
                   {"conflicting_result", "conflicting_result", "duplicate", "conflicting_result",
                    "not_waiting"}},
        SettleCase{PendingStatus::expired,
                   {"not_waiting", "not_waiting", "not_waiting", "not_waiting", "not_waiting"}},
        SettleCase{PendingStatus::cancelled,
                   {"not_waiting", "not_waiting", "not_waiting", "not_waiting", "duplicate"}}),
    [](const auto& test) { return std::string(to_string(test.param.status)); });

// S0-58, S0-59: what people read.
TEST(WaitRulesTest, RefusalsSayWhatTheSourceSays) {
    SessionDriver session(1);
    session.begin({CallSpec{}, CallSpec{}});
    const auto settle = [&](const PendingId& id, const Settlement& how) {
        return plan_settle(session.state(), id, how, session.boot(), session.now());
    };
    const Error unknown = settle(PendingId("pnd_x_1"), CallCancelled{}).error();
    EXPECT_EQ(unknown.kind, ErrorKind::not_found);
    EXPECT_EQ(unknown.message, "Unknown pending ID");
    session.commit(session.settle(session.pending(0), CallCancelled{}));
    const Error late = settle(session.pending(0), text_result("late")).error();
    EXPECT_EQ(late.kind, ErrorKind::precondition);
    EXPECT_TRUE(late.message.starts_with("Not waiting")) << late.message;
}

TEST(WaitRulesTest, SamePayloadIsEqualityOfTokensWithAbsentMetadataEmpty) {
    const auto result = [](std::string_view content, std::string_view metadata) {
        ToolResult made;
        made.content = *RawJson::parse(content);
        if (!metadata.empty()) made.metadata = *RawJson::parse(metadata);
        return made;
    };
    const std::string digest = digest_of(result(R"([{"n":1.0}])", ""));
    EXPECT_EQ(digest, digest_of(result(R"( [ { "n" : 1.0 } ] )", "{}")));
    EXPECT_NE(digest, digest_of(result(R"([{"n":1}])", "")));
    EXPECT_NE(digest, digest_of(result(R"([{"n":1.0}])", R"({"a":1})")));
    ToolResult error = result(R"([{"n":1.0}])", "");
    error.is_error = true;
    EXPECT_NE(digest, digest_of(error));
}

// ---- the last result resumes (S0-62, S0-63, S3-46) --------------------------------------------

TEST(WaitRulesTest, BothOrdersOfTwoResultsResumeOnceAndReadTheSame) {
    for (const auto& order : {std::array<std::size_t, 2>{0, 1}, std::array<std::size_t, 2>{1, 0}}) {
        SessionDriver session(1);
        session.begin({CallSpec{}, CallSpec{}});
        const std::array<PendingId, 2> ids = {session.pending(0), session.pending(1)};
        const std::array<ToolResult, 2> results = {text_result("one"), text_result("two")};

        session.commit(session.settle(ids[order[0]], results[order[0]]));
        EXPECT_TRUE(session.state().is_parked());
        EXPECT_EQ(session.status(), SessionStatus::waiting);

        const Result<SettlePlan> last = plan_settle(
            session.state(), ids[order[1]], results[order[1]], session.boot(), session.now());
        ASSERT_TRUE(last);
        EXPECT_TRUE(last->resumed);
        EXPECT_EQ(kinds_of(last->records),
                  (Kinds{"pending.completed", "token.consumed", "run.resumed"}));
        session.commit(last->records);
        EXPECT_EQ(session.status(), SessionStatus::running);
        EXPECT_TRUE(session.state().run->resume_unapplied);

        const std::vector<ToolPart>& parts = session.transcript().entries().back().parts;
        EXPECT_EQ(parts.at(0).result, results[0]);
        EXPECT_EQ(parts.at(1).result, results[1]);
    }
}

TEST(WaitRulesTest, ARunKeepsItsIdOverWaitsAndEachWaitHasItsOwn) {
    SessionDriver session(1);
    session.begin({CallSpec{}});
    const RunId run = session.state().run->run_id;
    const WaitId first = session.state().run->wait->wait_id;
    session.commit(session.settle(session.pending(0), text_result("one")));
    session.commit(session.say_and_park({CallSpec{}}));
    EXPECT_EQ(session.state().run->run_id, run);
    EXPECT_NE(session.state().run->wait->wait_id, first);
    EXPECT_EQ(session.state().tokens.size(), 1U);  // those of the first wait are history
}

// ---- the wait's own door (S3-46, S3-63) -------------------------------------------------------

TEST(WaitRulesTest, ATokenWithAllResultsResumes) {
    SessionDriver session(1);
    session.begin({CallSpec{}, CallSpec{}});
    const auto plan =
        try_resume(session, {{kSecond, text_result("two")}, {kFirst, text_result("one")}});
    ASSERT_TRUE(plan);
    EXPECT_TRUE(plan->resumed);
    EXPECT_TRUE(plan->remaining.empty());
    EXPECT_EQ(kinds_of(plan->records),
              (Kinds{"pending.completed", "pending.completed", "token.consumed", "run.resumed"}));
}

TEST(WaitRulesTest, PartialResultsKeepTheRunWaitingUnderTheSameToken) {
    SessionDriver session(1);
    session.begin({CallSpec{}, CallSpec{}});
    const auto plan = try_resume(session, {{kSecond, text_result("two")}});
    ASSERT_TRUE(plan);
    EXPECT_FALSE(plan->resumed);
    EXPECT_EQ(plan->remaining, (std::vector<CallId>{kFirst}));
    EXPECT_EQ(kinds_of(plan->records), (Kinds{"pending.completed"}));
    session.commit(plan->records);
    EXPECT_EQ(session.status(), SessionStatus::waiting);
    EXPECT_TRUE(validate_token(session.state(), session.tokens().back(), session.now()));

    // Sent again it changes nothing; the rest resumes.
    const auto again = try_resume(session, {{kSecond, text_result("two")}});
    EXPECT_EQ(answer_of(again), "duplicate");
    EXPECT_TRUE(again->records.empty());
    EXPECT_EQ(again->remaining, (std::vector<CallId>{kFirst}));
    EXPECT_TRUE(try_resume(session, {{kFirst, text_result("one")}})->resumed);
}

TEST(WaitRulesTest, OneBadResultAndNoneIsTaken) {
    SessionDriver session(1);
    session.begin({CallSpec{}, CallSpec{}});
    const auto unknown =
        try_resume(session, {{kFirst, text_result("one")}, {CallId{"call_9"}, text_result("x")}});
    EXPECT_EQ(answer_of(unknown), "unknown_pending_tool_call");
    const auto torn =
        try_resume(session, {{kFirst, text_result("one")}, {kFirst, text_result("other")}});
    EXPECT_EQ(answer_of(torn), "conflicting_result");
    const auto twice =
        try_resume(session, {{kFirst, text_result("one")}, {kFirst, text_result("one")}});
    ASSERT_TRUE(twice);
    EXPECT_EQ(twice->records.size(), 1U);
    session.commit(session.settle(session.pending(0), text_result("one")));
    const auto conflict =
        try_resume(session, {{kSecond, text_result("two")}, {kFirst, text_result("other")}});
    EXPECT_EQ(answer_of(conflict), "conflicting_result");
}

TEST(WaitRulesTest, ResumeSaysWhatIsMissing) {
    SessionDriver session(1);
    session.begin({CallSpec{}});
    EXPECT_EQ(answer_of(try_resume(session, {})), "resume_required");
    SessionDriver idle(2);
    idle.commit(idle.create());
    const ResumeCommand bare{std::nullopt, {{kFirst, text_result("x")}}, idle.boot()};
    EXPECT_EQ(answer_of(plan_resume(idle.state(), bare, idle.now())), "no_suspended_turn");
    // Callers who may do without a token resume all the same.
    EXPECT_EQ(answer_of(plan_resume(session.state(), bare, session.now())), "accepted");
}

// "The same token with the same results again is a duplicate, with other results a conflict."
TEST(WaitRulesTest, AUsedTokenAnswersTheSameResultsAgain) {
    SessionDriver session(1);
    session.begin({CallSpec{}, CallSpec{}});
    const std::pair<CallId, ToolResult> one = {kFirst, text_result("one")};
    const std::pair<CallId, ToolResult> two = {kSecond, text_result("two")};
    session.commit(try_resume(session, {one, two})->records);
    EXPECT_EQ(answer_of(try_resume(session, {one, two})), "duplicate");
    EXPECT_EQ(answer_of(try_resume(session, {two, one})), "duplicate");
    EXPECT_EQ(answer_of(try_resume(session, {one})), "duplicate");
    EXPECT_EQ(answer_of(try_resume(session, {{kFirst, text_result("other")}, two})),
              "conflicting_result");
    // Also when the turn has moved on and another run has begun.
    session.commit(session.say(0));
    session.commit(session.complete());
    EXPECT_EQ(answer_of(try_resume(session, {one, two})), "duplicate");
    session.commit(session.message());
    EXPECT_EQ(answer_of(try_resume(session, {one, two})), "duplicate");
}

TEST(WaitRulesTest, TheTwoDoorsKnowOfEachOther) {
    SessionDriver session(1);
    session.begin({CallSpec{}, CallSpec{}});
    const std::pair<CallId, ToolResult> one = {kFirst, text_result("one")};
    const PendingId first = session.pending(0);
    const PendingId second = session.pending(1);
    session.commit(try_resume(session, {one})->records);
    EXPECT_EQ(
        answer_of(plan_settle(session.state(), first, one.second, session.boot(), session.now())),
        "duplicate");
    session.commit(session.settle(second, text_result("two")));  // resumes
    EXPECT_EQ(session.status(), SessionStatus::running);
    // The client whose answer got lost asks again with the token that the other door consumed.
    EXPECT_EQ(answer_of(try_resume(session, {one})), "duplicate");
    EXPECT_EQ(answer_of(try_resume(session, {{kFirst, text_result("other")}})),
              "conflicting_result");
}

// S3-39, S3-62: a wait that lost its token, or whose time is up, is over for both doors.
TEST(WaitRulesTest, AWaitWithoutAGoodTokenCannotBeResumed) {
    SessionDriver session(1);
    session.begin({CallSpec{.timeout = 1h}});
    const PendingId id = session.pending(0);
    std::vector<std::pair<std::string, SessionState>> states;
    for (const TokenStatus status :
         {TokenStatus::consumed, TokenStatus::revoked, TokenStatus::expired}) {
        states.emplace_back(to_string(status), session.state());
        states.back().second.tokens.back().status = status;
    }
    states.emplace_back("missing", session.state());
    states.back().second.tokens.clear();
    states.emplace_back("token's time passed", session.state());
    states.back().second.tokens.back().expires_at = session.now();
    states.emplace_back("deadline passed", session.state());
    states.back().second.run->wait->deadline_at = session.now();
    for (const auto& [what, state] : states) {
        EXPECT_EQ(project(state, session.boot(), session.now()).status,
                  SessionStatus::interrupted_waiting)
            << what;
        EXPECT_EQ(
            answer_of(plan_settle(state, id, text_result("x"), session.boot(), session.now())),
            "not_waiting")
            << what;
        for (const bool with_token : {true, false}) {
            ResumeCommand command{std::nullopt, {{kFirst, text_result("x")}}, session.boot()};
            if (with_token) command.token = session.tokens().back();
            EXPECT_FALSE(plan_resume(state, command, session.now())) << what;
        }
        EXPECT_FALSE(plan_extend(state, session.now() + 9h, session.now())) << what;
    }
}

// ---- rotation --------------------------------------------------------------------------------

TEST(WaitRulesTest, RotationGivesTheSameWaitANewTokenAndRevokesTheOld) {
    SessionDriver session(1);
    session.begin({CallSpec{}});
    const Wait before = *session.state().run->wait;
    const PresentedToken old = session.tokens().back();
    session.commit(session.rotate_token());
    Wait after = *session.state().run->wait;
    EXPECT_EQ(after.resume_token_id, session.tokens().back().token_id);
    after.resume_token_id = before.resume_token_id;
    EXPECT_EQ(after, before);  // kind, deadline, since_seq, id
    EXPECT_EQ(reason_of(validate_token(session.state(), old, session.now())), "token_revoked");
    EXPECT_TRUE(try_resume(session, {{kFirst, text_result("x")}})->resumed);
}

TEST(WaitRulesTest, ManyRotationsLeaveOneGoodToken) {
    SessionDriver session(1);
    session.begin({CallSpec{}});
    for (int i = 0; i < 40; ++i)
        session.commit(session.rotate_token());
    int good = 0;
    for (const PresentedToken& token : session.tokens()) {
        if (validate_token(session.state(), token, session.now())) ++good;
    }
    EXPECT_EQ(good, 1);
    EXPECT_LE(session.state().tokens.size(), 16U);  // the state stays small
}

TEST(WaitRulesTest, WithoutAWaitThereIsNothingToRotate) {
    SessionDriver driver(1);
    driver.commit(driver.create());
    EXPECT_EQ(reason_of(driver.rotate_token()), "no_suspended_turn");
}

}  // namespace
}  // namespace rouse
