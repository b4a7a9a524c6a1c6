// A turn that suspends and goes on, with no session, a memory session and a durable one (S2-114),
// and the rules for batches.

#include <gtest/gtest.h>

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <stdexcept>

#include "testing/agent_kit.h"

namespace rouse {
namespace {

using namespace testing;
namespace asio = boost::asio;

class SuspendTest : public KeptTest {};

INSTANTIATE_TEST_SUITE_P(Sessions, SuspendTest,
                         ::testing::Values(Keeping::nowhere, Keeping::memory, Keeping::durable),
                         keeping_name);

void expect_all_matched(const WatchedModel& model) {
    for (const std::vector<Message>& request : model.requests)
        EXPECT_EQ(unmatched_calls(request), "") << "S2-65";
}

std::shared_ptr<Tool> tool_that(const std::string& name, ToolFunction function) {
    return make_tool({name, "for a test"}, std::move(function));
}

// S2-01 S2-02 S2-04 S2-05 S2-06 S2-07 S2-10 S2-131
TEST_P(SuspendTest, AToolThatSuspendsEndsTheCallAndItsResultGoesOn) {
    const auto model = playing({calls({{"c1", "deploy"}}), says("It is live: {{result}}")});
    const Counted deploy = suspending("deploy", "deploying", json(R"({"eta":5})"));
    Agent agent({.model = model, .tools = {deploy.tool}});

    TurnResult first = agent.respond_and_wait(message("Deploy", session_));
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(first->status, ResponseStatus::suspended);
    ASSERT_EQ(first->suspension->pending_tool_calls.size(), 1U);
    const PendingToolCall& pending = first->suspension->pending_tool_calls[0];
    EXPECT_EQ(pending.name, "deploy");
    EXPECT_EQ(pending.prompt, "deploying");
    EXPECT_EQ(pending.metadata.text(), R"({"eta":5})");
    EXPECT_EQ(first->usage.input_tokens, 10);

    TurnResult second = agent.respond_and_wait(go_on_with(*first, {result_for("c1", "v42")}));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(second->status, ResponseStatus::completed);
    EXPECT_EQ(second->text(), "It is live: v42");
    EXPECT_EQ(second->usage.input_tokens, 17) << "what was paid before the wait counts";
    EXPECT_EQ(*deploy.calls, 1) << "S2-52: not called again";
    ASSERT_TRUE(second->suspension) << "S2-39";
    EXPECT_TRUE(second->suspension->pending_tool_calls.empty());
    EXPECT_EQ(outline(second->suspension->turn_messages),
              "u:Deploy | a:deploy#c1 | u:c1=v42 | a:It is live: v42");
    EXPECT_EQ(outline(second->output_messages), "u:c1=v42 | a:It is live: v42");
    expect_all_matched(*model);
}

TEST_P(SuspendTest, ToolsThatDoNotSuspendWorkAsEver) {  // S2-91
    const auto model = playing({calls({{"c1", "look"}}), says("Saw {{result}}"), says("Bye")});
    const Counted look = answering("look", "a bird");
    Agent agent({.model = model, .tools = {look.tool}});

    TurnResult first = agent.respond_and_wait(message("Look", session_));
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(first->status, ResponseStatus::completed);
    EXPECT_FALSE(first->suspension);
    EXPECT_EQ(outline(first->output_messages), "a:look#c1 | u:c1=a bird | a:Saw a bird");
    EXPECT_EQ(first->usage, (Usage{17, 8, 0, 0}));
    if (!session_) return;
    TurnResult second = agent.respond_and_wait(message("Thanks", session_));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(outline(model->requests.back()),
              "u:Look | a:look#c1 | u:c1=a bird | a:Saw a bird | u:Thanks");
}

TEST_P(SuspendTest, AParallelBatchDrainsTheSiblingsOfASuspender) {  // S2-17 S2-37 S2-42 S2-44
    const auto model = playing({calls({{"c1", "one"}, {"c2", "ask"}, {"c3", "bad"}}), says("ok")});
    const Counted one = answering("one", "1");
    const Counted ask = suspending("ask");
    const auto bad = tool_that("bad", [](const ToolCall&) { return ToolOutcome::error("broken"); });
    Agent agent({.model = model, .tools = {one.tool, ask.tool, bad}});

    TurnResult first = agent.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(outline(*first->suspension), "pending c2 done c1=1 c3!broken");
    EXPECT_EQ(outline(first->suspension->turn_messages), "u:Go | a:one#c1,ask#c2,bad#c3");
    EXPECT_EQ(outline(first->output_messages), "a:one#c1,ask#c2,bad#c3 | u:c1=1,c3!broken");

    TurnResult second = agent.respond_and_wait(go_on_with(*first, {result_for("c2", "2")}));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(outline(second->output_messages), "u:c1=1,c2=2,c3!broken | a:ok");
    EXPECT_EQ(*one.calls, 1);
    expect_all_matched(*model);
}

TEST_P(SuspendTest, ASequentialBatchStopsAtTheSuspenderAndRunsTheRestOnResume) {  // S2-43
    const auto model =
        playing({calls({{"c1", "one"}, {"c2", "ask"}, {"c3", "three"}}), says("ok")});
    const Counted one = answering("one", "1");
    const Counted ask = suspending("ask");
    const Counted three = answering("three", "3");
    Agent agent(
        {.model = model, .tools = {one.tool, ask.tool, three.tool}, .parallel_tool_calls = false});

    TurnResult first = agent.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(outline(*first->suspension), "pending c2 done c1=1");
    EXPECT_EQ(*three.calls, 0);

    TurnResult second = agent.respond_and_wait(go_on_with(*first, {result_for("c2", "2")}));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(outline(second->output_messages), "u:c1=1,c2=2,c3=3 | a:ok");
    EXPECT_EQ(*one.calls, 1);
    EXPECT_EQ(*ask.calls, 1);
    EXPECT_EQ(*three.calls, 1);
    EXPECT_EQ(model->requests.size(), 2U) << "the rest runs before the model is asked";
}

// S2-38 S2-45 S2-46 S2-116 S2-132: partial twice
TEST_P(SuspendTest, AnswersForAPartLeaveTheRestWaiting) {
    const auto model =
        playing({calls({{"c1", "ask"}, {"c2", "look"}, {"c3", "ask"}, {"c4", "ask"}}), says("ok")});
    const Counted ask = suspending("ask", "well?", json(R"({"deep":[1,{"a":null}]})"));
    const auto look = tool_that("look", [](const ToolCall&) {
        ToolOutcome outcome = ToolOutcome::text("seen");
        outcome.result->display = "a picture";
        outcome.result->metadata = json(R"({"w":1})");
        return outcome;
    });
    Agent agent({.model = model, .tools = {ask.tool, look}});

    TurnResult first = agent.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(outline(*first->suspension), "pending c1 c3 c4 done c2=seen");

    TurnResult second = agent.respond_and_wait(go_on_with(*first, {error_for("c3", "no")}));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(second->status, ResponseStatus::suspended);
    EXPECT_EQ(outline(second->output_messages), "");
    EXPECT_EQ(outline(*second->suspension), "pending c1 c4 done c2=seen c3!no");
    EXPECT_EQ(second->suspension->completed_tool_calls[0],
              first->suspension->completed_tool_calls[0])
        << "S2-44: display and metadata survive";
    EXPECT_EQ(second->suspension->pending_tool_calls[0], first->suspension->pending_tool_calls[0]);

    TurnResult third = agent.respond_and_wait(go_on_with(*second, {result_for("c1", "yes")}));
    ASSERT_TRUE(third) << third.error().message;
    EXPECT_EQ(outline(*third->suspension), "pending c4 done c1=yes c2=seen c3!no");
    EXPECT_EQ(third->usage, (Usage{10, 5, 0, 0})) << "the model was not called";

    TurnResult fourth = agent.respond_and_wait(go_on_with(*third, {result_for("c4", "4")}));
    ASSERT_TRUE(fourth) << fourth.error().message;
    EXPECT_EQ(outline(fourth->output_messages), "u:c1=yes,c2=seen,c3!no,c4=4 | a:ok");
    EXPECT_EQ(fourth->usage, (Usage{17, 8, 0, 0}));
    EXPECT_EQ(*ask.calls, 3);
    expect_all_matched(*model);
}

TEST_P(SuspendTest, ResultsStandInTheOrderOfTheCallsWhateverTheOrderOfAnswers) {  // S2, 2.2
    const auto model = playing({calls({{"z", "ask"}, {"a", "ask"}, {"m", "ask"}}), says("ok")});
    Agent agent({.model = model, .tools = {suspending("ask").tool}});
    TurnResult first = agent.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    TurnResult second = agent.respond_and_wait(
        go_on_with(*first, {result_for("a", "2"), result_for("m", "3"), result_for("z", "1")}));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(outline(second->output_messages), "u:z=1,a=2,m=3 | a:ok");
}

TEST_P(SuspendTest, ATurnMaySuspendAgain) {  // S2-09 S2-48
    const auto model =
        playing({calls({{"c1", "ask"}}), calls({{"c2", "ask"}}), says("both: {{result}}")});
    const Counted ask = suspending("ask");
    Agent agent({.model = model, .tools = {ask.tool}});
    TurnResult first = agent.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    TurnResult second = agent.respond_and_wait(go_on_with(*first, {result_for("c1", "1")}));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(outline(*second->suspension), "pending c2");
    EXPECT_EQ(outline(second->suspension->turn_messages), "u:Go | a:ask#c1 | u:c1=1 | a:ask#c2");
    EXPECT_EQ(outline(second->output_messages), "u:c1=1 | a:ask#c2");
    EXPECT_EQ(second->usage, (Usage{20, 10, 0, 0}));

    TurnResult third = agent.respond_and_wait(go_on_with(*second, {result_for("c2", "2")}));
    ASSERT_TRUE(third) << third.error().message;
    EXPECT_EQ(outline(third->suspension->turn_messages),
              "u:Go | a:ask#c1 | u:c1=1 | a:ask#c2 | u:c2=2 | a:both: 2");
    EXPECT_EQ(third->usage, (Usage{27, 13, 0, 0}));
    if (session_) {
        EXPECT_EQ(history_of(*session_), third->suspension->turn_messages);
    }
    expect_all_matched(*model);
}

TEST_P(SuspendTest, ACallThatHadNotStartedMaySuspendOnResume) {  // S2-49
    const auto model = playing({calls({{"c1", "ask"}, {"c2", "ask"}, {"c3", "look"}}), says("ok")});
    const Counted ask = suspending("ask");
    const Counted look = answering("look", "seen");
    Agent agent({.model = model, .tools = {ask.tool, look.tool}, .parallel_tool_calls = false});
    TurnResult first = agent.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(outline(*first->suspension), "pending c1");
    TurnResult second = agent.respond_and_wait(go_on_with(*first, {result_for("c1", "1")}));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(second->status, ResponseStatus::suspended);
    EXPECT_EQ(outline(*second->suspension), "pending c2 done c1=1");
    EXPECT_EQ(*look.calls, 0);
    EXPECT_EQ(model->requests.size(), 1U);
    TurnResult third = agent.respond_and_wait(go_on_with(*second, {result_for("c2", "2")}));
    ASSERT_TRUE(third) << third.error().message;
    EXPECT_EQ(outline(third->output_messages), "u:c1=1,c2=2,c3=seen | a:ok");
    EXPECT_EQ(*ask.calls, 2);
}

// Two tools that only end when both have begun: alone, either would wait for ever.
struct Meeting {
    int begun = 0;
    int turns = 0;
};
Task<ToolOutcome> meet(std::shared_ptr<Meeting> meeting) {
    ++meeting->begun;
    const auto executor = co_await asio::this_coro::executor;
    while (meeting->begun < 2) {
        if (++meeting->turns > 10000) co_return ToolOutcome::error("nobody came");
        co_await asio::post(executor, asio::use_awaitable);
    }
    co_return ToolOutcome::text("met");
}

TEST_P(SuspendTest, CallsThatHadNotStartedRunSideBySideInAParallelAgent) {  // S2-43 S2-61
    const auto model = playing(
        {calls({{"c1", "ask"}, {"c2", "meet"}, {"c3", "meet"}, {"c4", "ask"}}), says("ok")});
    const Counted ask = suspending("ask");
    const auto meeting = std::make_shared<Meeting>();
    const auto tool = make_async_tool({"meet", "waits for the other"},
                                      [meeting](const ToolCall&) { return meet(meeting); });
    Agent one_by_one({.model = model, .tools = {ask.tool, tool}, .parallel_tool_calls = false});
    Agent together({.model = model, .tools = {ask.tool, tool}});

    TurnResult first = one_by_one.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(outline(*first->suspension), "pending c1");
    TurnResult second = together.respond_and_wait(go_on_with(*first, {result_for("c1", "1")}));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(outline(*second->suspension), "pending c4 done c1=1 c2=met c3=met");
    TurnResult third = one_by_one.respond_and_wait(go_on_with(*second, {result_for("c4", "4")}));
    ASSERT_TRUE(third) << third.error().message;
    EXPECT_EQ(outline(third->output_messages), "u:c1=1,c2=met,c3=met,c4=4 | a:ok");
    expect_all_matched(*model);
}

// ---- Calls that go wrong ---------------------------------------------------------------------

struct BadCall {
    std::string name;
    std::string tool;
    std::string want;  // a part of the error
};

std::vector<std::shared_ptr<Tool>> bad_tools() {
    const RawJson schema =
        json(R"({"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]})");
    return {
        tool_that("both",
                  [](const ToolCall&) {
                      ToolOutcome outcome = ToolOutcome::text("x");
                      outcome.suspend = Suspend{"y", {}};
                      return outcome;
                  }),
        tool_that("neither", [](const ToolCall&) { return ToolOutcome{}; }),
        tool_that("throws",
                  [](const ToolCall&) -> ToolOutcome { throw std::runtime_error("boom"); }),
        tool_that("throws_a_number", [](const ToolCall&) -> ToolOutcome { throw 7; }),
        tool_that("aborts",
                  [](const ToolCall&) -> ToolOutcome {
                      throw boost::system::system_error(asio::error::operation_aborted);
                  }),
        make_tool({"strict", "wants n", schema},
                  [](const ToolCall&) { return ToolOutcome::text("ran"); }),
    };
}

class BadCallTest : public ::testing::TestWithParam<BadCall> {};

TEST_P(BadCallTest, BecomesAnErrorResultThroughTheFailureHookAndTheTurnGoesOn) {  // S2-53
    const BadCall& c = GetParam();
    const auto model = playing({calls({{"c1", c.tool}}), says("{{result}}")});
    const CallLog log = std::make_shared<std::vector<std::string>>();
    Agent agent({.model = model, .tools = bad_tools(), .hooks = watching(log)});
    TurnResult done = agent.respond_and_wait(message("Go"));
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_NE(done->text().find(c.want), std::string::npos) << done->text();
    const auto* block = done->output_messages[1].content[0].get_if<ToolResultBlock>();
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(block->is_error);
    EXPECT_EQ(joined(*log),
              "pre_generation pre_tool_use:c1 post_tool_use_failure:c1 pre_generation stop "
              "post_generation");
}

TEST_P(BadCallTest, DoesNotStopItsSiblingsNorAResume) {  // S2-50
    const BadCall& c = GetParam();
    const auto model =
        playing({calls({{"c1", "ask"}, {"c2", c.tool}, {"c3", "look"}}), says("ok")});
    std::vector<std::shared_ptr<Tool>> tools = bad_tools();
    const Counted look = answering("look", "seen");
    tools.push_back(suspending("ask").tool);
    tools.push_back(look.tool);
    const auto session = make_memory_session(SessionId("sess_bad"));
    Agent agent({.model = model, .tools = tools, .parallel_tool_calls = false});
    ASSERT_TRUE(agent.respond_and_wait(message("Go", session)));
    TurnResult done = agent.respond_and_wait(answer(session, {result_for("c1", "1")}));
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->text(), "ok");
    EXPECT_EQ(*look.calls, 1);
    EXPECT_EQ(unmatched_calls(history_of(*session)), "");
    EXPECT_FALSE(suspension_of(*session));
}

INSTANTIATE_TEST_SUITE_P(
    Rules, BadCallTest,
    ::testing::Values(BadCall{"ResultAndSuspensionAtOnce", "both", "at once"},
                      BadCall{"NeitherResultNorSuspension", "neither", "neither"},
                      BadCall{"Exception", "throws", "boom"},
                      BadCall{"ThrownNumber", "throws_a_number", "failed"},
                      BadCall{"AnOperationOfItsOwnWasAborted", "aborts", "failed"},
                      BadCall{"NoSuchTool", "nobody", "no tool named nobody"},
                      BadCall{"InputThatDoesNotFit", "strict", "n"}),
    [](const auto& test) { return test.param.name; });

TEST_P(SuspendTest, AToolThatIsGoneAtResumeIsAnErrorResult) {  // lessons 2.2
    const auto model = playing({calls({{"c1", "ask"}, {"c2", "look"}}), says("ok")});
    const Counted ask = suspending("ask");
    Agent before({.model = model,
                  .tools = {ask.tool, answering("look", "x").tool},
                  .parallel_tool_calls = false});
    Agent after({.model = model});
    TurnResult first = before.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    TurnResult second = after.respond_and_wait(go_on_with(*first, {result_for("c1", "1")}));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(outline(second->output_messages), "u:c1=1,c2!there is no tool named look | a:ok");
}

TEST_P(SuspendTest, CallIdsThatTheModelRepeatsAreToldApart) {
    const auto model = playing({calls({{"x", "ask"}, {"x", "look"}, {"x", "ask"}}), says("ok")});
    Agent agent({.model = model, .tools = {suspending("ask").tool, answering("look", "v").tool}});
    TurnResult first = agent.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(outline(*first->suspension), "pending x x_3 done x_2=v");
    TurnResult second =
        agent.respond_and_wait(go_on_with(*first, {result_for("x", "1"), result_for("x_3", "3")}));
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_EQ(outline(second->output_messages), "u:x=1,x_2=v,x_3=3 | a:ok");
    expect_all_matched(*model);
}

TEST_P(SuspendTest, ACallIdMayComeAgainInALaterMessageOfTheTurn) {
    const auto model =
        playing({calls({{"x", "look"}}), calls({{"x", "ask"}}), calls({{"x", "ask"}}), says("ok")});
    Agent agent({.model = model, .tools = {suspending("ask").tool, answering("look", "v").tool}});
    TurnResult first = agent.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    ASSERT_EQ(first->suspension->pending_tool_calls.size(), 1U);
    EXPECT_TRUE(first->suspension->completed_tool_calls.empty());
    TurnResult second = agent.respond_and_wait(
        go_on_with(*first, {result_for(first->suspension->pending_tool_calls[0].id.text, "1")}));
    ASSERT_TRUE(second) << second.error().message;
    ASSERT_EQ(second->suspension->pending_tool_calls.size(), 1U);
    TurnResult third = agent.respond_and_wait(
        go_on_with(*second, {result_for(second->suspension->pending_tool_calls[0].id.text, "2")}));
    ASSERT_TRUE(third) << third.error().message;
    EXPECT_EQ(third->text(), "ok");
    EXPECT_EQ(third->suspension->turn_messages.size(), 8U);
    if (session_) {
        EXPECT_EQ(history_of(*session_), third->suspension->turn_messages);
    }
    expect_all_matched(*model);
}

// ---- Limits and sums -------------------------------------------------------------------------

TEST_P(SuspendTest, SuspendingAtTheLastIterationPersistsAndResumes) {  // S2-51
    const auto model = playing(
        {calls({{"c1", "look"}}), calls({{"c2", "ask"}}), calls({{"c3", "look"}}), says("ok")});
    Agent agent({.model = model,
                 .tools = {suspending("ask").tool, answering("look", "v").tool},
                 .max_iterations = 2});
    TurnResult first = agent.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(first->status, ResponseStatus::suspended);
    TurnResult second = agent.respond_and_wait(go_on_with(*first, {result_for("c2", "1")}));
    ASSERT_TRUE(second) << "a resume has its own iterations: " << second.error().message;
    EXPECT_EQ(second->text(), "ok");
}

TEST_P(SuspendTest, AfterTooManyIterationsADurableTurnWaitsAndOthersFailAndTellWhatItCost) {
    const auto model = playing({calls({{"c1", "look"}}), calls({{"c2", "look"}}), says("late")});
    Agent agent({.model = model, .tools = {answering("look", "v").tool}, .max_iterations = 2});
    const TurnResult failed = agent.respond_and_wait(message("Go", session_));
    if (is_durable()) {
        ASSERT_TRUE(failed) << failed.error().message;
        EXPECT_EQ(failed->status, ResponseStatus::suspended);
        const TurnResult done = agent.respond_and_wait(message("Go on", session_));
        ASSERT_TRUE(done) << done.error().message;
        EXPECT_EQ(done->text(), "late");
        return;
    }
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().kind, ErrorKind::unavailable);
    EXPECT_EQ(failed.error().reason, "iteration_limit");
    EXPECT_EQ(failed.error().usage, (Usage{20, 10, 0, 0}));
    EXPECT_EQ(outline(failed.error().output_messages), "a:look#c1 | u:c1=v | a:look#c2 | u:c2=v");
    EXPECT_EQ(outline(failed.error().items), "call:c1 result:c1=v call:c2 result:c2=v");
    if (session_) {
        EXPECT_FALSE(suspension_of(*session_));
    }
}

TEST(SuspensionTest, RoundTripsThroughJsonUnchanged) {  // S2-88 S2-89 S2-90
    const auto model = playing({calls({{"c1", "ask"}, {"c2", "look"}}), says("ok")});
    const RawJson metadata = json(R"({"big":12345678901234567890,"f":1.50,"n":{"a":[1,2]}})");
    const auto look = tool_that("look", [](const ToolCall&) {
        return ToolOutcome::json(json(R"([{"type":"text","text":"{\"v\":1.0}"}])"));
    });
    Agent agent({.model = model, .tools = {suspending("ask", "p", metadata).tool, look}});
    TurnResult first = agent.respond_and_wait(message("Go"));
    ASSERT_TRUE(first) << first.error().message;
    const std::string text = to_json(*first->suspension);
    const Result<Suspension> again = from_json<Suspension>(text, "the suspension");
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(*again, *first->suspension);
    EXPECT_EQ(again->pending_tool_calls[0].metadata.text(), metadata.text());
    const Result<RawJson> content = content_as_json(again->completed_tool_calls[0].result);
    ASSERT_TRUE(content);
    EXPECT_EQ(content->text(), R"({"v":1.0})");
    TurnResult second = agent.respond_and_wait(resume(*again, {result_for("c1", "1")}));
    ASSERT_TRUE(second) << second.error().message;
}

struct Branch {
    std::string branch;
    static constexpr auto fields() { return std::tuple(required("branch", &Branch::branch)); }
};

TEST(SuspensionTest, TheInputOfAPendingCallDecodesIntoAStruct) {  // S2-11 S2-12
    PendingToolCall call;
    call.name = "deploy";
    call.input = json(R"({"branch":"main"})");
    const Result<Branch> input = decode_pending_input<Branch>(call);
    ASSERT_TRUE(input) << input.error().message;
    EXPECT_EQ(input->branch, "main");
    call.input = json(R"({"branch":7})");
    EXPECT_FALSE(decode_pending_input<Branch>(call));
}

}  // namespace
}  // namespace rouse
