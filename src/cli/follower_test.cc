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
    // Of the message that says() records next, unless another one is named.
    void delta(std::size_t at, std::string_view text, const std::string& message = "msg_1",
               const std::string& run = "run_1") {
        follower_.take({"", "delta",
                        "{\"run_id\":\"" + run + "\",\"message_id\":\"" + message + "\",\"at\":" +
                            std::to_string(at) + ",\"text\":" + to_json_string(text) + "}"});
    }
    void status(std::string_view status) {
        follower_.take(
            {"", "status",
             "{\"status\":" + to_json_string(status) + ",\"seq\":" + std::to_string(seq_) + "}"});
    }
    void says(std::string_view text, const std::string& id = "msg_1",
              const std::string& run = "run_1") {
        MessageAssistant message;
        message.message_id = MessageId(id);
        message.run_id = RunId(run);
        message.content = text_content(std::string(text));
        record(message);
    }
    void starts(const std::string& run, const std::string& continues = "") {
        RunStarted started;
        started.run_id = RunId(run);
        started.boot_id = BootId("boot_1");
        if (!continues.empty()) started.continues = RunId(continues);
        record(started);
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

    void SetUp() override { follower_.follow_run(RunId("run_1"), 0); }
};

TEST_F(FollowerTest, WhatWasStreamedIsNotSaidTwice) {
    status("idle");
    user();
    delta(0, "Hel");
    delta(3, "lo");
    EXPECT_EQ(answer_.str(), "Hello");
    says("Hello, world");
    EXPECT_EQ(answer_.str(), "Hello, world\n");
    says("Bye", "msg_2");
    EXPECT_EQ(answer_.str(), "Hello, world\nBye\n");
}

TEST_F(FollowerTest, MessagesThatAreRecordedTogetherAreEachSaidOnce) {
    status("idle");
    user();
    delta(0, "I look.");
    delta(0, "It is", "msg_2");
    says("I look.");
    says("It is green.", "msg_2");
    EXPECT_EQ(answer_.str(), "I look.\nIt is green.\n");
}

TEST_F(FollowerTest, AStreamThatWasJoinedInTheMiddleWaitsForTheWholeMessage) {
    user();
    status("running");
    delta(14, "the end");
    EXPECT_EQ(answer_.str(), "");
    says("the beginning and the end");
    EXPECT_EQ(answer_.str(), "the beginning and the end\n");
}

TEST_F(FollowerTest, ABreakInTheMiddleOfAMessageLosesAndRepeatsNothing) {
    status("idle");
    user();
    delta(0, "one ");
    lose();
    come_back();
    delta(8, "three");
    status("running");
    delta(8, "three");
    says("one two three");
    EXPECT_EQ(answer_.str(), "one \ntwo three\n");
    EXPECT_EQ(notes_.str(), "connection lost, trying again\nconnected again\n");
}

TEST_F(FollowerTest, AMessageThatIsSaidAnewBeginsALine) {
    status("idle");
    user();
    delta(0, "I think");
    delta(0, "Let me", "msg_2");
    says("Let me see", "msg_2");
    EXPECT_EQ(answer_.str(), "I think\nLet me see\n");
}

TEST_F(FollowerTest, OtherRunsOfTheSessionAreNotShown) {
    status("running");
    delta(0, "secret", "msg_9", "run_0");
    says("secret", "msg_9", "run_0");
    record(RunCompleted{RunId("run_0"), {}});
    starts("run_1");
    says("ours");
    record(RunFailed{RunId("run_1"), "x", "broken", {}});
    starts("run_2");
    says("theirs", "msg_2", "run_2");
    EXPECT_EQ(answer_.str(), "ours\n");
    EXPECT_EQ(notes_.str(), "");
}

TEST_F(FollowerTest, AnInterruptedRunIsFollowedByTheOneThatContinuesIt) {
    status("idle");
    starts("run_1");
    record(RunInterrupted{RunId("run_1"), InterruptReason::process_restart, false, {}});
    starts("run_2", "run_1");
    says("at last", "msg_2", "run_2");
    EXPECT_EQ(answer_.str(), "at last\n");
    EXPECT_TRUE(follower_.follows(RunId("run_2")));
}

TEST_F(FollowerTest, AQueuedMessageIsReadByTheNextRun) {
    follower_.follow_next_run(1);
    status("running");
    user();
    says("about something else", "msg_1", "run_1");
    record(RunCompleted{RunId("run_1"), {}});
    starts("run_2");
    says("about that", "msg_2", "run_2");
    EXPECT_EQ(answer_.str(), "about that\n");
}

TEST_F(FollowerTest, CallsAreALineEachAndDoNotMixWithTheAnswer) {
    status("idle");
    MessageAssistant message;
    message.message_id = MessageId("msg_1");
    message.run_id = RunId("run_1");
    message.content = text_content("Looking.");
    message.content.emplace_back(
        ToolUseBlock{{"c1"}, "look", RawJson::trusted(R"({"at":"\n"})"), {}});
    record(message);
    record(ToolCompleted{{"c1"}, text_result("line 1\nline 2"), {}});
    record(ToolFailed{{"c9"}, "not there", "", {}});
    EXPECT_EQ(answer_.str(), "Looking.\n");
    EXPECT_EQ(notes_.str(), "→ look {\"at\":\"\\n\"}\n← look: line 1 ⏎ line 2\n← c9: not there\n");
}

TEST_F(FollowerTest, NothingThatIsSaidControlsTheTerminal) {
    status("idle");
    user();
    delta(0, "\x1b[2J");
    says("\x1b[2J\x07");
    EXPECT_EQ(answer_.str(), "\\x1b[2J\\x07\n");
}

TEST_F(FollowerTest, AsJsonRecordsStandAlone) {
    Follower programs({answer_, notes_, {}, true});
    programs.take({"", "status", R"({"status":"idle","seq":1})"});
    programs.take({"", "delta", R"({"run_id":"","message_id":"msg_1","at":0,"text":"x"})"});
    programs.take({"1", "x.y", R"({"seq":1})"});
    EXPECT_EQ(answer_.str(), "{\"seq\":1}\n");
    EXPECT_EQ(notes_.str(), "");
}

}  // namespace
}  // namespace rouse::cli
