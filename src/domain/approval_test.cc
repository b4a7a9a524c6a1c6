// Calls that a person lets run, or not, before they run.

#include <gtest/gtest.h>

#include "base/digest.h"
#include "domain/wait_rules.h"
#include "testing/session_driver.h"

namespace rouse {
namespace {

using testing::CallSpec;
using testing::reason_of;
using testing::SessionDriver;
using namespace std::chrono_literals;

const CallId kCall{"call_1"};

Decision approve() {
    Decision decision;
    decision.approve = true;
    return decision;
}
Decision approve_with(std::string_view input) {
    Decision decision = approve();
    decision.input = *RawJson::parse(input);
    return decision;
}
Decision deny(std::string message) {
    Decision decision;
    decision.message = std::move(message);
    return decision;
}

struct ApprovalTest : ::testing::Test {
    SessionDriver driver{1};
    PendingId call;

    void SetUp() override {
        driver.begin({CallSpec{.approval = true}});
        call = driver.pending(0);
    }
    Result<SettlePlan> decide(const Decision& decision) {
        return plan_decide(driver.state(), call, decision, driver.boot(), driver.now());
    }
    std::string answer(const Decision& decision) {
        const Result<SettlePlan> plan = decide(decision);
        if (!plan) return std::string(plan.error().reason);
        EXPECT_EQ(plan->duplicate, plan->records.empty());
        return plan->duplicate ? "duplicate" : "accepted";
    }
    const ToolPart& part() { return driver.transcript().entries().back().parts.at(0); }
};

TEST_F(ApprovalTest, AnApprovedCallRunsWhenTheTurnGoesOn) {
    driver.commit(decide(approve())->records);
    EXPECT_EQ(driver.status(), SessionStatus::running);
    EXPECT_EQ(driver.state().calls.at(0).phase, CallPhase::approved);
    EXPECT_EQ(part().result, std::nullopt);  // approval is not a result
    EXPECT_EQ(reason_of(driver.complete()), "open_calls");
    driver.commit(driver.start_tool(kCall));
    driver.commit(driver.end_tool(kCall, text_result("done")));
    EXPECT_EQ(part().result, text_result("done"));
    EXPECT_TRUE(driver.commit(driver.complete()));
}

TEST_F(ApprovalTest, EditedInputIsWhatRunsAndWhatTheDigestBinds) {
    const Result<SettlePlan> plan = decide(approve_with(R"({"branch": "safe", "n": 1.0})"));
    ASSERT_TRUE(plan);
    const auto& record = std::get<PendingApproved>(plan->records.at(0));
    EXPECT_EQ(record.input.text(), R"({"branch":"safe","n":1.0})");
    EXPECT_EQ(record.input_digest, sha256_hex(R"({"branch":"safe","n":1.0})"));
    driver.commit(plan->records);
    EXPECT_EQ(part().input.text(), R"({"branch":"safe","n":1.0})");
    // What the model wrote stays what the model wrote.
    const auto* said = driver.transcript().entries().back().content.back().get_if<ToolUseBlock>();
    ASSERT_NE(said, nullptr);
    EXPECT_EQ(said->input.text(), "{}");
}

TEST_F(ApprovalTest, AnApprovalIsBoundToTheInputThatWasSeen) {
    Decision decision = approve();
    decision.input_digest = sha256_hex("{\"other\":1}");
    EXPECT_EQ(answer(decision), "digest_mismatch");
    decision.input_digest = driver.open_calls()[0].input_digest;
    EXPECT_EQ(answer(decision), "accepted");
}

TEST_F(ApprovalTest, ADenialIsAResultForTheModel) {
    driver.commit(decide(deny("Not on a Friday"))->records);
    EXPECT_EQ(driver.status(), SessionStatus::running);
    EXPECT_EQ(part().result, error_result("Not on a Friday"));
    EXPECT_TRUE(driver.commit(driver.complete()));
}

TEST_F(ApprovalTest, ADenialNeedsNoWords) {
    driver.commit(decide(deny(""))->records);
    EXPECT_EQ(part().result, error_result("Denied"));
}

// Decided twice: the same is a duplicate, anything else comes too late.
TEST_F(ApprovalTest, TheFirstDecisionStays) {
    struct Case {
        std::string name;
        Decision first;
        Decision second;
        std::string want;
    };
    const std::vector<Case> cases = {
        {"approve, approve", approve(), approve(), "duplicate"},
        {"approve, approve edited", approve(), approve_with("{\"x\":1}"), "conflicting_result"},
        {"edited, the same edit", approve_with("{\"x\":1}"), approve_with("{\"x\": 1}"),
         "duplicate"},
        {"edited, another edit", approve_with("{\"x\":1}"), approve_with("{\"x\":2}"),
         "conflicting_result"},
        {"approve, deny", approve(), deny("no"), "conflicting_result"},
        {"deny, approve", deny("no"), approve(), "conflicting_result"},
        {"deny, deny", deny("no"), deny("no"), "duplicate"},
        {"deny, deny in other words", deny("no"), deny("never"), "conflicting_result"},
    };
    for (const Case& c : cases) {
        SessionDriver session(1);
        session.begin({CallSpec{.approval = true}});
        ASSERT_TRUE(session.commit(session.decide(session.pending(0), c.first))) << c.name;
        const Result<SettlePlan> plan = plan_decide(session.state(), session.pending(0), c.second,
                                                    session.boot(), session.now());
        const std::string got = !plan             ? std::string(plan.error().reason)
                                : plan->duplicate ? "duplicate"
                                                  : "accepted";
        EXPECT_EQ(got, c.want) << c.name;
    }
}

TEST_F(ApprovalTest, OnlyADecisionOpensTheDoor) {
    EXPECT_EQ(reason_of(driver.settle(call, text_result("forged"))), "decision_required");
    EXPECT_EQ(reason_of(driver.resume(driver.tokens().back(), {{kCall, text_result("forged")}})),
              "decision_required");
    EXPECT_TRUE(driver.settle(call, CallCancelled{}));
}

TEST_F(ApprovalTest, AnOrdinaryCallHasNothingToDecide) {
    SessionDriver session(1);
    session.begin({CallSpec{.waits_for = WaitsFor::person}});
    for (const Decision& decision : {approve(), deny("no")}) {
        EXPECT_EQ(reason_of(session.decide(session.pending(0), decision)), "result_required");
    }
}

TEST_F(ApprovalTest, UnknownCancelledAndExpiredCallsCannotBeDecided) {
    for (const Decision& decision : {approve(), deny("no")}) {
        EXPECT_EQ(reason_of(driver.decide(PendingId("pnd_1_2"), decision)), "unknown_pending_id");
        SessionDriver expired(1);
        expired.begin({CallSpec{.timeout = 1h, .approval = true}});
        expired.clock().advance(3h);
        EXPECT_EQ(reason_of(expired.decide(expired.pending(0), decision)), "not_waiting");
        expired.commit(expired.due());
        EXPECT_EQ(reason_of(expired.decide(expired.pending(0), decision)), "not_waiting");
        SessionDriver cancelled(1);
        cancelled.begin({CallSpec{.approval = true}});
        cancelled.commit(cancelled.settle(cancelled.pending(0), CallCancelled{}));
        EXPECT_EQ(reason_of(cancelled.decide(cancelled.pending(0), decision)), "not_waiting");
    }
}

TEST_F(ApprovalTest, OneOfTwoCallsKeepsTheRunWaiting) {
    SessionDriver session(1);
    session.begin({CallSpec{.approval = true}, CallSpec{}});
    session.commit(session.decide(session.pending(0), approve()));
    EXPECT_EQ(session.status(), SessionStatus::waiting);
    EXPECT_EQ(session.open_calls().size(), 1U);
    session.commit(session.settle(session.pending(1), text_result("two")));
    EXPECT_EQ(session.status(), SessionStatus::running);
}

}  // namespace
}  // namespace rouse
