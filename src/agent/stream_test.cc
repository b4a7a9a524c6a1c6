// What streams by, in which order, and when it ends (S2-71, S2-72; lessons 2.2, #231).

#include <gtest/gtest.h>

#include "testing/agent_kit.h"

namespace rouse {
namespace {

using namespace testing;

class StreamTest : public KeptTest {
 protected:
    // Keeps the items of the next call; an error for the n-th.
    OnItem watch(std::size_t fail_at = 0) {
        seen_.clear();
        return [this, fail_at](const Item& item) -> Result<void> {
            seen_.push_back(item);
            if (seen_.size() != fail_at) return {};
            return Error(ErrorKind::io, "pipe_closed", "nobody reads any more");
        };
    }
    TurnResult call(AgentRequest request, std::size_t fail_at = 0) {
        request.on_item = watch(fail_at);
        return agent_.respond_and_wait(std::move(request));
    }

    std::vector<Item> seen_;
    std::shared_ptr<WatchedModel> model_ =
        playing({[] {
                     ScriptEntry entry = calls({{"c1", "ask"}, {"c2", "look"}, {"c3", "ask"}});
                     entry.say = "On it.";
                     return entry;
                 }(),
                 says("Done")});
    Agent agent_{{.model = model_, .tools = {suspending("ask").tool, answering("look", "2").tool}}};
};

INSTANTIATE_TEST_SUITE_P(Sessions, StreamTest,
                         ::testing::Values(Keeping::nowhere, Keeping::memory, Keeping::durable),
                         keeping_name);

TEST_P(StreamTest, ItemsComeInOrderAndTheSuspensionIsTheLast) {  // S2-71 S2-129
    const TurnResult first = call(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(outline(seen_),
              "text call:c1 call:c2 call:c3 pending:c1 result:c2=2 pending:c3 suspended");
    EXPECT_EQ(outline(first->items), "call:c1 call:c2 call:c3 pending:c1 result:c2=2 pending:c3")
        << "tool calls and their results";
    const auto* last = std::get_if<SuspendedItem>(&seen_.back());
    ASSERT_NE(last, nullptr);
    EXPECT_EQ(last->suspension, *first->suspension);
}

TEST_P(StreamTest, EachSuppliedResultComesOnceInTheOrderOfTheCallsBeforeTheModel) {  // #231
    const TurnResult first = call(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    const TurnResult second =
        call(go_on_with(*first, {result_for("c3", "3"), error_for("c1", "no")}));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(outline(seen_), "error:c1=no result:c3=3 text completed");
    EXPECT_EQ(outline(second->items), "error:c1=no result:c3=3");
}

TEST_P(StreamTest, APartOfTheAnswersIsStreamedOnceAndEndsWithoutATerminalItem) {  // S2-68 S2-97
    const TurnResult first = call(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    const TurnResult second = call(go_on_with(*first, {result_for("c3", "3")}));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(outline(seen_), "result:c3=3");
    EXPECT_EQ(outline(second->items), "result:c3=3");
    const TurnResult third = call(go_on_with(*second, {result_for("c1", "1")}));
    ASSERT_TRUE(third) << third.error().message;
    EXPECT_EQ(outline(seen_), "result:c1=1 text completed");
}

TEST_P(StreamTest, CallsThatRunOnResumeComeBehindTheSuppliedResults) {
    Agent one_by_one({.model = model_,
                      .tools = {suspending("ask").tool, answering("look", "2").tool},
                      .parallel_tool_calls = false});
    TurnResult first = one_by_one.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(outline(first->items), "call:c1 call:c2 call:c3 pending:c1");
    TurnResult second = one_by_one.respond_and_wait(go_on_with(*first, {result_for("c1", "1")}));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(outline(second->items), "result:c1=1 result:c2=2 pending:c3");
}

TEST_P(StreamTest, ResultsAreStreamedAsTheHooksLeftThem) {
    Hooks hooks;
    hooks.add(HookPoint::post_tool_use, [](HookContext& context) {
        context.result = text_result("hooked");
        return HookVerdict::go_on();
    });
    Agent hooked({.model = model_,
                  .tools = {suspending("ask").tool, answering("look", "2").tool},
                  .hooks = hooks});
    TurnResult first = hooked.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    TurnResult second = hooked.respond_and_wait(go_on_with(*first, {result_for("c1", "1")}));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(outline(second->items), "result:c1=hooked");
}

TEST_P(StreamTest, TheTerminalItemComesBehindTheHooksAndTheSave) {  // S2-72 S2-98
    const CallLog log = std::make_shared<std::vector<std::string>>();
    Agent hooked({.model = model_,
                  .tools = {suspending("ask").tool, answering("look", "2").tool},
                  .hooks = watching(log)});
    const auto note_end = [log](const Item& item) -> Result<void> {
        if (std::holds_alternative<SuspendedItem>(item)) log->push_back("suspended");
        if (std::holds_alternative<CompletedItem>(item)) log->push_back("completed");
        return {};
    };
    AgentRequest request = message("Go", session_);
    request.on_item = note_end;
    const TurnResult first = hooked.respond_and_wait(request);
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_TRUE(joined(*log).ends_with("on_suspend post_generation suspended")) << joined(*log);
    request = go_on_with(*first, {result_for("c1", "1"), result_for("c3", "3")});
    request.on_item = note_end;
    ASSERT_TRUE(hooked.respond_and_wait(request));
    EXPECT_TRUE(joined(*log).ends_with("stop post_generation completed")) << joined(*log);
}

TEST_P(StreamTest, AnErrorFromTheReaderEndsTheCallWithItWhereverItComes) {  // S2-72
    for (std::size_t at = 1; at <= 6; ++at) {
        SCOPED_TRACE(at);
        if (session_) {
            session_ = is_durable() ? *sessions_->create()
                                    : make_memory_session(SessionId("s" + std::to_string(at)));
        }
        const TurnResult failed = call(message("Go", session_), at);
        ASSERT_FALSE(failed);
        EXPECT_EQ(failed.error().reason, "pipe_closed");
        EXPECT_EQ(seen_.size(), at) << "nothing is sent behind the error";
        if (session_) {
            EXPECT_FALSE(suspension_of(*session_));
            EXPECT_EQ(unmatched_calls(history_of(*session_)), "");
        }
    }
}

// The suspension is saved by then, so it is there although the call fails.
TEST_P(StreamTest, AnErrorForTheTerminalItemPropagatesAndTheSuspensionStays) {
    const TurnResult failed = call(message("Go", session_), 8);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().reason, "pipe_closed");
    EXPECT_EQ(outline(seen_),
              "text call:c1 call:c2 call:c3 pending:c1 result:c2=2 pending:c3 suspended");
    if (!session_) return;
    ASSERT_TRUE(suspension_of(*session_));
    const TurnResult done = call(answer(session_, {result_for("c1", "1"), result_for("c3", "3")}));
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->text(), "Done");
}

TEST_P(StreamTest, AnErrorForTheLastItemOfAResumeLeavesTheFinishedTurn) {
    if (!session_) GTEST_SKIP() << "needs a session";
    ASSERT_TRUE(call(message("Go", session_)));
    const TurnResult failed =
        call(answer(session_, {result_for("c1", "1"), result_for("c3", "3")}), 4);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().reason, "pipe_closed");
    EXPECT_FALSE(suspension_of(*session_));
    EXPECT_EQ(outline(history_of(*session_)),
              "u:Go | a:On it.,ask#c1,look#c2,ask#c3 | u:c1=1,c2=2,c3=3 | a:Done");
}

TEST_P(StreamTest, AFailingReaderOnAMemoryResumeKeepsTheSuspension) {
    if (GetParam() != Keeping::memory) GTEST_SKIP() << "durable sessions have the answers recorded";
    ASSERT_TRUE(call(message("Go", session_)));
    const std::string before = snapshot(*session_);
    for (const std::size_t at : {1U, 2U, 3U}) {
        const TurnResult failed =
            call(answer(session_, {result_for("c1", "1"), result_for("c3", "3")}), at);
        ASSERT_FALSE(failed) << at;
        EXPECT_EQ(snapshot(*session_), before) << at;
    }
}

}  // namespace
}  // namespace rouse
