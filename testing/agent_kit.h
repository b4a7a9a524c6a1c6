#pragma once

// Small agents for tests: a script, tools that remember their calls, and short words for requests.

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/env.h"
#include "rouse/agent.h"
#include "rouse/durable_sessions.h"
#include "rouse/scripted_model.h"
#include "testing/manual_clock.h"
#include "testing/seeded_random.h"

namespace rouse::testing {

inline RawJson json(std::string_view text) {
    const Result<RawJson> parsed = RawJson::parse(text);
    return parsed ? *parsed : RawJson::trusted("\"not json\"");
}

// A script entry that calls tools with empty inputs, with ids c1, c2, … of the tools' names.
inline ScriptEntry calls(std::vector<std::pair<std::string, std::string>> id_and_tool) {
    ScriptEntry entry;
    for (auto& [id, tool] : id_and_tool)
        entry.call.push_back({std::move(tool), RawJson::trusted("{}"), std::move(id)});
    entry.usage = {10, 5, 0, 0};
    return entry;
}

inline ScriptEntry says(std::string text) {
    ScriptEntry entry;
    entry.say = std::move(text);
    entry.usage = {7, 3, 0, 0};
    return entry;
}

// Plays a script and keeps what it was asked, to look at afterwards.
class WatchedModel final : public Model {
 public:
    explicit WatchedModel(std::vector<ScriptEntry> script) : script_(std::move(script)) {}

    Task<ModelResult> generate(ModelRequest request, const OnText& on_text) override {
        std::vector<Message> asked(request.history.begin(), request.history.end());
        asked.insert(asked.end(), request.turn.begin(), request.turn.end());
        requests.push_back(std::move(asked));
        systems.emplace_back(request.system);
        return script_.generate(request, on_text);
    }

    std::vector<std::vector<Message>> requests;
    std::vector<std::string> systems;

 private:
    ScriptedModel script_;
};

// Every tool call has exactly one result, in the message behind it. Empty when that is so.
std::string unmatched_calls(const std::vector<Message>& messages);

// A tool that answers, and counts.
struct Counted {
    std::shared_ptr<Tool> tool;
    std::shared_ptr<int> calls = std::make_shared<int>(0);
};
Counted answering(std::string name, std::string answer, ToolAnnotations annotations = {});
Counted suspending(std::string name, std::string prompt = "please", RawJson metadata = {});

inline AgentRequest message(std::string text, std::shared_ptr<Session> session = nullptr) {
    return {.session = std::move(session), .messages = {user_message(std::move(text))}};
}
inline AgentRequest answer(std::shared_ptr<Session> session, Answers answers) {
    return {.session = std::move(session), .answers = std::move(answers)};
}
inline AgentRequest resume(Suspension state, Answers answers) {
    return {.answers = std::move(answers), .state = std::move(state)};
}
inline std::pair<CallId, Answer> result_for(std::string id, std::string_view text) {
    return {CallId{std::move(id)}, text_result(text)};
}
inline std::pair<CallId, Answer> error_for(std::string id, std::string_view text) {
    return {CallId{std::move(id)}, error_result(text)};
}
inline std::pair<CallId, Answer> approval_for(std::string id, Approval approval) {
    return {CallId{std::move(id)}, std::move(approval)};
}
inline std::shared_ptr<WatchedModel> playing(std::vector<ScriptEntry> script) {
    return std::make_shared<WatchedModel>(std::move(script));
}

// Runs a task to its end, on a loop of its own.
template <class T>
T wait_for(Task<T> task) {
    boost::asio::io_context loop(1);
    std::optional<T> result;
    std::exception_ptr thrown;
    const auto done = [&](const std::exception_ptr& error, T value) {
        thrown = error;
        result = std::move(value);
    };
    boost::asio::co_spawn(loop, std::move(task), done);
    loop.run();
    if (thrown) std::rethrow_exception(thrown);
    return *std::move(result);
}

// Conversations in short: "u:Deploy | a:On it.,deploy#c1 | u:c1=v42,c2!too late | a:Done".
std::string outline(const std::vector<Message>& messages);
// "text call:c1 pending:c1 result:c1=v42 error:c2=too late suspended completed".
std::string outline(const std::vector<Item>& items);
// The ids of pending, completed and approved calls: "pending c1 c2 done c3=text approved c4".
std::string outline(const Suspension& suspension);

std::vector<Message> history_of(Session& session);
std::optional<Suspension> suspension_of(Session& session);
// All that a session says of itself, byte for byte: what must not change.
std::string snapshot(Session& session);

// A hook at every point that writes "point" or "point call" into the log.
using CallLog = std::shared_ptr<std::vector<std::string>>;
Hooks watching(const CallLog& log);
std::string joined(const std::vector<std::string>& words);

// The three ways to keep a conversation. A suspended turn is resumed by its session, or by its
// state where there is no session.
enum class Keeping : std::uint8_t { nowhere, memory, durable };
std::string keeping_name(const ::testing::TestParamInfo<Keeping>& test);

class KeptTest : public ::testing::TestWithParam<Keeping> {
 protected:
    KeptTest();

    AgentRequest go_on_with(const Response& response, Answers answers) const {
        if (session_) return answer(session_, std::move(answers));
        return resume(*response.suspension, std::move(answers));
    }
    bool is_durable() const { return GetParam() == Keeping::durable; }
    std::string session_snapshot() const { return session_ ? snapshot(*session_) : ""; }

    ManualClock clock_;
    SeededRandom random_{7};
    RealFs fs_;
    Logger log_{LogLevel::off};
    Env env_{clock_, random_, fs_, log_};
    std::unique_ptr<DurableSessions> sessions_;
    std::shared_ptr<Session> session_;
};

}  // namespace rouse::testing
