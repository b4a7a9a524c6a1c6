// A conversation that no provider would take, and what is sent instead.

#include "agent/repair.h"

#include <gtest/gtest.h>

#include "testing/agent_kit.h"

namespace rouse {
namespace {

using namespace testing;

Message assistant(std::string text) {
    return {Role::assistant, text.empty() ? Content{} : text_content(std::move(text)), {}};
}
Message calling(std::vector<std::string> ids, std::string text = {}) {
    Message message = assistant(std::move(text));
    for (std::string& id : ids)
        message.content.emplace_back(ToolUseBlock{CallId{std::move(id)}, "t", json("{}"), {}});
    return message;
}
Message results(std::vector<std::string> ids, std::string text = {}) {
    Message message;
    if (!text.empty()) message.content = text_content(std::move(text));
    for (std::string& id : ids)
        message.content.emplace_back(
            ToolResultBlock{CallId{std::move(id)}, json("\"ok\""), false, {}});
    return message;
}
Message with_block(std::string_view object) {
    Message message;
    message.role = Role::assistant;
    message.content.emplace_back(UnknownBlock{json(object)});
    return message;
}

ConversationRules strict() {
    ConversationRules rules;
    rules.checked = true;
    rules.alternates = true;
    rules.unique_calls = true;
    rules.takes_block = [](std::string_view type) { return type == "thinking"; };
    return rules;
}

// "what is sent // what was changed"
std::string repaired(const std::vector<Message>& messages,
                     const ConversationRules& rules = strict()) {
    const auto half = static_cast<std::ptrdiff_t>(messages.size() / 2);
    const std::vector<Message> before(messages.begin(), messages.begin() + half);
    const std::vector<Message> turn(messages.begin() + half, messages.end());
    const std::optional<Repaired> result = repair_conversation(before, turn, rules);
    if (!result) return "as it is";
    EXPECT_EQ(unmatched_calls(result->messages), "");
    // What was mended once fits.
    EXPECT_FALSE(repair_conversation(result->messages, {}, rules));
    std::string text = outline(result->messages) + " //";
    for (const std::string& change : result->changes)
        text += " " + change + ".";
    return text;
}

TEST(RepairTest, WhatFitsIsLeftAlone) {
    EXPECT_EQ(repaired({}), "as it is");
    EXPECT_EQ(repaired({user_message("Hi"), assistant("Hello"), user_message("Go"),
                        calling({"c1", "c2"}, "On it"), results({"c1", "c2"}), assistant("Done")}),
              "as it is");
    EXPECT_EQ(repaired({user_message("Hi"), with_block(R"({"type":"thinking","thinking":"x"})")}),
              "as it is");
}

TEST(RepairTest, NobodyLooksWhenTheModelTakesAnything) {
    EXPECT_EQ(repaired({assistant(""), calling({"c1"})}, ConversationRules{}), "as it is");
}

TEST(RepairTest, ACallWithoutResultGetsAnError) {
    EXPECT_EQ(repaired({user_message("Go"), calling({"c1", "c2"}), results({"c2"})}),
              "u:Go | a:t#c1,t#c2 | u:c2=ok,c1!No result was recorded for this call. // "
              "message 3: call c1 had no result and got an error.");
    EXPECT_EQ(repaired({user_message("Go"), calling({"c1"})}),
              "u:Go | a:t#c1 | u:c1!No result was recorded for this call. // "
              "message 2: call c1 before it had no result and got an error.");
    EXPECT_EQ(repaired({user_message("Go"), calling({"c1"}), user_message("Well?")}),
              "u:Go | a:t#c1 | u:c1!No result was recorded for this call.,Well? // "
              "message 3: call c1 had no result and got an error.");
}

TEST(RepairTest, AResultThatNobodyAskedForIsLeftOut) {
    EXPECT_EQ(repaired({user_message("Go"), assistant("No"), results({"c9"}, "Why?")}),
              "u:Go | a:No | u:Why? // "
              "message 3: a result for call c9, which nobody made, was left out.");
    EXPECT_EQ(repaired({user_message("Go"), calling({"c1"}), results({"c1", "c1"})}),
              "u:Go | a:t#c1 | u:c1=ok // "
              "message 3: a result for call c1, which nobody made, was left out.");
    EXPECT_EQ(repaired({results({"c9"}), user_message("Hi")}),
              "u:Hi // message 1: a result for call c9, which nobody made, was left out.");
}

TEST(RepairTest, NothingIsEmpty) {
    EXPECT_EQ(repaired({user_message("Hi"), assistant(""), user_message("Hm?")}),
              "u:Hi,Hm? // message 2: it was empty and was left out. "
              "message 3: it was joined with the one before it, of the same role.");
    EXPECT_EQ(repaired({user_message(" \n")}),
              "u:(empty message) // message 1: an empty text was left out. "
              "message 1: it was empty, and is sent as (empty message).");
    EXPECT_EQ(repaired({user_message("Hi"), calling({"c1"}, "  "), results({"c1"})}),
              "u:Hi | a:t#c1 | u:c1=ok // message 2: an empty text was left out.");
}

TEST(RepairTest, BlocksOfAnotherProviderAreLeftOut) {
    EXPECT_EQ(repaired({user_message("Hi"), with_block(R"({"type":"reasoning","id":"r"})"),
                        user_message("Hm?")}),
              "u:Hi,Hm? // message 2: a reasoning block was left out: this provider does not know "
              "it. message 2: it was empty and was left out. "
              "message 3: it was joined with the one before it, of the same role.");
}

TEST(RepairTest, RolesAlternateWhereTheProviderWantsIt) {
    const std::vector<Message> talk = {assistant("Hello"), user_message("One"),
                                       user_message("Two")};
    EXPECT_EQ(repaired(talk),
              "u:(The beginning of the conversation is not here.) | a:Hello | u:One,Two // "
              "message 1: the conversation began with the assistant: a message was put before it. "
              "message 3: it was joined with the one before it, of the same role.");
    ConversationRules loose = strict();
    loose.alternates = false;
    EXPECT_EQ(repaired(talk, loose), "as it is");
}

TEST(RepairTest, CallIdsAreUniqueAndPlain) {
    EXPECT_EQ(repaired({user_message("Go"), calling({"c1"}), results({"c1"}), calling({"c1"}),
                        results({"c1"})}),
              "u:Go | a:t#c1 | u:c1=ok | a:t#c1_2 | u:c1_2=ok // "
              "message 4: call c1 is sent as c1_2: its id was used or is no id.");
    EXPECT_EQ(repaired({user_message("Go"), calling({"a.b:1"}), results({"a.b:1"})}),
              "u:Go | a:t#a_b_1 | u:a_b_1=ok // "
              "message 2: call a.b:1 is sent as a_b_1: its id was used or is no id.");
}

}  // namespace
}  // namespace rouse
