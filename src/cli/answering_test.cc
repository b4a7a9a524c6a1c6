#include "cli/answering.h"

#include <gtest/gtest.h>

#include <deque>

#include "rouse/ask_user.h"

namespace rouse::cli {
namespace {

// Says what it is told to, and Ctrl-D behind that.
class ScriptedPrompt final : public Prompt {
 public:
    explicit ScriptedPrompt(std::deque<std::string> lines) : lines_(std::move(lines)) {}
    Result<std::optional<std::string>> ask(const std::string& text) override {
        asked += text;
        if (lines_.empty()) return std::optional<std::string>();
        std::optional<std::string> line = lines_.front();
        lines_.pop_front();
        return line;
    }
    std::string asked;

 private:
    std::deque<std::string> lines_;
};

client::PendingView asking(const AskUserInput& input) {
    client::PendingView call;
    call.tool = "ask_user";
    call.reason = "input_required";
    call.input = RawJson::trusted(to_json(input));
    return call;
}

client::PendingView approval() {
    client::PendingView call;
    call.tool = "wipe";
    call.reason = "approval_required";
    call.prompt = "May it?";
    call.input = RawJson::trusted(R"({"table":"\u001b[2J"})");
    call.input_digest = "d1";
    return call;
}

std::string answer_to(const client::PendingView& call, std::deque<std::string> lines) {
    ScriptedPrompt prompt(std::move(lines));
    const auto given = put_to_person(call, prompt, {});
    if (!given) return std::string(given.error().reason);
    if (!*given) return "passed";
    if (!(*given)->decision) return (*given)->result;
    const client::Decision& decision = *(*given)->decision;
    return (decision.approve ? "approve " : "deny ") + decision.input_digest + " " +
           decision.message;
}

const AskUserInput kConfirm{"Deploy?", AskType::confirm, {}};
const AskUserInput kSelect{"Which?", AskType::select, {"red", "blue", "3"}};
const AskUserInput kText{"Why?", AskType::text, {}};

TEST(AnsweringTest, AnswersAreWhatTheToolPromises) {
    EXPECT_EQ(answer_to(asking(kConfirm), {"Yes "}), to_json(AskUserOutput{"yes", true}));
    EXPECT_EQ(answer_to(asking(kConfirm), {"n"}), to_json(AskUserOutput{"no", false}));
    EXPECT_EQ(answer_to(asking(kSelect), {"2"}), to_json(AskUserOutput{"blue", false}));
    EXPECT_EQ(answer_to(asking(kSelect), {"red"}), to_json(AskUserOutput{"red", false}));
    EXPECT_EQ(answer_to(asking(kSelect), {"3"}), to_json(AskUserOutput{"3", false}));
    EXPECT_EQ(answer_to(asking(kText), {"because"}), to_json(AskUserOutput{"because", false}));
}

TEST(AnsweringTest, WhatIsNoAnswerIsAskedAgain) {
    EXPECT_EQ(answer_to(asking(kConfirm), {"maybe", "", "y"}), to_json(AskUserOutput{"yes", true}));
    EXPECT_EQ(answer_to(asking(kSelect), {"0", "4", "green", "1"}),
              to_json(AskUserOutput{"red", false}));
}

TEST(AnsweringTest, CtrlDPasses) {
    for (const auto& call : {asking(kConfirm), asking(kSelect), asking(kText), approval()})
        EXPECT_EQ(answer_to(call, {}), "passed");
}

TEST(AnsweringTest, AnApprovalIsOfWhatWasShown) {
    EXPECT_EQ(answer_to(approval(), {"y"}), "approve d1 ");
    EXPECT_EQ(answer_to(approval(), {"n", "too risky"}), "deny d1 too risky");
    ScriptedPrompt prompt({"y"});
    ASSERT_TRUE(put_to_person(approval(), prompt, {}));
    EXPECT_NE(prompt.asked.find(R"({"table":"\u001b[2J"})"), std::string::npos) << prompt.asked;
}

TEST(AnsweringTest, OtherCallsTakeALineAsTheirResult) {
    client::PendingView call;
    call.tool = "deploy";
    EXPECT_EQ(answer_to(call, {"v42 is live"}), "v42 is live");
    EXPECT_EQ(answer_to(call, {""}), "passed");
}

}  // namespace
}  // namespace rouse::cli
