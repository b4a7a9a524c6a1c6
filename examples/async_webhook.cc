// Two processes. The first starts a job and is killed with -9 while it waits; the second, as a
// webhook handler would, finds the session by the pending call and goes on with the result.
//
//   async_webhook start; async_webhook finish
#include <csignal>
#include <iostream>
#include <string_view>

#include <rouse/agent.h>
#include <rouse/durable_sessions.h>
#include <rouse/scripted_model.h>

namespace {

int fail(const rouse::Error& error) {
    std::cerr << error.message << "\n";
    return 1;
}

}  // namespace

int main(int argc, char** argv) {
    const bool starts = argc > 1 && std::string_view(argv[1]) == "start";
    auto model = rouse::ScriptedModel::from_text(R"(
        {"when":{"tool_result":"render"},"say":"Your film: {{result}}"}
        {"say":"I start the render.","call":[{"tool":"render","input":{"film":"intro"}}]})");
    if (!model) return fail(model.error());
    auto render = rouse::make_tool({"render", "Renders a film"}, [](const rouse::ToolCall&) {
        return rouse::ToolOutcome::suspended("A render farm works on it.");
    });
    rouse::Agent agent({.model = *model, .tools = {render}});
    auto sessions = rouse::DurableSessions::open("sessions");
    if (!sessions) return fail(sessions.error());

    if (starts) {
        auto session = (*sessions)->create();
        if (!session) return fail(session.error());
        auto response = agent.respond_and_wait(
            {.session = *session, .messages = {rouse::user_message("Render the intro")}});
        if (!response) return fail(response.error());
        std::cout << "suspended, and now kill -9\n" << std::flush;
        return std::raise(SIGKILL);
    }
    for (const rouse::SessionInfo& waiting : (*sessions)->list({.suspended = true})) {
        auto session = (*sessions)->get(waiting.id);
        if (!session) return fail(session.error());
        rouse::Answers answers{{{"call_1_1"}, rouse::text_result("https://films.example/intro")}};
        auto response = agent.respond_and_wait({.session = *session, .answers = answers});
        if (!response) return fail(response.error());
        std::cout << response->text() << "\n";
    }
}
