#include "rouse/ask_user.h"

namespace rouse {
namespace {

ToolSpec ask_user_spec() {
    ToolSpec spec;
    spec.name = "ask_user";
    spec.description =
        "Asks a person a question and waits for the answer. type confirm: yes or no; select: one "
        "of "
        "options; text: anything.";
    spec.parameters = schema_of<AskUserInput>();
    spec.annotations.read_only = true;
    return spec;
}

class AskUser final : public Tool {
 public:
    explicit AskUser(AskUserOptions options)
        : Tool(ask_user_spec()), options_(std::move(options)) {}

    Task<ToolOutcome> call(ToolCall call) override {
        Result<AskUserInput> input = from_json<AskUserInput>(call.input.text(), "the question");
        if (!input) co_return ToolOutcome::error(input.error().message);
        if (input->type == AskType::select && input->options.empty()) {
            co_return ToolOutcome::error("a select needs options to choose from");
        }
        if (options_.async) {
            std::string metadata = "{\"type\":";
            append_json_string(metadata, to_string(input->type));
            metadata += '}';
            ToolOutcome outcome =
                ToolOutcome::suspended(input->question, RawJson::trusted(std::move(metadata)));
            outcome.suspend->waits_for = WaitsFor::person;
            outcome.suspend->timeout = options_.timeout;
            co_return outcome;
        }
        if (!options_.dialog) {
            co_return ToolOutcome::error("there is nobody to ask: ask_user has no dialog");
        }
        const Result<AskUserOutput> answer = co_await options_.dialog->ask(*std::move(input));
        if (!answer) co_return ToolOutcome::error(answer.error().message);
        co_return ToolOutcome::text(to_json(*answer));
    }

 private:
    AskUserOptions options_;
};

class AutoApprove final : public Dialog {
 public:
    Task<Result<AskUserOutput>> ask(AskUserInput input) override {
        AskUserOutput output;
        switch (input.type) {
            case AskType::confirm: output = {"yes", true}; break;
            case AskType::select: output.answer = input.options.front(); break;
            case AskType::text: output.answer = "ok"; break;
        }
        co_return output;
    }
};

}  // namespace

std::shared_ptr<Dialog> auto_approve_dialog() {
    return std::make_shared<AutoApprove>();
}

std::shared_ptr<Tool> ask_user_tool(AskUserOptions options) {
    return std::make_shared<AskUser>(std::move(options));
}

}  // namespace rouse
