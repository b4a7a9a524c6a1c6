#include "domain/transcript.h"

#include <gtest/gtest.h>

#include "testing/session_driver.h"

namespace rouse {
namespace {

using testing::CallSpec;
using testing::SessionDriver;
using namespace std::chrono_literals;

const ToolResult kOpen = error_result("still open");

std::vector<std::string> roles_of(const std::vector<Message>& context) {
    std::vector<std::string> roles;
    for (const Message& message : context) {
        const bool results = !message.content.empty() &&
                             message.content.front().get_if<ToolResultBlock>() != nullptr;
        roles.emplace_back(results ? "results" : to_string(message.role));
    }
    return roles;
}
using Roles = std::vector<std::string>;

// S2-40: suspended and resumed twice, and still one turn.
TEST(TranscriptTest, AResumedTurnIsOneTurn) {
    SessionDriver driver(1);
    driver.begin({CallSpec{}});
    driver.commit(driver.settle(driver.pending(0), text_result("one")));
    driver.commit(driver.say_and_park({CallSpec{}}));
    driver.commit(driver.settle(driver.pending(0), text_result("two")));
    driver.commit(driver.say(0));
    driver.commit(driver.complete());

    const std::vector<TranscriptEntry>& entries = driver.transcript().entries();
    ASSERT_EQ(entries.size(), 4U);
    EXPECT_EQ(entries[0].role, Role::user);
    EXPECT_EQ(entries[1].parts.at(0).result, text_result("one"));
    EXPECT_EQ(entries[2].parts.at(0).result, text_result("two"));
    EXPECT_TRUE(entries[3].parts.empty());
    EXPECT_EQ(roles_of(build_context(driver.transcript(), kOpen)),
              (Roles{"user", "assistant", "results", "assistant", "results", "assistant"}));
}

// S0-61: the part tells when the call began and ended.
TEST(TranscriptTest, APartTellsWhatWasCalledAndWhen) {
    SessionDriver driver(1);
    driver.begin();
    driver.commit(driver.say(2, R"({"branch":"main","n":1.0})"));
    driver.clock().advance(1s);
    const Timestamp started = driver.now();
    driver.commit(driver.start_tool(CallId{"call_1"}));
    driver.clock().advance(1s);
    driver.commit(driver.end_tool(CallId{"call_1"}, CallFailure{"no such branch"}));
    driver.commit(driver.park({CallSpec{}}));

    const std::vector<ToolPart>& parts = driver.transcript().entries().back().parts;
    ASSERT_EQ(parts.size(), 2U);
    EXPECT_EQ(parts[0].tool, "deploy");
    EXPECT_EQ(parts[0].input.text(), R"({"branch":"main","n":1.0})");
    EXPECT_EQ(parts[0].started_at, started);
    EXPECT_EQ(parts[0].ended_at, started + 1s);
    EXPECT_EQ(parts[0].result, error_result("no such branch"));
    EXPECT_TRUE(parts[0].pending_id.empty());
    EXPECT_EQ(parts[1].pending_id, driver.pending(0));  // S0-55
    EXPECT_EQ(parts[1].started_at, driver.now());
    EXPECT_EQ(parts[1].ended_at, std::nullopt);
    EXPECT_EQ(parts[1].result, std::nullopt);
}

TEST(TranscriptTest, ResultsStandInTheOrderOfTheCalls) {
    SessionDriver driver(1);
    driver.begin({CallSpec{}, CallSpec{}, CallSpec{}});
    for (const std::size_t i : {2U, 0U}) {
        driver.commit(driver.settle(driver.pending(i), text_result("r" + std::to_string(i))));
    }
    const Message results = build_context(driver.transcript(), kOpen).back();
    EXPECT_EQ(results.role, Role::user);
    ASSERT_EQ(results.content.size(), 3U);
    const std::vector<ToolResult> want = {text_result("r0"), kOpen, text_result("r2")};
    for (std::size_t i = 0; i < 3; ++i) {
        const auto* block = results.content[i].get_if<ToolResultBlock>();
        ASSERT_NE(block, nullptr);
        EXPECT_EQ(block->tool_use_id.text, "call_" + std::to_string(i + 1));
        EXPECT_EQ(block->content, want[i].content);
        EXPECT_EQ(block->is_error, want[i].is_error);
    }
}

// Call ids are unique within a turn only.
TEST(TranscriptTest, TheSameCallIdInALaterStepIsAnotherCall) {
    SessionDriver driver(1);
    driver.begin({CallSpec{}});
    driver.commit(driver.settle(driver.pending(0), text_result("first")));
    driver.commit(driver.say(1));
    const std::vector<TranscriptEntry>& entries = driver.transcript().entries();
    EXPECT_EQ(entries[1].parts.at(0).result, text_result("first"));
    EXPECT_EQ(entries[2].parts.at(0).result, std::nullopt);
    driver.commit(driver.start_tool(CallId{"call_1"}));
    driver.commit(driver.end_tool(CallId{"call_1"}, text_result("second")));
    EXPECT_EQ(driver.transcript().entries()[1].parts.at(0).result, text_result("first"));
    EXPECT_EQ(driver.transcript().entries()[2].parts.at(0).result, text_result("second"));
}

// The first answer stays, even if a log should hold two.
TEST(TranscriptTest, AResultIsNeverReplaced) {
    SessionDriver driver(1);
    driver.begin();
    driver.commit(driver.say(1));
    driver.commit(Records{ToolCompleted{CallId{"call_1"}, text_result("first"), {}},
                          ToolFailed{CallId{"call_1"}, "second", {}, {}}});
    EXPECT_EQ(driver.transcript().entries().back().parts.at(0).result, text_result("first"));
}

// A message that was queued while the calls were open is not part of that turn.
TEST(TranscriptTest, AQueuedMessageBeginsTheNextTurn) {
    SessionDriver driver(1);
    driver.begin({CallSpec{}});
    driver.commit(driver.message(OnWaiting::queue));
    driver.commit(driver.settle(driver.pending(0), text_result("done")));
    EXPECT_EQ(roles_of(build_context(driver.transcript(), kOpen)),
              (Roles{"user", "assistant", "results"}));
    EXPECT_EQ(driver.transcript().queued().size(), 1U);
    driver.commit(driver.complete());
    driver.commit(Records{RunStarted{RunId("run_next"), driver.boot(), {}, {}}});
    EXPECT_EQ(roles_of(build_context(driver.transcript(), kOpen)),
              (Roles{"user", "assistant", "results", "user"}));
    EXPECT_EQ(driver.transcript().turn_start(), 2U);
    EXPECT_TRUE(driver.transcript().queued().empty());
}

TEST(TranscriptTest, PresentedMailIsAUserMessageWithItsRenderedText) {  // S4-05 S4-23
    SessionDriver driver(1);
    driver.begin();
    driver.commit(Records{
        InboxReceived{MessageId("msg_m"), "build", "It is red", {}, {}, 0, {}},
        InboxPresented{{MessageId("msg_m")}, driver.state().run->run_id, "build says: red", {}}});
    ASSERT_EQ(driver.transcript().entries().size(), 2U);  // received alone is not said
    const TranscriptEntry& entry = driver.transcript().entries().back();
    EXPECT_EQ(entry.role, Role::user);
    EXPECT_EQ(entry.message_id, MessageId("msg_m"));
    EXPECT_EQ(entry.content, text_content("build says: red"));
}

TEST(TranscriptTest, SystemMessagesKeepTheirRole) {
    SessionDriver driver(1);
    driver.begin();
    driver.commit(Records{MessageSystem{MessageId("msg_s"), text_content("Be brief"), {}}});
    EXPECT_EQ(roles_of(build_context(driver.transcript(), kOpen)), (Roles{"user", "system"}));
}

// Whatever a provider put into its message comes back to it.
TEST(TranscriptTest, ContextHoldsTheBlocksAsTheyWere) {
    SessionDriver driver(1);
    driver.begin({CallSpec{}});
    const auto& said = std::get<MessageAssistant>(driver.log().at(3).body);
    EXPECT_EQ(build_context(driver.transcript(), kOpen).at(1).content, said.content);
}

}  // namespace
}  // namespace rouse
