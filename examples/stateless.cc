// No session at all: the suspended turn is a JSON file, and whoever has it can go on.
//
//   stateless start; stateless finish
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>

#include <rouse/agent.h>
#include <rouse/ask_user.h>
#include <rouse/scripted_model.h>

namespace {

int fail(const rouse::Error& error) {
    std::cerr << error.message << "\n";
    return 1;
}

}  // namespace

int main(int argc, char** argv) {
    const bool starts = argc > 1 && std::string_view(argv[1]) == "start";
    const rouse::AskUserInput colour{"Which colour?", rouse::AskType::select, {"red", "blue"}};
    rouse::ScriptEntry asks;
    asks.call = {{"ask_user", rouse::RawJson::trusted(rouse::to_json(colour)), "q"}};
    rouse::ScriptEntry ends;
    ends.say = "You chose {{result}}";
    auto model = std::make_shared<rouse::ScriptedModel>(std::vector{asks, ends});
    rouse::Agent agent({.model = model, .tools = {rouse::ask_user_tool({.async = true})}});

    if (starts) {
        auto response =
            agent.respond_and_wait({.messages = {rouse::user_message("Paint the wall")}});
        if (!response) return fail(response.error());
        std::ofstream("turn.json") << rouse::to_json(*response->suspension);
        const rouse::PendingToolCall& call = response->suspension->pending_tool_calls[0];
        auto question = rouse::decode_pending_input<rouse::AskUserInput>(call);
        std::cout << call.prompt << " " << question->options.size() << " options\n";
        return 0;
    }
    std::ifstream file("turn.json");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    auto state = rouse::from_json<rouse::Suspension>(text, "turn.json");
    if (!state) return fail(state.error());
    const rouse::AskUserOutput answer{"blue", false};
    auto response = agent.respond_and_wait(
        {.answers = {{{"q"}, rouse::text_result(rouse::to_json(answer))}}, .state = *state});
    if (!response) return fail(response.error());
    std::cout << response->text() << "\n";
}
