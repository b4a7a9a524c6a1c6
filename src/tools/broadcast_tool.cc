#include "tools/broadcast_tool.h"

namespace rouse {
namespace {

struct BroadcastInput {
    std::string message;
    std::string to;
    std::string reply_to;
    std::optional<bool> resume;
    std::optional<bool> wait;
    static constexpr auto fields() {
        using S = BroadcastInput;
        return std::tuple(required("message", &S::message), field("to", &S::to),
                          field("reply_to", &S::reply_to), field("resume", &S::resume),
                          field("wait", &S::wait));
    }
};

ToolSpec broadcast_spec(std::optional<Milliseconds> timeout) {
    ToolSpec spec;
    spec.name = kBroadcastTool;
    spec.description =
        "Writes to another agent: to is its name. The answer comes later as a message, or at once "
        "as the result with wait: true. reply_to is the id of a message that you answer. Without "
        "to it is a status line for all agents of the task, which wakes nobody unless resume is "
        "true.";
    spec.parameters = schema_of<BroadcastInput>();
    // It is the commit of the call that sends: a call that was not recorded did nothing.
    spec.annotations.idempotent = true;
    spec.timeout = timeout;
    return spec;
}

std::string names_of(const Letter& letter) {
    std::string names;
    for (const MailAddress& to : letter.to)
        names += (names.empty() ? "" : ", ") + to.name;
    return names;
}

std::string sent_text(const Letter& letter) {
    const std::string id = letter.message_id.text();
    if (letter.to.empty() && !letter.reply_to.empty()) {
        return "Noted as " + id + ": it was a person who wrote, and reads it in this session.";
    }
    if (letter.to.empty()) return "Noted as " + id + "; no other agent is there.";
    if (letter.quiet) return "Noted as " + id + " for " + names_of(letter) + ".";
    return "Sent as " + id + " to " + names_of(letter) + ".";
}

class Broadcast final : public Tool {
 public:
    Broadcast(PlanLetter plan, std::optional<Milliseconds> timeout)
        : Tool(broadcast_spec(timeout)), plan_(std::move(plan)) {}

    Task<ToolOutcome> call(ToolCall call) override {
        const Result<BroadcastInput> input =
            from_json<BroadcastInput>(call.input.text(), "the input");
        if (!input) co_return ToolOutcome::error(input.error().message);
        const BroadcastQuestion question{call.session_id, input->message,
                                         input->to,       input->reply_to,
                                         input->resume,   input->wait.value_or(false)};
        const Result<Letter> letter = plan_(question);
        if (!letter) co_return ToolOutcome::error("Error: " + letter.error().message);
        ToolOutcome outcome;
        if (letter->asks) {
            outcome = ToolOutcome::suspended(letter->text, letter_metadata(*letter));
            outcome.suspend->waits_for = WaitsFor::message;
            outcome.suspend->timeout = spec().timeout;
        } else {
            outcome = ToolOutcome::text(sent_text(*letter));
            outcome.result->metadata = letter_metadata(*letter);
        }
        co_return outcome;
    }

 private:
    PlanLetter plan_;
};

}  // namespace

std::shared_ptr<Tool> broadcast_tool(PlanLetter plan, std::optional<Milliseconds> timeout) {
    return std::make_shared<Broadcast>(std::move(plan), timeout);
}

}  // namespace rouse
