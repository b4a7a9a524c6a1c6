// Tools that ask a person before each call: the call parks before it runs, and the approval is
// bound to the exact input.

#include <gtest/gtest.h>

#include "testing/agent_kit.h"

namespace rouse {
namespace {

using namespace testing;

ScriptEntry calling(decltype(ScriptEntry::call) calls) {
    ScriptEntry entry;
    entry.call = std::move(calls);
    return entry;
}

class ApprovalTest : public KeptTest {
 protected:
    ApprovalTest() {
        ToolSpec spec{"drop", "drops a table",
                      json(R"({"type":"object","properties":{"table":{"type":"string"}}})")};
        spec.annotations.approval = true;
        const auto inputs = inputs_;
        drop_ = make_tool(spec, [inputs](const ToolCall& call) {
            inputs->push_back(call.input.text());
            return ToolOutcome::text("dropped");
        });
    }

    Agent& make_agent(std::vector<ScriptEntry> script, Hooks hooks = {}, bool parallel = true) {
        model_ = playing(std::move(script));
        AgentOptions options;
        options.model = model_;
        options.tools = {drop_, suspending("ask").tool, answering("look", "seen").tool};
        options.hooks = std::move(hooks);
        options.parallel_tool_calls = parallel;
        agent_ = std::make_unique<Agent>(std::move(options));
        return *agent_;
    }
    TurnResult begin(std::vector<ScriptEntry> script, Hooks hooks = {}) {
        return make_agent(std::move(script), std::move(hooks))
            .respond_and_wait(message("Go", session_));
    }
    TurnResult go_on(const TurnResult& before, Answers answers) {
        return agent_->respond_and_wait(go_on_with(*before, std::move(answers)));
    }
    void expect_refused(const TurnResult& before, Answers answers, std::string_view reason) {
        const std::string was = session_snapshot();
        const TurnResult refused = go_on(before, std::move(answers));
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().reason, reason);
        EXPECT_TRUE(inputs_->empty());
        EXPECT_EQ(session_snapshot(), was);
    }

    std::shared_ptr<std::vector<std::string>> inputs_ =
        std::make_shared<std::vector<std::string>>();
    std::shared_ptr<Tool> drop_;
    std::shared_ptr<WatchedModel> model_;
    std::unique_ptr<Agent> agent_;
    const RawJson users_ = json(R"({"table":"users"})");
    const RawJson logs_ = json(R"({"table":"logs"})");
    const std::vector<ScriptEntry> one_ = {calling({{"drop", users_, "c1"}}), says("{{result}}")};
};

INSTANTIATE_TEST_SUITE_P(Sessions, ApprovalTest,
                         ::testing::Values(Keeping::nowhere, Keeping::memory, Keeping::durable),
                         keeping_name);

TEST_P(ApprovalTest, TheCallParksBeforeItRuns) {
    TurnResult first = begin(one_);
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(first->status, ResponseStatus::suspended);
    EXPECT_TRUE(inputs_->empty());
    const PendingToolCall& pending = first->suspension->pending_tool_calls.at(0);
    EXPECT_EQ(pending.reason, SuspendReason::approval_required);
    EXPECT_EQ(pending.waits_for, WaitsFor::person);
    EXPECT_EQ(pending.input, users_);
    EXPECT_NE(pending.prompt.find("drop"), std::string::npos);
    if (session_) {
        EXPECT_EQ(suspension_of(*session_)->pending_tool_calls,
                  first->suspension->pending_tool_calls);
    }
}

TEST_P(ApprovalTest, ApprovedItRunsOnceWithItsInput) {
    TurnResult first = begin(one_);
    ASSERT_TRUE(first) << first.error().message;
    TurnResult done = go_on(first, {approval_for("c1", Approval::yes())});
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->text(), "dropped");
    EXPECT_EQ(joined(*inputs_), users_.text());
}

TEST_P(ApprovalTest, TheToolGetsTheInputThatWasEdited) {
    TurnResult first = begin(one_);
    ASSERT_TRUE(first) << first.error().message;
    TurnResult done = go_on(first, {approval_for("c1", Approval::with_input(logs_))});
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->text(), "dropped");
    EXPECT_EQ(joined(*inputs_), logs_.text());
    EXPECT_EQ(unmatched_calls(model_->requests.back()), "");
}

TEST_P(ApprovalTest, AnEditedInputMustFitTheSchemaToo) {
    TurnResult first = begin(one_);
    ASSERT_TRUE(first) << first.error().message;
    TurnResult done =
        go_on(first, {approval_for("c1", Approval::with_input(json(R"({"table":7})")))});
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_TRUE(inputs_->empty());
    EXPECT_NE(done->text().find("does not fit"), std::string::npos) << done->text();
}

TEST_P(ApprovalTest, DeniedItDoesNotRunAndTheModelGetsTheMessage) {
    const CallLog log = std::make_shared<std::vector<std::string>>();
    TurnResult first = begin(one_, watching(log));
    ASSERT_TRUE(first) << first.error().message;
    log->clear();
    TurnResult done = go_on(first, {approval_for("c1", Approval::no("not on a Friday"))});
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_TRUE(inputs_->empty());
    EXPECT_EQ(outline(done->output_messages), "u:c1!not on a Friday | a:not on a Friday");
    EXPECT_EQ(joined(*log), "post_tool_use_failure:c1 pre_generation stop post_generation");
    if (session_) {
        EXPECT_EQ(history_of(*session_), done->suspension->turn_messages);
    }
}

TEST_P(ApprovalTest, ADenialWithoutAMessageStillSaysSo) {
    TurnResult first = begin(one_);
    ASSERT_TRUE(first) << first.error().message;
    TurnResult done = go_on(first, {approval_for("c1", Approval::no(""))});
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->text(), "Denied");
}

TEST_P(ApprovalTest, AnErrorResultCountsAsADenial) {
    TurnResult first = begin(one_);
    ASSERT_TRUE(first) << first.error().message;
    TurnResult done = go_on(first, {error_for("c1", "nobody is there")});
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_TRUE(inputs_->empty());
    EXPECT_EQ(outline(done->output_messages), "u:c1!nobody is there | a:nobody is there");
}

TEST_P(ApprovalTest, APlainResultIsRefused) {
    TurnResult first = begin(one_);
    ASSERT_TRUE(first) << first.error().message;
    expect_refused(first, {result_for("c1", "done")}, "decision_required");
    TurnResult done = go_on(first, {approval_for("c1", Approval::yes())});
    ASSERT_TRUE(done) << done.error().message;
}

TEST_P(ApprovalTest, AnApprovalHoldsOnlyForTheInputThatWasShown) {
    TurnResult first = begin(one_);
    ASSERT_TRUE(first) << first.error().message;
    Approval stale = Approval::yes();
    stale.input_digest = digest_of_input(logs_);
    expect_refused(first, {approval_for("c1", stale)}, "digest_mismatch");
    Approval fresh = Approval::yes();
    fresh.input_digest = digest_of_input(first->suspension->pending_tool_calls[0].input);
    TurnResult done = go_on(first, {approval_for("c1", fresh)});
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(joined(*inputs_), users_.text());
}

// What the person sees is what the hook made of it, and that is what runs.
TEST_P(ApprovalTest, AnInputThatAHookChangedIsTheOneThatIsShownApprovedAndRun) {
    const auto hook = [logs = logs_](HookContext& context) {
        if (context.input.text().find("users") != std::string::npos) context.input = logs;
        return HookVerdict::go_on();
    };
    Hooks hooks;
    hooks.add(HookPoint::pre_tool_use, hook);
    TurnResult first = begin(one_, hooks);
    ASSERT_TRUE(first) << first.error().message;
    const PendingToolCall& pending = first->suspension->pending_tool_calls.at(0);
    EXPECT_EQ(pending.input, logs_);
    if (session_) {
        EXPECT_EQ(suspension_of(*session_)->pending_tool_calls.at(0).input, logs_);
    }
    Approval approval = Approval::yes();
    approval.input_digest = digest_of_input(pending.input);
    TurnResult done = go_on(first, {approval_for("c1", approval)});
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(joined(*inputs_), logs_.text());
}

TEST_P(ApprovalTest, AHookDoesNotChangeWhatWasApproved) {
    const auto hook = [logs = logs_](HookContext& context) {
        context.input = logs;
        return HookVerdict::go_on();
    };
    Hooks hooks;
    hooks.add(HookPoint::pre_tool_use, hook);
    TurnResult first = begin(one_, hooks);
    ASSERT_TRUE(first) << first.error().message;
    TurnResult done = go_on(first, {approval_for("c1", Approval::with_input(users_))});
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(joined(*inputs_), users_.text());
}

TEST_P(ApprovalTest, TwoApprovalsMayBeAnsweredOneByOneAndRunWhenNothingWaits) {
    TurnResult first =
        begin({calling({{"drop", users_, "c1"}, {"drop", logs_, "c2"}, {"drop", logs_, "c3"}}),
               says("ok")});
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(outline(*first->suspension), "pending c1 c2 c3");
    TurnResult second = go_on(first, {approval_for("c2", Approval::with_input(users_))});
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(outline(*second->suspension), "pending c1 c3 approved c2");
    EXPECT_TRUE(inputs_->empty()) << "not while another waits";
    if (session_) {
        const std::optional<Suspension> kept = suspension_of(*session_);
        ASSERT_TRUE(kept);
        EXPECT_EQ(outline(*kept), "pending c1 c3 approved c2");
        EXPECT_EQ(kept->approved_tool_calls.at(0).input, users_);
    }
    expect_refused(second, {approval_for("c2", Approval::no("changed my mind"))},
                   "unknown_pending_tool_call");
    TurnResult third = go_on(second, {approval_for("c1", Approval::no("never"))});
    ASSERT_TRUE(third) << third.error().message;
    EXPECT_EQ(outline(*third->suspension), "pending c3 done c1!never approved c2");
    TurnResult done = go_on(third, {approval_for("c3", Approval::yes())});
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(outline(done->output_messages), "u:c1!never,c2=dropped,c3=dropped | a:ok");
    EXPECT_EQ(joined(*inputs_), users_.text() + " " + logs_.text());
}

TEST_P(ApprovalTest, AnApprovalAndAnOrdinarySuspensionShareABatch) {
    TurnResult first = begin(
        {calling({{"ask", json("{}"), "c1"}, {"drop", users_, "c2"}, {"look", json("{}"), "c3"}}),
         says("ok")});
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(outline(*first->suspension), "pending c1 c2 done c3=seen");
    expect_refused(first, {result_for("c1", "1"), result_for("c2", "2")}, "decision_required");
    expect_refused(first,
                   {approval_for("c1", Approval::yes()), approval_for("c2", Approval::yes())},
                   "result_required");
    TurnResult second = go_on(first, {approval_for("c2", Approval::yes())});
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(outline(*second->suspension), "pending c1 done c3=seen approved c2");
    TurnResult done = go_on(second, {result_for("c1", "1")});
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(outline(done->output_messages), "u:c1=1,c2=dropped,c3=seen | a:ok");
    EXPECT_EQ(inputs_->size(), 1U);
}

TEST_P(ApprovalTest, InASequentialAgentTheCallsBehindWaitForTheDecision) {
    Agent& agent = make_agent(
        {calling({{"look", json("{}"), "c1"}, {"drop", users_, "c2"}, {"drop", logs_, "c3"}}),
         says("ok")},
        {}, false);
    TurnResult first = agent.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(outline(*first->suspension), "pending c2 done c1=seen");
    TurnResult second = go_on(first, {approval_for("c2", Approval::yes())});
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(outline(*second->suspension), "pending c3 done c1=seen c2=dropped");
    TurnResult done = go_on(second, {approval_for("c3", Approval::no("enough"))});
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(outline(done->output_messages).substr(0, 29), "u:c1=seen,c2=dropped,c3!enoug");
    EXPECT_EQ(joined(*inputs_), users_.text());
}

}  // namespace
}  // namespace rouse
