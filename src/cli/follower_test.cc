#include "cli/follower.h"

#include <gtest/gtest.h>

#include <sstream>

namespace rouse::cli {
namespace {

class FollowerTest : public ::testing::Test {
 protected:
    void record(const RecordBody& body) {
        ++seq_;
        const std::string text =
            "{\"session_id\":\"sess_1\",\"task_id\":\"\",\"seq\":" + std::to_string(seq_) +
            ",\"ts\":\"2026-01-01T00:00:00.000Z\"," + render_body(body) + "}";
        follower_.take({std::to_string(seq_), std::string(kind_of(body)), text});
    }
    void delta(std::string_view text) {
        follower_.take({"", "delta", "{\"text\":" + to_json_string(text) + "}"});
    }
    void status(std::string_view status) {
        follower_.take(
            {"", "status",
             "{\"status\":" + to_json_string(status) + ",\"seq\":" + std::to_string(seq_) + "}"});
    }
    void says(std::string_view text) {
        MessageAssistant message;
        message.message_id = MessageId("msg_1");
        message.content = text_content(std::string(text));
        record(message);
    }
    void user() {
        MessageUser message;
        message.message_id = MessageId("msg_0");
        message.content = text_content("hi");
        record(message);
    }
    void lose() { follower_.take({"", std::string(client::kConnectionLost), ""}); }
    void come_back() { follower_.take({"", std::string(client::kConnectionBack), ""}); }

    std::ostringstream answer_;
    std::ostringstream notes_;
    Follower follower_{{answer_, notes_, {}, false}};
    Seq seq_ = 0;
};

TEST_F(FollowerTest, WhatWasStreamedIsNotSaidTwice) {
    status("idle");
    user();
    delta("Hel");
    delta("lo");
    EXPECT_EQ(answer_.str(), "Hello");
    says("Hello, world");
    EXPECT_EQ(answer_.str(), "Hello, world\n");
    says("Bye");
    EXPECT_EQ(answer_.str(), "Hello, world\nBye\n");
}

TEST_F(FollowerTest, AStreamThatWasJoinedInTheMiddleWaitsForTheWholeMessage) {
    user();
    status("running");
    delta("the end");
    EXPECT_EQ(answer_.str(), "");
    says("the beginning and the end");
    EXPECT_EQ(answer_.str(), "the beginning and the end\n");
}

TEST_F(FollowerTest, ABreakInTheMiddleOfAMessageLosesAndRepeatsNothing) {
    status("idle");
    user();
    delta("one ");
    lose();
    come_back();
    delta("three");
    status("running");
    delta("three");
    says("one two three");
    EXPECT_EQ(answer_.str(), "one \ntwo three\n");
    EXPECT_EQ(notes_.str(), "connection lost, trying again\nconnected again\n");
}

TEST_F(FollowerTest, AMessageThatIsSaidAnewBeginsALine) {
    status("idle");
    user();
    delta("I think");
    says("Let me see");
    EXPECT_EQ(answer_.str(), "I think\nLet me see\n");
}

TEST_F(FollowerTest, CallsAreALineEachAndDoNotMixWithTheAnswer) {
    status("idle");
    MessageAssistant message;
    message.message_id = MessageId("msg_1");
    message.content = text_content("Looking.");
    message.content.emplace_back(
        ToolUseBlock{{"c1"}, "look", RawJson::trusted(R"({"at":"\n"})"), {}});
    record(message);
    record(ToolCompleted{{"c1"}, text_result("line 1\nline 2"), {}});
    record(ToolFailed{{"c9"}, "not there", "", {}});
    EXPECT_EQ(answer_.str(), "Looking.\n");
    EXPECT_EQ(notes_.str(), "→ look {\"at\":\"\\n\"}\n← look: line 1\\nline 2\n← c9: not there\n");
}

TEST_F(FollowerTest, NothingThatIsSaidControlsTheTerminal) {
    status("idle");
    user();
    delta("\x1b[2J");
    says("\x1b[2J\x07");
    EXPECT_EQ(answer_.str(), "\\x1b[2J\\x07\n");
}

TEST_F(FollowerTest, AsJsonRecordsStandAlone) {
    Follower programs({answer_, notes_, {}, true});
    programs.take({"", "status", R"({"status":"idle","seq":1})"});
    programs.take({"", "delta", R"({"text":"x"})"});
    programs.take({"1", "x.y", R"({"seq":1})"});
    EXPECT_EQ(answer_.str(), "{\"seq\":1}\n");
    EXPECT_EQ(notes_.str(), "");
}

}  // namespace
}  // namespace rouse::cli
