// The twelve cases of S2-116 for ask_user.

#include "rouse/ask_user.h"

#include <gtest/gtest.h>

#include "testing/agent_kit.h"

namespace rouse {
namespace {

using namespace testing;

RawJson asking(const AskUserInput& input) {
    return json(to_json(input));
}

ToolOutcome ask(const std::shared_ptr<Tool>& tool, const AskUserInput& input) {
    return wait_for(tool->call({CallId{"c1"}, "ask_user", asking(input), {}}));
}

class Denying final : public Dialog {
 public:
    Task<Result<AskUserOutput>> ask(AskUserInput) override { co_return AskUserOutput{"no", false}; }
};

class Untouchable final : public Dialog {
 public:
    Task<Result<AskUserOutput>> ask(AskUserInput) override {
        ADD_FAILURE() << "the dialog was used";
        co_return AskUserOutput{};
    }
};

class Broken final : public Dialog {
 public:
    Task<Result<AskUserOutput>> ask(AskUserInput) override {
        co_return Error(ErrorKind::io, "closed", "the window was closed");
    }
};

const AskUserInput kConfirm{"Deploy?", AskType::confirm, {}};
const AskUserInput kSelect{"Which?", AskType::select, {"red", "blue"}};
const AskUserInput kText{"Why?", AskType::text, {}};

TEST(AskUserTest, ItsNameIsAskUser) {
    EXPECT_EQ(ask_user_tool({})->spec().name, "ask_user");
}

TEST(AskUserTest, ItsSchemaNamesQuestionTypeAndOptions) {
    EXPECT_EQ(ask_user_tool({})->spec().parameters.text(),
              R"({"type":"object","properties":{"question":{"type":"string"},"type":)"
              R"({"type":"string","enum":["confirm","select","text"]},"options":)"
              R"({"type":"array","items":{"type":"string"}}},"required":["question","type"],)"
              R"("additionalProperties":false})");
}

TEST(AskUserTest, ItChangesNothing) {
    const ToolAnnotations annotations = ask_user_tool({})->spec().annotations;
    EXPECT_TRUE(annotations.read_only);
    EXPECT_FALSE(annotations.destructive);
    EXPECT_FALSE(annotations.approval);
}

TEST(AskUserTest, InProcessWithoutADialogItIsAnError) {
    const ToolOutcome outcome = ask(ask_user_tool({}), kText);
    ASSERT_TRUE(outcome.result);
    EXPECT_TRUE(outcome.result->is_error);
}

struct Answered {
    std::string name;
    AskUserInput input;
    AskUserOutput want;
};
class AutoApproveTest : public ::testing::TestWithParam<Answered> {};
TEST_P(AutoApproveTest, Answers) {
    const Answered& c = GetParam();
    const ToolOutcome outcome = ask(ask_user_tool({.dialog = auto_approve_dialog()}), c.input);
    ASSERT_TRUE(outcome.result);
    EXPECT_FALSE(outcome.result->is_error);
    const Result<AskUserOutput> output = decode_content<AskUserOutput>(*outcome.result);
    ASSERT_TRUE(output) << output.error().message;
    EXPECT_EQ(*output, c.want);
}
INSTANTIATE_TEST_SUITE_P(Types, AutoApproveTest,
                         ::testing::Values(Answered{"Confirm", kConfirm, {"yes", true}},
                                           Answered{"Select", kSelect, {"red", false}},
                                           Answered{"Text", kText, {"ok", false}}),
                         [](const auto& test) { return test.param.name; });

TEST(AskUserTest, ADenialIsAnAnswerAndNoError) {
    const ToolOutcome outcome =
        ask(ask_user_tool({.dialog = std::make_shared<Denying>()}), kConfirm);
    ASSERT_TRUE(outcome.result);
    EXPECT_FALSE(outcome.result->is_error);
    EXPECT_EQ(*decode_content<AskUserOutput>(*outcome.result), (AskUserOutput{"no", false}));
}

TEST(AskUserTest, ADialogThatFailsIsAnErrorWithItsWords) {
    const ToolOutcome outcome = ask(ask_user_tool({.dialog = std::make_shared<Broken>()}), kText);
    ASSERT_TRUE(outcome.result);
    EXPECT_TRUE(outcome.result->is_error);
    EXPECT_EQ(outcome.result->content.text(), R"("the window was closed")");
}

TEST(AskUserTest, AsyncSuspendsWithTheQuestionForAPerson) {  // S2-18 S2-92
    const ToolOutcome outcome = ask(ask_user_tool({.async = true}), kConfirm);
    EXPECT_FALSE(outcome.result);
    ASSERT_TRUE(outcome.suspend);
    EXPECT_EQ(outcome.suspend->prompt, "Deploy?");
    EXPECT_EQ(outcome.suspend->reason, SuspendReason::input_required);
    EXPECT_EQ(outcome.suspend->waits_for, WaitsFor::person);
}

TEST(AskUserTest, AsyncPutsTheTypeIntoTheMetadata) {
    const auto tool = ask_user_tool({.async = true});
    EXPECT_EQ(ask(tool, kConfirm).suspend->metadata.text(), R"({"type":"confirm"})");
    EXPECT_EQ(ask(tool, kSelect).suspend->metadata.text(), R"({"type":"select"})");
    EXPECT_EQ(ask(tool, kText).suspend->metadata.text(), R"({"type":"text"})");
}

TEST(AskUserTest, AsyncDoesNotUseItsDialog) {
    const auto tool = ask_user_tool({.async = true, .dialog = std::make_shared<Untouchable>()});
    EXPECT_TRUE(ask(tool, kSelect).suspend);
}

TEST(AskUserTest, ASelectWithoutOptionsIsAnErrorInBothModes) {
    const AskUserInput nothing{"Which?", AskType::select, {}};
    for (const bool async : {false, true}) {
        const ToolOutcome outcome =
            ask(ask_user_tool({.async = async, .dialog = auto_approve_dialog()}), nothing);
        ASSERT_TRUE(outcome.result) << async;
        EXPECT_TRUE(outcome.result->is_error) << async;
    }
}

// Without any dialog, through an agent: the question comes out whole and the answer goes in.
TEST(AskUserTest, AsyncEndToEndTheInputRoundTripsAndTheAnswerIsJson) {  // S2-92 S2-93
    ScriptEntry entry;
    entry.call.push_back({"ask_user", asking(kSelect), "c1"});
    const auto model = playing({entry, says("You chose {{result}}")});
    Agent agent({.model = model, .tools = {ask_user_tool({.async = true})}});
    TurnResult first = agent.respond_and_wait(message("Choose"));
    ASSERT_TRUE(first) << first.error().message;
    ASSERT_EQ(first->status, ResponseStatus::suspended);
    const PendingToolCall& pending = first->suspension->pending_tool_calls.at(0);
    EXPECT_EQ(pending.prompt, "Which?");
    const Result<AskUserInput> input = decode_pending_input<AskUserInput>(pending);
    ASSERT_TRUE(input) << input.error().message;
    EXPECT_EQ(*input, kSelect);
    const std::string reply = to_json(AskUserOutput{"blue", false});
    TurnResult second =
        agent.respond_and_wait(resume(*first->suspension, {result_for("c1", reply)}));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(second->text(), "You chose " + reply);
}

}  // namespace
}  // namespace rouse
