// An agent in a program of yours: a model, a tool that takes long, and a session that outlives the
// process. This is the example of the README.
#include <iostream>

#include <rouse/agent.h>
#include <rouse/durable_sessions.h>
#include <rouse/scripted_model.h>

int main() {
    auto model = rouse::ScriptedModel::from_text(R"(
        {"when":{"tool_result":"deploy"},"say":"Deployed: {{result}}"}
        {"call":[{"id":"call_1","tool":"deploy","input":{"branch":"main"}}]})");
    auto deploy = rouse::make_tool({"deploy", "Deploys a branch"}, [](const rouse::ToolCall&) {
        return rouse::ToolOutcome::suspended("The pipeline runs; its result comes later.");
    });
    rouse::Agent agent({.model = *model, .tools = {deploy}});
    auto sessions = rouse::DurableSessions::open("sessions");
    if (!sessions) return std::cerr << sessions.error().message << "\n", 1;

    auto session = (*sessions)->create("a deploy");
    auto response = agent.respond_and_wait(
        {.session = *session, .messages = {rouse::user_message("Deploy main")}});
    std::cout << "waits for: " << response->suspension->pending_tool_calls[0].name << "\n";

    // Here the process may end, today or by kill -9. Later, in this one or another:
    session = (*sessions)->get((*sessions)->list({.suspended = true})[0].id);
    response = agent.respond_and_wait(
        {.session = *session, .answers = {{{"call_1"}, rouse::text_result("v42 is live")}}});
    std::cout << response->text() << "\n";
}
