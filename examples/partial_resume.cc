// Three checks run at once outside; their results come one by one, in any order. The agent goes on
// when the last is there.
#include <iostream>

#include <rouse/agent.h>
#include <rouse/scripted_model.h>

namespace {

int fail(const rouse::Error& error) {
    std::cerr << error.message << "\n";
    return 1;
}

}  // namespace

int main() {
    auto model = rouse::ScriptedModel::from_text(R"(
        {"when":{"tool_result":"check"},"say":"All three are in."}
        {"call":[{"id":"lint","tool":"check"},{"id":"unit","tool":"check"},{"id":"e2e","tool":"check"}]})");
    if (!model) return fail(model.error());
    auto check = rouse::make_tool({"check", "Starts a check"}, [](const rouse::ToolCall& call) {
        return rouse::ToolOutcome::suspended(call.id.text + " is running");
    });
    rouse::Agent agent({.model = *model, .tools = {check}});
    auto session = rouse::make_memory_session(rouse::SessionId("sess_checks"));
    auto response = agent.respond_and_wait(
        {.session = session, .messages = {rouse::user_message("Is it ready?")}});
    if (!response) return fail(response.error());

    for (const char* done : {"e2e", "lint", "unit"}) {
        response = agent.respond_and_wait(
            {.session = session, .answers = {{{done}, rouse::text_result("passed")}}});
        if (!response) return fail(response.error());
        std::cout << done
                  << " passed; still open: " << response->suspension->pending_tool_calls.size()
                  << "\n";
    }
    std::cout << response->text() << "\n";
}
