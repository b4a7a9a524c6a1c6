// Hooks: when they run, what they see, what they may change, and what a veto leaves behind
// (lessons 2.2).

#include "rouse/hooks.h"

#include <gtest/gtest.h>

#include "testing/agent_kit.h"

namespace rouse {
namespace {

using namespace testing;

class HooksTest : public KeptTest {
 protected:
    Agent& make_agent(std::vector<ScriptEntry> script, Hooks hooks, bool parallel = true) {
        model_ = playing(std::move(script));
        AgentOptions options;
        options.model = model_;
        options.tools = {suspending("ask").tool, answering("look", "seen").tool};
        options.hooks = std::move(hooks);
        options.parallel_tool_calls = parallel;
        options.on_warning = [this](std::string_view text) { warnings_.emplace_back(text); };
        agent_ = std::make_unique<Agent>(std::move(options));
        return *agent_;
    }

    std::shared_ptr<WatchedModel> model_;
    std::unique_ptr<Agent> agent_;
    std::vector<std::string> warnings_;
    CallLog calls_ = std::make_shared<std::vector<std::string>>();
};

INSTANTIATE_TEST_SUITE_P(Sessions, HooksTest,
                         ::testing::Values(Keeping::nowhere, Keeping::memory, Keeping::durable),
                         keeping_name);

HookVerdict go_on(HookContext&) {
    return HookVerdict::go_on();
}
std::function<HookVerdict(HookContext&)> aborting(const std::string& why) {
    return [why](HookContext&) { return HookVerdict::abort(why); };
}

const std::vector<ScriptEntry> kTwoAsk = {calls({{"c1", "ask"}, {"c2", "look"}, {"c3", "ask"}}),
                                          says("ok")};

// S2-66 S2-68 S2-97
TEST_P(HooksTest, OnSuspendRunsOnceBeforePostGenerationAndNotForAPartOfTheAnswers) {
    Agent& agent = make_agent(kTwoAsk, watching(calls_));
    TurnResult first = agent.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(joined(*calls_),
              "pre_generation pre_tool_use:c1 pre_tool_use:c2 pre_tool_use:c3 post_tool_use:c2 "
              "on_suspend post_generation");
    calls_->clear();
    TurnResult second = agent.respond_and_wait(go_on_with(*first, {result_for("c3", "3")}));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(joined(*calls_), "post_tool_use:c3");
    calls_->clear();
    TurnResult third = agent.respond_and_wait(go_on_with(*second, {result_for("c1", "1")}));
    ASSERT_TRUE(third) << third.error().message;
    EXPECT_EQ(joined(*calls_), "post_tool_use:c1 pre_generation stop post_generation");
}

TEST_P(HooksTest, OnSuspendRunsAgainWhenACallThatHadNotStartedSuspends) {  // S2-69
    Agent& agent = make_agent(kTwoAsk, watching(calls_), false);
    TurnResult first = agent.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    calls_->clear();
    TurnResult second = agent.respond_and_wait(go_on_with(*first, {result_for("c1", "1")}));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(joined(*calls_),
              "post_tool_use:c1 pre_tool_use:c2 post_tool_use:c2 pre_tool_use:c3 on_suspend "
              "post_generation");
}

TEST_P(HooksTest, PostHooksOfAResumeRunInTheOrderOfTheCalls) {  // 2.2
    Agent& agent = make_agent(kTwoAsk, watching(calls_));
    TurnResult first = agent.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    calls_->clear();
    ASSERT_TRUE(
        agent.respond_and_wait(go_on_with(*first, {result_for("c3", "3"), error_for("c1", "1")})));
    EXPECT_EQ(joined(*calls_),
              "post_tool_use_failure:c1 post_tool_use:c3 pre_generation stop post_generation");
}

TEST_P(HooksTest, OnSuspendAndPostGenerationSeeWhatTheResponseWillSay) {  // S2-67
    const auto seen = std::make_shared<std::vector<HookContext>>();
    const auto look = [seen](HookContext& context) {
        seen->push_back(context);
        return HookVerdict::go_on();
    };
    Hooks hooks;
    hooks.add(HookPoint::on_suspend, look).add(HookPoint::post_generation, look);
    TurnResult first = make_agent(kTwoAsk, hooks).respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    ASSERT_EQ(seen->size(), 2U);
    for (const HookContext& context : *seen) {
        SCOPED_TRACE(to_string(context.point));
        ASSERT_TRUE(context.suspension);
        EXPECT_EQ(outline(*context.suspension), "pending c1 c3 done c2=seen");
        EXPECT_EQ(context.usage, first->usage);
        EXPECT_EQ(outline(context.output_messages), outline(first->output_messages));
        EXPECT_EQ(context.session_id, session_ ? session_->id() : SessionId());
    }
}

TEST_P(HooksTest, AVetoAtTheSuspensionLeavesTheSessionAsItWas) {  // S2-27 S2-36 S2-70 S2-99 S2-130
    for (const HookPoint point : {HookPoint::on_suspend, HookPoint::post_generation}) {
        SCOPED_TRACE(to_string(point));
        const std::string before = session_snapshot();
        Hooks hooks;
        hooks.add(point, aborting("not today")).add(point, [this](HookContext&) {
            calls_->push_back("second");
            return HookVerdict::go_on();
        });
        bool ended = false;
        AgentRequest request = message("Go", session_);
        request.on_item = [&](const Item& item) -> Result<void> {
            ended = ended || std::holds_alternative<SuspendedItem>(item);
            return {};
        };
        TurnResult vetoed = make_agent(kTwoAsk, hooks).respond_and_wait(request);
        ASSERT_FALSE(vetoed);
        EXPECT_EQ(vetoed.error().kind, ErrorKind::conflict);
        EXPECT_EQ(vetoed.error().reason, "hook_abort");
        EXPECT_NE(vetoed.error().message.find(to_string(point)), std::string::npos);
        EXPECT_NE(vetoed.error().message.find("not today"), std::string::npos);
        EXPECT_EQ(joined(*calls_), "") << "the rest of the chain does not run";
        EXPECT_FALSE(ended) << "no terminal item";
        EXPECT_EQ(session_snapshot(), before);
    }
}

TEST_P(HooksTest, AVetoAnywhereInATurnEndsItAndTheNextTurnIsClean) {
    for (const HookPoint point :
         {HookPoint::pre_generation, HookPoint::pre_tool_use, HookPoint::post_tool_use,
          HookPoint::stop, HookPoint::post_generation}) {
        SCOPED_TRACE(to_string(point));
        if (session_) {
            session_ =
                is_durable() ? *sessions_->create() : make_memory_session(SessionId("another"));
        }
        const std::string before = session_snapshot();
        Hooks hooks;
        hooks.add(point, aborting("no"));
        TurnResult vetoed = make_agent({calls({{"c1", "look"}}), says("x")}, hooks)
                                .respond_and_wait(message("Go", session_));
        ASSERT_FALSE(vetoed);
        EXPECT_EQ(vetoed.error().reason, "hook_abort");
        EXPECT_EQ(session_snapshot(), before);
        TurnResult next = make_agent({says("fine")}, {}).respond_and_wait(message("Hi", session_));
        ASSERT_TRUE(next) << next.error().message;
        EXPECT_EQ(unmatched_calls(model_->requests.back()), "");
    }
}

TEST_P(HooksTest, OrdinaryErrorsAreToldAndTheChainGoesOn) {  // S2-70
    Hooks hooks = watching(calls_);
    for (std::size_t i = 0; i < std::size(kEnumNames<HookPoint>); ++i) {
        hooks.add(static_cast<HookPoint>(i),
                  [](HookContext&) { return HookVerdict::error("could not reach the pager"); });
        hooks.add(static_cast<HookPoint>(i), [this](HookContext&) {
            calls_->push_back("behind");
            return HookVerdict::go_on();
        });
    }
    Agent& agent = make_agent({calls({{"c1", "ask"}}), says("ok")}, hooks);
    TurnResult first = agent.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(joined(*calls_),
              "pre_generation behind pre_tool_use:c1 behind on_suspend behind post_generation "
              "behind");
    EXPECT_EQ(warnings_.size(), 4U);
    EXPECT_EQ(warnings_[2], "on_suspend hook: could not reach the pager");
    TurnResult second = agent.respond_and_wait(go_on_with(*first, {result_for("c1", "1")}));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(second->text(), "ok");
}

TEST_P(HooksTest, PostHooksOfAResumeSeeTheToolAndMayRewriteTheResult) {  // S2-63 S2-64
    Hooks hooks;
    hooks.add(HookPoint::post_tool_use, [this](HookContext& context) {
        EXPECT_NE(context.tool, nullptr);
        if (context.tool != nullptr) calls_->push_back(context.tool->spec().name);
        EXPECT_EQ(context.input.text(), "{}");
        EXPECT_EQ(context.session_id, session_ ? session_->id() : SessionId());
        context.result = text_result("<" + context.result->content.text() + ">");
        context.additional_context = "about " + context.call_id.text;
        return HookVerdict::go_on();
    });
    Agent& agent = make_agent({calls({{"c1", "ask"}, {"c2", "ask"}}), says("ok")}, hooks);
    TurnResult first = agent.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    TurnResult second =
        agent.respond_and_wait(go_on_with(*first, {result_for("c1", "1"), result_for("c2", "2")}));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(joined(*calls_), "ask ask");
    EXPECT_EQ(outline(model_->requests.back()),
              "u:Go | a:ask#c1,ask#c2 | u:c1=<\"1\">,c2=<\"2\"> | u:about c1 | u:about c2")
        << "context stays behind the results";
    if (session_) {
        EXPECT_EQ(history_of(*session_), second->suspension->turn_messages);
    }
}

TEST_P(HooksTest, ContextOfAPartOfTheAnswersStaysBehindTheWholeBatch) {  // 2.2
    Hooks hooks;
    hooks.add(HookPoint::post_tool_use, [](HookContext& context) {
        context.additional_context = "about " + context.call_id.text;
        return HookVerdict::go_on();
    });
    Agent& agent = make_agent(kTwoAsk, hooks);
    TurnResult first = agent.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    TurnResult second = agent.respond_and_wait(go_on_with(*first, {result_for("c3", "3")}));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(outline(second->output_messages), "") << "S2-38";
    TurnResult third = agent.respond_and_wait(go_on_with(*second, {result_for("c1", "1")}));
    ASSERT_TRUE(third) << third.error().message;
    EXPECT_EQ(outline(model_->requests.back()),
              "u:Go | a:ask#c1,look#c2,ask#c3 | u:c1=1,c2=seen,c3=3 | u:about c2 | u:about c3 | "
              "u:about c1");
    EXPECT_EQ(unmatched_calls(model_->requests.back()), "");
    if (session_) {
        EXPECT_EQ(history_of(*session_), third->suspension->turn_messages);
    }
}

TEST_P(HooksTest, AResultThatAHookTakesAwayIsRestored) {  // 2.2, #186
    Hooks hooks;
    hooks.add(HookPoint::post_tool_use, [](HookContext& context) {
        context.result.reset();
        return HookVerdict::go_on();
    });
    Agent& agent = make_agent(kTwoAsk, hooks);
    TurnResult first = agent.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(outline(*first->suspension), "pending c1 c3 done c2=seen");
    TurnResult second =
        agent.respond_and_wait(go_on_with(*first, {result_for("c1", "1"), result_for("c3", "3")}));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(outline(second->output_messages), "u:c1=1,c2=seen,c3=3 | a:ok");
}

TEST_P(HooksTest, HistoryThatAHookReplacesKeepsTheTurnAndItsResults) {  // 2.2, #192
    Hooks hooks;
    hooks.add(HookPoint::pre_generation, [](HookContext& context) {
        context.replace_history = std::vector{user_message("a summary")};
        context.replace_system = "be brief";
        return HookVerdict::go_on();
    });
    if (session_) {
        TurnResult before =
            make_agent({says("hello")}, {}).respond_and_wait(message("Hi", session_));
        ASSERT_TRUE(before) << before.error().message;
    }
    Agent& asking = make_agent({calls({{"c1", "ask"}}), says("ok")}, hooks);
    TurnResult first = asking.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    ASSERT_EQ(first->status, ResponseStatus::suspended);
    EXPECT_EQ(outline(model_->requests.back()), "u:a summary | u:Go");
    TurnResult second = asking.respond_and_wait(go_on_with(*first, {result_for("c1", "1")}));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(outline(model_->requests.back()), "u:a summary | u:Go | a:ask#c1 | u:c1=1");
    EXPECT_EQ(model_->systems.back(), "be brief");
    if (session_) {
        EXPECT_EQ(outline(history_of(*session_)),
                  "u:Hi | a:hello | u:Go | a:ask#c1 | u:c1=1 | a:ok")
            << "only for the model call";
    }
}

TEST_P(HooksTest, AVetoOnTheAnswersOfAResumeKeepsTheSuspension) {  // 2.2
    Agent& plain = make_agent(kTwoAsk, {});
    TurnResult first = plain.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    const std::string before = session_snapshot();
    for (const HookPoint point : {HookPoint::post_tool_use, HookPoint::post_tool_use_failure}) {
        Hooks hooks;
        hooks.add(point, [](HookContext& context) {
            return context.call_id.text == "c3" ? HookVerdict::abort("no") : HookVerdict::go_on();
        });
        const auto last =
            point == HookPoint::post_tool_use ? result_for("c3", "3") : error_for("c3", "3");
        TurnResult vetoed =
            make_agent(kTwoAsk, hooks)
                .respond_and_wait(go_on_with(*first, {result_for("c1", "1"), last}));
        ASSERT_FALSE(vetoed);
        EXPECT_EQ(vetoed.error().reason, "hook_abort");
        EXPECT_EQ(session_snapshot(), before);
        EXPECT_TRUE(model_->requests.empty());
    }
    TurnResult done =
        make_agent(kTwoAsk, {})
            .respond_and_wait(go_on_with(*first, {result_for("c1", "1"), result_for("c3", "3")}));
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->text(), "ok");
}

TEST_P(HooksTest, AVetoLaterInAResumeKeepsTheSuspensionOfAMemorySession) {
    if (GetParam() != Keeping::memory) GTEST_SKIP() << "a durable one has recorded the answers";
    Agent& plain = make_agent(kTwoAsk, {});
    TurnResult first = plain.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    const std::string before = session_snapshot();
    for (const HookPoint point :
         {HookPoint::pre_generation, HookPoint::stop, HookPoint::post_generation}) {
        Hooks hooks;
        hooks.add(point, aborting("no"));
        TurnResult vetoed =
            make_agent(kTwoAsk, hooks)
                .respond_and_wait(answer(session_, {result_for("c1", "1"), result_for("c3", "3")}));
        ASSERT_FALSE(vetoed);
        EXPECT_EQ(session_snapshot(), before) << to_string(point);
    }
}

TEST_P(HooksTest, AStopHookMayMakeTheTurnGoOnAndASuspensionKeepsBothParts) {  // S2-73
    Hooks hooks;
    hooks.add(HookPoint::stop, [](HookContext& context) {
        if (context.output_messages.size() == 1) context.go_on_because = "and the tests?";
        return HookVerdict::go_on();
    });
    Agent& agent = make_agent({says("built"), calls({{"c1", "ask"}}), says("all good")}, hooks);
    TurnResult first = agent.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(first->status, ResponseStatus::suspended);
    EXPECT_EQ(outline(first->output_messages), "a:built | u:and the tests? | a:ask#c1");
    EXPECT_EQ(outline(first->suspension->turn_messages),
              "u:Go | a:built | u:and the tests? | a:ask#c1");
    EXPECT_EQ(first->usage, (Usage{17, 8, 0, 0}));
    TurnResult second = agent.respond_and_wait(go_on_with(*first, {result_for("c1", "1")}));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(outline(second->suspension->turn_messages),
              "u:Go | a:built | u:and the tests? | a:ask#c1 | u:c1=1 | a:all good");
    if (session_) {
        EXPECT_EQ(history_of(*session_), second->suspension->turn_messages);
    }
}

TEST_P(HooksTest, PreToolUseMayChangeTheInputOrAnswerInTheToolsPlace) {
    Hooks hooks;
    hooks.add(HookPoint::pre_tool_use, [](HookContext& context) {
        if (context.tool_name == "look") context.result = text_result("in its place");
        if (context.tool_name == "echo") context.input = json(R"({"changed":true})");
        return HookVerdict::go_on();
    });
    const auto echo = make_tool({"echo", "gives its input back"}, [](const ToolCall& call) {
        return ToolOutcome::text(call.input.text());
    });
    const Counted look = answering("look", "seen");
    const auto model = playing({calls({{"c1", "look"}, {"c2", "echo"}}), says("ok")});
    Agent agent({.model = model, .tools = {echo, look.tool}, .hooks = hooks});
    TurnResult done = agent.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(outline(done->output_messages),
              "a:look#c1,echo#c2 | u:c1=in its place,c2={\"changed\":true} | a:ok");
    EXPECT_EQ(*look.calls, 0);
}

TEST_P(HooksTest, AsyncHooksAreWaitedFor) {
    Hooks hooks;
    hooks.add(HookPoint::stop, go_on);
    hooks.add_async(HookPoint::post_generation, [](HookContext& context) -> Task<HookVerdict> {
        co_return context.output_messages.empty() ? HookVerdict::go_on()
                                                  : HookVerdict::abort("seen it");
    });
    TurnResult vetoed = make_agent({says("x")}, hooks).respond_and_wait(message("Go", session_));
    ASSERT_FALSE(vetoed);
    EXPECT_EQ(vetoed.error().reason, "hook_abort");
}

}  // namespace
}  // namespace rouse
