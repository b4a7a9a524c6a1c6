// A tool that asks a person before it runs. The first call is approved with another amount, the
// second is denied, and the model hears both.
#include <iostream>

#include <rouse/agent.h>
#include <rouse/scripted_model.h>

namespace {

struct Refund {
    std::string order;
    double amount = 0;
    static constexpr auto fields() {
        return std::tuple(rouse::required("order", &Refund::order),
                          rouse::required("amount", &Refund::amount));
    }
};

int fail(const rouse::Error& error) {
    std::cerr << error.message << "\n";
    return 1;
}

}  // namespace

int main() {
    rouse::ScriptEntry asks;
    asks.call = {{"refund", rouse::RawJson::trusted(R"({"order":"A-7","amount":900})"), "a"},
                 {"refund", rouse::RawJson::trusted(R"({"order":"B-1","amount":20})"), "b"}};
    rouse::ScriptEntry ends;
    ends.say = "Both requests are settled.";
    auto model = std::make_shared<rouse::ScriptedModel>(std::vector{asks, ends});
    auto refund = rouse::typed_tool<Refund>("refund", "Pays an order back",
                                            [](const Refund& input) {
                                                std::cout << "paid back " << input.amount << " for "
                                                          << input.order << "\n";
                                                return rouse::ToolOutcome::text("paid");
                                            },
                                            {.destructive = true, .approval = true});
    rouse::Agent agent({.model = model, .tools = {refund}});
    auto session = rouse::make_memory_session(rouse::SessionId("sess_shop"));

    auto response = agent.respond_and_wait(
        {.session = session, .messages = {rouse::user_message("Refund A-7 and B-1")}});
    if (!response) return fail(response.error());
    for (const rouse::PendingToolCall& call : response->suspension->pending_tool_calls)
        std::cout << call.prompt << " " << call.input.text() << "\n";

    auto smaller = rouse::RawJson::parse(R"({"order":"A-7","amount":90})");
    response =
        agent.respond_and_wait({.session = session,
                                .answers = {{{"a"}, rouse::Approval::with_input(*smaller)},
                                            {{"b"}, rouse::Approval::no("B-1 was never paid")}}});
    if (!response) return fail(response.error());
    std::cout << response->text() << "\n";
}
