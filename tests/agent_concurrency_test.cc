// Several calls at once, calls from inside a turn, and calls that are cancelled. Timers stand for
// things that never happen: none of them runs out in a test that passes.

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <stop_token>
#include <thread>

#include "store/memory/memory_store.h"
#include "testing/agent_kit.h"

namespace rouse {
namespace {

using namespace testing;
namespace asio = boost::asio;

constexpr std::chrono::hours kNever(1);

ScriptEntry repeating(ScriptEntry entry) {
    entry.repeat = true;
    return entry;
}

// A tool that tells that it has begun, and then waits for a timer that does not run out.
Task<ToolOutcome> wait_long(std::function<void()> begun) {
    const auto executor = co_await asio::this_coro::executor;
    asio::steady_timer timer(executor, kNever);
    begun();
    co_await timer.async_wait(asio::use_awaitable);
    co_return ToolOutcome::text("never");
}
std::shared_ptr<Tool> waiting_tool(std::function<void()> begun, ToolAnnotations annotations = {}) {
    ToolSpec spec{"wait", "waits for a timer", {}, annotations};
    return make_async_tool(spec, [begun](const ToolCall&) { return wait_long(begun); });
}

// A model that tells that it has begun, and then waits for ever; later it plays its script.
class WaitingModel final : public Model {
 public:
    WaitingModel(std::function<void()> begun, std::vector<ScriptEntry> script)
        : begun_(std::move(begun)), script_(std::move(script)) {}
    Task<ModelResult> generate(ModelRequest request, const OnText& on_text) override {
        if (!waits) co_return co_await script_.generate(request, on_text);
        const auto executor = co_await asio::this_coro::executor;
        asio::steady_timer timer(executor, kNever);
        begun_();
        co_await timer.async_wait(asio::use_awaitable);
        co_return Error(ErrorKind::internal, "woke_up", "the timer ran out");
    }
    bool waits = true;

 private:
    std::function<void()> begun_;
    ScriptedModel script_;
};

class ConcurrencyTest : public KeptTest {};
INSTANTIATE_TEST_SUITE_P(Sessions, ConcurrencyTest,
                         ::testing::Values(Keeping::memory, Keeping::durable), keeping_name);

// ---- Calls on one session take their turns ----------------------------------------------------

// Fails when two calls are in it at once.
struct Gate {
    std::atomic<int> inside = 0;
    std::atomic<int> passed = 0;
    std::atomic<bool> met = false;
};
Task<ToolOutcome> pass(std::shared_ptr<Gate> gate) {
    const auto executor = co_await asio::this_coro::executor;
    if (++gate->inside > 1) gate->met = true;
    for (int i = 0; i < 20; ++i)
        co_await asio::post(executor, asio::use_awaitable);
    --gate->inside;
    ++gate->passed;
    co_return ToolOutcome::text("passed");
}
std::shared_ptr<Tool> gate_tool(const std::shared_ptr<Gate>& gate) {
    return make_async_tool({"gate", "one at a time"},
                           [gate](const ToolCall&) { return pass(gate); });
}
std::vector<ScriptEntry> gate_script() {
    ScriptEntry use = repeating(calls({{"", "gate"}}));
    use.when.user = "Go";
    ScriptEntry end = repeating(says("ok"));
    end.when.tool_result = "gate";
    return {end, use};
}

TEST_P(ConcurrencyTest, CallsFromManyThreadsAndAgentsSerialise) {  // S2-82
    const auto gate = std::make_shared<Gate>();
    const auto model = std::make_shared<ScriptedModel>(gate_script());
    Agent one({.model = model, .tools = {gate_tool(gate)}});
    Agent two({.model = model, .tools = {gate_tool(gate)}});
    constexpr int kThreads = 4;
    constexpr int kCalls = 5;
    std::atomic<int> completed = 0;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < kThreads; ++i) {
            threads.emplace_back([&, i] {
                for (int call = 0; call < kCalls; ++call) {
                    Agent& agent = i % 2 == 0 ? one : two;
                    if (agent.respond_and_wait(message("Go", session_))) ++completed;
                }
            });
        }
    }
    EXPECT_EQ(completed, kThreads * kCalls);
    EXPECT_FALSE(gate->met);
    EXPECT_EQ(gate->passed, kThreads * kCalls);
    const std::vector<Message> history = history_of(*session_);
    EXPECT_EQ(history.size(), 4U * kThreads * kCalls);
    EXPECT_EQ(unmatched_calls(history), "");
}

TEST_P(ConcurrencyTest, CallsOnOneLoopWithManyThreadsSerialise) {  // S2-82
    const auto gate = std::make_shared<Gate>();
    const auto model = std::make_shared<ScriptedModel>(gate_script());
    Agent agent({.model = model, .tools = {gate_tool(gate)}});
    constexpr int kCalls = 20;
    std::atomic<int> completed = 0;
    asio::io_context loop;
    for (int i = 0; i < kCalls; ++i) {
        const auto done = [&](std::exception_ptr thrown, TurnResult result) {
            EXPECT_FALSE(thrown);
            EXPECT_TRUE(result) << result.error().message;
            if (result) ++completed;
        };
        asio::co_spawn(loop, agent.respond(message("Go", session_)), done);
    }
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 4; ++i)
            threads.emplace_back([&] { loop.run(); });
    }
    EXPECT_EQ(completed, kCalls);
    EXPECT_FALSE(gate->met);
    EXPECT_EQ(history_of(*session_).size(), 4U * kCalls);
}

TEST_P(ConcurrencyTest, OnlyOneOfManyResumesTakesTheTurn) {
    const auto model = playing({calls({{"c1", "ask"}}), says("ok")});
    Agent agent({.model = model, .tools = {suspending("ask").tool}});
    ASSERT_TRUE(agent.respond_and_wait(message("Go", session_)));
    std::atomic<int> completed = 0;
    std::atomic<int> refused = 0;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 4; ++i) {
            threads.emplace_back([&] {
                const TurnResult result =
                    agent.respond_and_wait(answer(session_, {result_for("c1", "1")}));
                if (result) ++completed;
                if (!result && result.error().reason == "no_suspended_turn") ++refused;
            });
        }
    }
    EXPECT_EQ(completed, 1);
    EXPECT_EQ(refused, 3);
}

TEST(StatelessTest, CallsWithoutASessionDoNotWaitForOneAnother) {  // S2-82
    // Each waits until the other has begun.
    struct Pair {
        int begun = 0;
        static Task<ToolOutcome> meet(std::shared_ptr<Pair> pair) {
            ++pair->begun;
            const auto executor = co_await asio::this_coro::executor;
            for (int i = 0; pair->begun < 2 && i < 10000; ++i)
                co_await asio::post(executor, asio::use_awaitable);
            co_return pair->begun == 2 ? ToolOutcome::text("met") : ToolOutcome::error("alone");
        }
    };
    const auto pair = std::make_shared<Pair>();
    const auto tool = make_async_tool({"meet", "waits for the other"},
                                      [pair](const ToolCall&) { return Pair::meet(pair); });
    const auto model =
        std::make_shared<ScriptedModel>(std::vector{calls({{"c1", "meet"}}), says("{{result}}")});
    Agent agent({.model = model, .tools = {tool}});
    asio::io_context loop(1);
    int met = 0;
    for (int i = 0; i < 2; ++i) {
        const auto done = [&](std::exception_ptr, TurnResult result) {
            if (result && result->text() == "met") ++met;
        };
        asio::co_spawn(loop, agent.respond(message("Go")), done);
    }
    loop.run();
    EXPECT_EQ(met, 2);
}

// ---- Calls from inside a turn -----------------------------------------------------------------

struct Inner {
    Agent* agent = nullptr;
    std::shared_ptr<Session> session;
    std::string reason = "not called";
    bool blocking = false;

    void note(const TurnResult& result) {
        reason = result ? "went through" : std::string(result.error().reason);
    }
    Task<void> call() {
        AgentRequest request = message("From inside", session);
        if (blocking) {
            note(agent->respond_and_wait(std::move(request)));
            co_return;
        }
        const TurnResult result = co_await agent->respond(std::move(request));
        note(result);
    }
};
Task<ToolOutcome> call_as_tool(std::shared_ptr<Inner> inner) {
    co_await inner->call();
    co_return ToolOutcome::text("tried");
}
Task<HookVerdict> call_as_hook(std::shared_ptr<Inner> inner) {
    co_await inner->call();
    co_return HookVerdict::go_on();
}

struct ReentrantCase {
    std::string name;
    bool from_hook;
    bool blocking;
    std::size_t batch;  // a batch of several runs on a strand of its own
};
class ReentrantTest : public ::testing::TestWithParam<ReentrantCase> {};

TEST_P(ReentrantTest, FailsAtOnceAndTheTurnGoesOn) {  // S2, 2.2 #192
    const ReentrantCase& c = GetParam();
    const auto inner = std::make_shared<Inner>();
    inner->session = make_memory_session(SessionId("outer"));
    inner->blocking = c.blocking;
    std::vector<std::pair<std::string, std::string>> batch;
    for (std::size_t i = 0; i < c.batch; ++i)
        batch.emplace_back("c" + std::to_string(i), "call");
    const auto tool = make_async_tool({"call", "calls the agent"}, [inner, c](const ToolCall&) {
        return c.from_hook ? call_as_tool(std::make_shared<Inner>()) : call_as_tool(inner);
    });
    const auto plain = answering("call", "tried");
    Hooks hooks;
    if (c.from_hook) {
        hooks.add_async(HookPoint::stop, [inner](HookContext&) { return call_as_hook(inner); });
    }
    const auto model = playing({calls(batch), says("done")});
    Agent agent({.model = model, .tools = {c.from_hook ? plain.tool : tool}, .hooks = hooks});
    inner->agent = &agent;
    const TurnResult done = agent.respond_and_wait(message("Go", inner->session));
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->text(), "done");
    EXPECT_EQ(inner->reason, "reentrant_session");
    EXPECT_EQ(model->requests.size(), 2U);
}
INSTANTIATE_TEST_SUITE_P(
    Ways, ReentrantTest,
    ::testing::Values(ReentrantCase{"AsyncFromATool", false, false, 1},
                      ReentrantCase{"AsyncFromAParallelBatch", false, false, 3},
                      ReentrantCase{"BlockingFromATool", false, true, 1},
                      ReentrantCase{"BlockingFromAParallelBatch", false, true, 3},
                      ReentrantCase{"AsyncFromAHook", true, false, 1},
                      ReentrantCase{"BlockingFromAHook", true, true, 1}),
    [](const auto& test) { return test.param.name; });

TEST(NestedTurnTest, ATurnMayCallAnotherSessionAndThatMayNotCallBack) {
    const auto outer_session = make_memory_session(SessionId("outer"));
    const auto back = std::make_shared<Inner>();   // from the inner turn to the outer session
    const auto there = std::make_shared<Inner>();  // from the outer turn to the inner session
    const auto tool_of = [](std::shared_ptr<Inner> inner) {
        return make_async_tool({"call", "calls"},
                               [inner](const ToolCall&) { return call_as_tool(inner); });
    };
    Agent inner(
        {.model = playing({calls({{"c1", "call"}}), says("inner")}), .tools = {tool_of(back)}});
    Agent outer(
        {.model = playing({calls({{"c1", "call"}}), says("outer")}), .tools = {tool_of(there)}});
    back->agent = &outer;
    back->session = outer_session;
    there->agent = &inner;
    there->session = make_memory_session(SessionId("inner"));
    const TurnResult done = outer.respond_and_wait(message("Go", outer_session));
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(there->reason, "went through");
    EXPECT_EQ(back->reason, "reentrant_session");
}

// ---- Cancelling -------------------------------------------------------------------------------

enum class By : std::uint8_t { stop_token, asio_signal };
enum class Step : std::uint8_t { before, model, tool, tools, hook };
struct CancelCase {
    std::string name;
    Keeping keeping;
    By by;
    Step step;
};

// A call on a loop of its own that is cancelled at one step.
class CancelTest : public ::testing::TestWithParam<CancelCase> {
 protected:
    CancelTest() {
        if (GetParam().keeping == Keeping::memory) session_ = make_memory_session(SessionId("m"));
        if (GetParam().keeping != Keeping::durable) return;
        auto opened = DurableSessions::open(env_, store_);
        EXPECT_TRUE(opened);
        sessions_ = *std::move(opened);
        session_ = *sessions_->create();
    }
    void cancel() {
        begun_ = true;
        if (GetParam().by == By::stop_token) stop_.request_stop();
        if (GetParam().by == By::asio_signal) {
            asio::post(loop_, [this] { signal_.emit(asio::cancellation_type::terminal); });
        }
    }
    TurnResult run(Agent& agent, AgentRequest request) {
        request.stop = stop_.get_token();
        TurnResult result;
        const auto done = [&](std::exception_ptr thrown, TurnResult value) {
            EXPECT_FALSE(thrown);
            result = std::move(value);
            loop_.stop();
        };
        asio::co_spawn(loop_, agent.respond(std::move(request)),
                       asio::bind_cancellation_slot(signal_.slot(), done));
        EXPECT_NO_THROW(loop_.run());
        return result;
    }

    ManualClock clock_;
    SeededRandom random_{7};
    RealFs fs_;
    Logger log_{LogLevel::off};
    Env env_{clock_, random_, fs_, log_};
    std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>(clock_);
    std::unique_ptr<DurableSessions> sessions_;
    std::shared_ptr<Session> session_;
    asio::io_context loop_{1};
    asio::cancellation_signal signal_;
    std::stop_source stop_;
    bool begun_ = false;
};

Task<HookVerdict> hook_waits(std::function<void()> begun) {
    const ToolOutcome never = co_await wait_long(begun);
    co_return HookVerdict::go_on();
}

TEST_P(CancelTest, EndsTheCallAndTheSessionIsAsItWasOrCanGoOn) {  // S2-60
    const CancelCase& c = GetParam();
    const auto begun = [this] { cancel(); };
    ScriptEntry batch = calls({{"c1", "ask"}});
    if (c.step == Step::tool) batch = calls({{"c1", "wait"}});
    if (c.step == Step::tools) batch = calls({{"c1", "wait"}, {"c2", "look"}, {"c3", "wait"}});
    const auto model =
        std::make_shared<WaitingModel>(begun, std::vector{batch, says("went on"), says("more")});
    model->waits = c.step == Step::model;
    Hooks hooks;
    if (c.step == Step::hook) {
        hooks.add_async(HookPoint::on_suspend, [&](HookContext&) { return hook_waits(begun); });
    }
    ToolAnnotations again;
    again.idempotent = true;
    Agent agent({.model = model,
                 .tools = {waiting_tool(begun), suspending("ask").tool,
                           answering("look", "seen", again).tool},
                 .hooks = hooks});
    const std::string before = session_ ? snapshot(*session_) : "";
    if (c.step == Step::before) cancel();
    const TurnResult cancelled = run(agent, message("Go", session_));
    EXPECT_TRUE(begun_);
    ASSERT_FALSE(cancelled);
    EXPECT_EQ(cancelled.error().kind, ErrorKind::cancelled) << cancelled.error().message;
    EXPECT_EQ(cancelled.error().reason, "cancelled");
    if (!session_) return;
    if (c.keeping == Keeping::memory) {
        EXPECT_EQ(snapshot(*session_), before);
    }
    EXPECT_FALSE(suspension_of(*session_));
    // Nothing is left locked or half done: the session takes another call.
    model->waits = false;
    Agent plain({.model = model,
                 .tools = {suspending("ask").tool, answering("wait", "waited").tool,
                           answering("look", "seen", again).tool}});
    TurnResult next = c.keeping == Keeping::durable && c.step != Step::before
                          ? plain.respond_and_wait({.session = session_, .go_on = true})
                          : plain.respond_and_wait(message("Again", session_));
    ASSERT_TRUE(next) << next.error().message;
    if (next->status == ResponseStatus::suspended) {
        next = plain.respond_and_wait(answer(session_, {result_for("c1", "1")}));
        ASSERT_TRUE(next) << next.error().message;
    }
    EXPECT_EQ(next->text(), "went on");
    EXPECT_EQ(unmatched_calls(history_of(*session_)), "");
}

std::vector<CancelCase> cancel_cases() {
    std::vector<CancelCase> cases;
    for (const auto& [keeping, where] :
         {std::pair(Keeping::nowhere, "WithoutSession"), std::pair(Keeping::memory, "Memory"),
          std::pair(Keeping::durable, "Durable")}) {
        for (const auto& [by, how] :
             {std::pair(By::stop_token, "ByStopToken"), std::pair(By::asio_signal, "BySignal")}) {
            for (const auto& [step, when] :
                 {std::pair(Step::before, "BeforeItBegins"), std::pair(Step::model, "InTheModel"),
                  std::pair(Step::tool, "InATool"), std::pair(Step::tools, "InABatch"),
                  std::pair(Step::hook, "InAHook")}) {
                // A signal before the call has nobody to tell.
                if (step == Step::before && by == By::asio_signal) continue;
                cases.push_back({std::string(where) + how + when, keeping, by, step});
            }
        }
    }
    return cases;
}
INSTANTIATE_TEST_SUITE_P(Steps, CancelTest, ::testing::ValuesIn(cancel_cases()),
                         [](const auto& test) { return test.param.name; });

// Counts what escapes from the loop, where nobody could catch it.
void run_out(asio::io_context& loop, std::atomic<int>& escaped) {
    for (;;) {
        try {
            loop.run();
            return;
        } catch (const std::exception&) {
            ++escaped;
        }
    }
}

TEST(StatelessTest, AStopThatCameBeforeTheCallIsNeverLost) {
    const auto model = std::make_shared<ScriptedModel>(std::vector{repeating(says("too late"))});
    Agent agent({.model = model});
    std::stop_source stop;
    stop.request_stop();
    std::atomic<int> lost = 0;
    std::atomic<int> escaped = 0;
    asio::io_context loop;
    for (int i = 0; i < 300; ++i) {
        AgentRequest request = message("Go");
        if (i % 2 == 0) request.session = make_memory_session(SessionId("s" + std::to_string(i)));
        request.stop = stop.get_token();
        const auto done = [&](std::exception_ptr, TurnResult result) {
            if (result || result.error().kind != ErrorKind::cancelled) ++lost;
        };
        asio::co_spawn(loop, agent.respond(std::move(request)), done);
    }
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 4; ++i)
            threads.emplace_back([&] { run_out(loop, escaped); });
    }
    EXPECT_EQ(escaped, 0);
    EXPECT_EQ(lost, 0);
}

TEST_P(ConcurrencyTest, ACallThatWaitsForTheSessionCanBeCancelled) {
    asio::io_context loop(1);
    std::stop_source stop_first;
    std::stop_source stop_second;
    std::vector<std::string> ended;
    const auto ending = [&](std::string name) {
        return [&ended, name](std::exception_ptr thrown, TurnResult result) {
            EXPECT_FALSE(thrown);
            ended.push_back(name + ":" + (result ? "ok" : std::string(result.error().reason)));
        };
    };
    const auto model = playing({calls({{"c1", "wait"}}), says("ok")});
    Agent agent({.model = model, .tools = {waiting_tool([&] {
                                     asio::post(loop, [&] { stop_second.request_stop(); });
                                 })}});
    AgentRequest first = message("First", session_);
    first.stop = stop_first.get_token();
    AgentRequest second = message("Second", session_);
    second.stop = stop_second.get_token();
    asio::co_spawn(loop, agent.respond(first), ending("first"));
    asio::co_spawn(loop, agent.respond(second), ending("second"));
    while (ended.empty() && loop.run_one() > 0) {
    }
    EXPECT_EQ(joined(ended), "second:cancelled");
    EXPECT_EQ(model->requests.size(), 1U);
    stop_first.request_stop();
    loop.run();
    EXPECT_EQ(joined(ended), "second:cancelled first:cancelled");
}

// A program may throw a loop away with calls on it, waiting ones and the one that has its turn.
TEST(AbandonedLoopTest, ItsCallsDoNotKeepTheSessionLocked) {
    const auto session = make_memory_session(SessionId("abandoned"));
    Agent waits({.model = playing({calls({{"c1", "wait"}})}), .tools = {waiting_tool([] {})}});
    Agent answers({.model = playing({says("ok")})});
    const auto nothing = [](std::exception_ptr, TurnResult) {};
    bool answered = false;
    asio::io_context third(1);
    {
        asio::io_context first(1);
        asio::co_spawn(first, waits.respond(message("First", session)), nothing);
        first.poll();
        {
            asio::io_context second(1);
            asio::co_spawn(second, answers.respond(message("Second", session)), nothing);
            second.poll();
        }
        const auto done = [&](std::exception_ptr, TurnResult result) {
            answered = result.has_value();
        };
        asio::co_spawn(third, answers.respond(message("Third", session)), done);
        third.poll();
        EXPECT_FALSE(answered) << "the first has the session";
    }
    third.restart();
    third.poll();
    EXPECT_TRUE(answered);
}

TEST_P(ConcurrencyTest, ATimeLimitSaysSo) {
    const auto model = playing({calls({{"c1", "wait"}}), says("ok")});
    Agent agent({.model = model, .tools = {waiting_tool([] {})}, .time_limit = Milliseconds(5)});
    const std::string before = session_snapshot();
    const TurnResult late = agent.respond_and_wait(message("Go", session_));
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().kind, ErrorKind::timeout);
    EXPECT_EQ(late.error().reason, "time_limit");
    EXPECT_EQ(late.error().usage, (Usage{10, 5, 0, 0}));
    if (!is_durable()) {
        EXPECT_EQ(session_snapshot(), before);
    }
}

TEST_P(ConcurrencyTest, ACancelledResumeOfAMemorySessionKeepsTheSuspension) {  // S2-60
    if (is_durable()) GTEST_SKIP() << "it has recorded the answers; see CancelTest";
    std::stop_source stop;
    const auto model = playing({calls({{"c1", "ask"}, {"c2", "wait"}}), says("ok")});
    Agent agent({.model = model,
                 .tools = {suspending("ask").tool, waiting_tool([&] { stop.request_stop(); })},
                 .parallel_tool_calls = false});
    ASSERT_TRUE(agent.respond_and_wait(message("Go", session_)));
    const std::string before = session_snapshot();
    AgentRequest request = answer(session_, {result_for("c1", "1")});
    request.stop = stop.get_token();
    const TurnResult cancelled = agent.respond_and_wait(request);
    ASSERT_FALSE(cancelled);
    EXPECT_EQ(cancelled.error().kind, ErrorKind::cancelled);
    EXPECT_EQ(session_snapshot(), before);
}

TEST_P(ConcurrencyTest, ANewMessageAfterACancelledTurnSeesItAsHistory) {
    std::stop_source stop;
    ScriptEntry used = calls({{"c1", "look"}, {"c2", "wait"}});
    const auto model = playing({says("hello"), used, calls({{"c3", "ask"}}), says("ok")});
    Agent agent({.model = model,
                 .tools = {answering("look", "seen").tool, suspending("ask").tool,
                           waiting_tool([&] { stop.request_stop(); })}});
    ASSERT_TRUE(agent.respond_and_wait(message("Hi", session_)));
    AgentRequest request = message("Go", session_);
    request.stop = stop.get_token();
    ASSERT_FALSE(agent.respond_and_wait(request));
    const TurnResult next = agent.respond_and_wait(message("Again", session_));
    ASSERT_TRUE(next) << next.error().message;
    const std::string seen = outline(model->requests.back());
    EXPECT_EQ(unmatched_calls(model->requests.back()), "");
    EXPECT_TRUE(seen.starts_with("u:Hi | a:hello | ")) << seen;
    EXPECT_TRUE(seen.ends_with(" | u:Again")) << seen;
    if (is_durable()) {
        EXPECT_NE(seen.find("c1=seen"), std::string::npos) << seen;
    }
    ASSERT_EQ(next->status, ResponseStatus::suspended);
    EXPECT_EQ(outline(next->suspension->turn_messages), "u:Again | a:ask#c3");
    const std::optional<Suspension> kept = suspension_of(*session_);
    ASSERT_TRUE(kept);
    EXPECT_EQ(outline(kept->turn_messages), "u:Again | a:ask#c3");
    EXPECT_EQ(kept->usage, next->suspension->usage) << "of this turn alone";
    const TurnResult done = agent.respond_and_wait(answer(session_, {result_for("c3", "3")}));
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->usage, (Usage{17, 8, 0, 0}));
}

}  // namespace
}  // namespace rouse
