// What a turn costs besides the model, the tools and the disk.
//
//   agent_bench [--smoke]      --smoke: few rounds, to see that it runs

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <new>

#include "base/check.h"
#include "bench/figure.h"
#include "rouse/agent.h"
#include "rouse/durable_sessions.h"
#include "rouse/scripted_model.h"

namespace {
std::atomic<std::size_t> allocations = 0;
}

void* operator new(std::size_t size) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    if (void* memory = std::malloc(size)) return memory;
    throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}

namespace rouse::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

const std::string kQuestion(200, 'q');
const std::string kAnswer(200, 'a');
const std::string kResult(200, 'r');

double seconds_since(SteadyClock::time_point start) {
    return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

std::shared_ptr<Model> model() {
    ScriptEntry call;
    call.when.user = "q";
    call.call.push_back({"look", RawJson::trusted(R"({"path":"/etc/hosts"})"), "call_1"});
    call.repeat = true;
    ScriptEntry say;
    say.when.tool_result = "look";
    say.say = kAnswer;
    say.repeat = true;
    return std::make_shared<ScriptedModel>(std::vector{say, call});
}

std::shared_ptr<Tool> tool(bool suspends) {
    ToolSpec spec{"look", "looks"};
    spec.parameters = RawJson::trusted(
        R"({"type":"object","properties":{"path":{"type":"string"}},"required":["path"]})");
    spec.annotations.read_only = true;
    return make_tool(spec, [suspends](const ToolCall&) {
        return suspends ? ToolOutcome::suspended("wait") : ToolOutcome::text(kResult);
    });
}

Response must(TurnResult result) {
    ROUSE_CHECK(result.has_value(), result ? "" : result.error().message);
    return *std::move(result);
}

Task<void> whole_turns(Agent& agent, int count) {
    for (int i = 0; i < count; ++i) {
        AgentRequest request{.messages = {user_message(kQuestion)}};
        TurnResult done = co_await agent.respond(std::move(request));
        ROUSE_CHECK(must(std::move(done)).text() == kAnswer, "the turn");
    }
}

Task<void> suspended_turns(Agent& agent, bool through_json, int count) {
    for (int i = 0; i < count; ++i) {
        AgentRequest request{.messages = {user_message(kQuestion)}};
        TurnResult first = co_await agent.respond(std::move(request));
        AgentRequest next;
        next.state = *std::move(must(std::move(first)).suspension);
        if (through_json) next.state = *from_json<Suspension>(to_json(*next.state), "the turn");
        next.answers.emplace_back(CallId{"call_1"}, text_result(kResult));
        TurnResult second = co_await agent.respond(std::move(next));
        ROUSE_CHECK(must(std::move(second)).text() == kAnswer, "the turn");
    }
}

Task<double> session_turn(Agent& agent, std::shared_ptr<Session> session) {
    const SteadyClock::time_point start = SteadyClock::now();
    AgentRequest request{.session = std::move(session), .messages = {user_message(kQuestion)}};
    TurnResult done = co_await agent.respond(std::move(request));
    must(std::move(done));
    co_return seconds_since(start);
}

struct TurnTimes {
    std::vector<double> late;
    std::vector<double> young;
};

// The last turns of a long session, in turn with turns 6 to 15 of short ones: a disk is not as fast
// in one minute as in the next.
Task<void> long_and_short(Agent& agent, DurableSessions& sessions, std::size_t turns,
                          TurnTimes& times) {
    constexpr std::size_t kFirst = 5;
    constexpr std::size_t kLast = 15;
    const std::size_t sample = std::min<std::size_t>(turns / 4, 200);
    const std::shared_ptr<Session> old = *sessions.create();
    std::shared_ptr<Session> young;
    std::size_t young_turns = kLast;
    for (std::size_t i = 0; i < turns; ++i) {
        const double took = co_await session_turn(agent, old);
        if (i + sample < turns) continue;
        times.late.push_back(took);
        if (young_turns == kLast) {
            young = *sessions.create();
            for (young_turns = 0; young_turns < kFirst; ++young_turns)
                (void)co_await session_turn(agent, young);
        }
        ++young_turns;
        const double beside = co_await session_turn(agent, young);
        times.young.push_back(beside);
    }
}

// Seconds for each round; the work runs on one loop, as a server would run it.
template <class Work>
double time_of(int count, Work work) {
    boost::asio::io_context loop(1);
    const SteadyClock::time_point start = SteadyClock::now();
    boost::asio::co_spawn(loop, work(count), [](std::exception_ptr thrown) {
        if (thrown) std::rethrow_exception(thrown);
    });
    loop.run();
    return seconds_since(start) / count;
}

// The messages of such a turn, parsed and printed.
double json_time(Agent& agent, int count) {
    const Response response = must(agent.respond_and_wait({.messages = {user_message(kQuestion)}}));
    std::vector<Message> turn{user_message(kQuestion)};
    turn.insert(turn.end(), response.output_messages.begin(), response.output_messages.end());
    const std::string text = to_json(turn);
    std::size_t printed = 0;
    const SteadyClock::time_point start = SteadyClock::now();
    for (int i = 0; i < count; ++i)
        printed += boost::json::serialize(boost::json::parse(text)).size();
    ROUSE_CHECK(printed == text.size() * static_cast<std::size_t>(count), "the same text");
    return seconds_since(start) / count;
}

void bench_stateless(int count, std::vector<Figure>& figures) {
    Agent quick({.model = model(), .tools = {tool(false)}});
    Agent waits({.model = model(), .tools = {tool(true)}});
    (void)json_time(quick, count / 10 + 1);
    const double json = json_time(quick, count);
    const double whole = time_of(count, [&](int n) { return whole_turns(quick, n); });
    const std::size_t before = allocations;
    (void)time_of(count, [&](int n) { return whole_turns(quick, n); });
    const double allocated = static_cast<double>(allocations - before) / count;
    const double halves = time_of(count, [&](int n) { return suspended_turns(waits, false, n); });
    const double as_json = time_of(count, [&](int n) { return suspended_turns(waits, true, n); });
    figures.push_back(
        {"agent", "turn with a tool, no session", whole * 1e6, "us", json * 1e6, Goal::at_most, 3});
    figures.push_back({"agent", "suspend and resume, no session", halves * 1e6, "us", json * 1e6,
                       Goal::at_most, 5});
    figures.push_back({"agent", "the same, the suspension kept as JSON", as_json * 1e6, "us",
                       json * 1e6, Goal::none, 0});
    figures.push_back({"agent", "allocations of a turn", allocated, "", 0, Goal::none, 0});
}

// Of many; what disturbed a few of them does not count.
double lower_quarter(std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 4];
}

void bench_durable(std::size_t turns, std::vector<Figure>& figures) {
    std::string directory = (std::filesystem::current_path() / "bench-data-XXXXXX").string();
    ROUSE_CHECK(::mkdtemp(directory.data()) != nullptr, "no directory for the bench");
    {
        auto sessions = DurableSessions::open(directory);
        ROUSE_CHECK(sessions.has_value(), "open");
        Agent agent({.model = model(), .tools = {tool(false)}});
        TurnTimes times;
        (void)time_of(1, [&](int) { return long_and_short(agent, **sessions, turns, times); });
        figures.push_back({"agent", "durable turn " + std::to_string(turns) + " (beside: turn 10)",
                           lower_quarter(times.late) * 1e6, "us", lower_quarter(times.young) * 1e6,
                           Goal::at_most, 1.3});
    }
    std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace rouse::bench

int main(int argc, char** argv) {
    using namespace rouse::bench;
    const bool smoke = argc > 1 && std::string(argv[1]) == "--smoke";
    std::vector<Figure> figures;
    bench_stateless(smoke ? 100 : 50'000, figures);
    bench_durable(smoke ? 60 : 5000, figures);
    print(figures);
    return 0;
}
