#include "tools/waiting_tools.h"

namespace rouse {
namespace {

class ExternalTool final : public Tool {
 public:
    ExternalTool(ToolSpec spec, WaitsFor waits_for)
        : Tool(std::move(spec)), waits_for_(waits_for) {}

    Task<ToolOutcome> call(ToolCall /*call*/) override {
        ToolOutcome outcome = ToolOutcome::suspended(spec().description);
        outcome.suspend->waits_for = waits_for_;
        co_return outcome;
    }

 private:
    WaitsFor waits_for_;
};

struct WaitUntilInput {
    std::string at;
    std::optional<double> seconds;
    static constexpr auto fields() {
        return std::tuple(field("at", &WaitUntilInput::at),
                          field("seconds", &WaitUntilInput::seconds));
    }
};

ToolSpec wait_until_spec() {
    ToolSpec spec;
    spec.name = "wait_until";
    spec.description =
        "Waits until a time (at, such as 2026-01-31T12:00:00Z) or for a number of seconds, then "
        "goes on. Costs nothing meanwhile.";
    spec.parameters = schema_of<WaitUntilInput>();
    spec.annotations.read_only = true;
    spec.annotations.stays_inside = true;
    return spec;
}

class WaitUntil final : public Tool {
 public:
    explicit WaitUntil(Clock& clock) : Tool(wait_until_spec()), clock_(clock) {}

    Task<ToolOutcome> call(ToolCall call) override {
        constexpr double kLongest = 10.0 * 366 * 24 * 3600;
        const Result<WaitUntilInput> input =
            from_json<WaitUntilInput>(call.input.text(), "the input");
        if (!input) co_return ToolOutcome::error(input.error().message);
        if (input->at.empty() == !input->seconds) {
            co_return ToolOutcome::error("give either at or seconds");
        }
        const Timestamp now = clock_.now();
        Timestamp until = now;
        if (input->seconds) {
            if (*input->seconds < 0 || *input->seconds > kLongest) {
                co_return ToolOutcome::error("seconds is from 0 to ten years'");
            }
            until += Milliseconds(static_cast<std::int64_t>(*input->seconds * 1000));
        } else {
            const Result<Timestamp> at = parse_rfc3339(input->at);
            if (!at) co_return ToolOutcome::error("at is a time such as 2026-01-31T12:00:00Z");
            until = *at;
        }
        if (until <= now) co_return ToolOutcome::text("It is " + to_rfc3339(now) + " already.");
        ToolOutcome outcome = ToolOutcome::suspended("until " + to_rfc3339(until));
        outcome.suspend->waits_for = WaitsFor::timer;
        outcome.suspend->timeout = until - now;
        co_return outcome;
    }

 private:
    Clock& clock_;
};

struct StartSessionInput {
    std::string agent;
    std::string message;
    std::string session_id;
    std::optional<bool> wait;
    static constexpr auto fields() {
        using S = StartSessionInput;
        return std::tuple(field("agent", &S::agent), required("message", &S::message),
                          field("session_id", &S::session_id), field("wait", &S::wait));
    }
};

ToolSpec start_session_spec() {
    ToolSpec spec;
    spec.name = "start_session";
    spec.description =
        "Gives a task to another agent in a session of its own and waits for its answer "
        "(wait: false starts it and goes on at once). The answer ends with the session's id: give "
        "it as session_id to go on with that session.";
    spec.parameters = schema_of<StartSessionInput>();
    // It is the commit of the call that starts the session: a call that was not recorded did
    // nothing.
    spec.annotations.idempotent = true;
    return spec;
}

class StartSession final : public Tool {
 public:
    explicit StartSession(PlanChild plan) : Tool(start_session_spec()), plan_(std::move(plan)) {}

    Task<ToolOutcome> call(ToolCall call) override {
        const Result<StartSessionInput> input =
            from_json<StartSessionInput>(call.input.text(), "the input");
        if (!input) co_return ToolOutcome::error(input.error().message);
        ChildQuestion question{call.session_id, input->agent, input->message, {}};
        if (!input->session_id.empty()) question.session_id = SessionId(input->session_id);
        const Result<ChildWish> wish = plan_(question);
        if (!wish) co_return ToolOutcome::error(wish.error().message);
        if (!input->wait.value_or(true)) {
            ToolOutcome started;
            started.result = child_result(wish->session_id, "Started.");
            started.result->metadata = wish_metadata(*wish);
            co_return started;
        }
        ToolOutcome outcome = ToolOutcome::suspended(input->message, wish_metadata(*wish));
        outcome.suspend->waits_for = WaitsFor::child;
        co_return outcome;
    }

 private:
    PlanChild plan_;
};

}  // namespace

std::shared_ptr<Tool> external_tool(ToolSpec spec, WaitsFor waits_for) {
    spec.annotations.idempotent = true;
    spec.annotations.stays_inside = true;
    return std::make_shared<ExternalTool>(std::move(spec), waits_for);
}

std::shared_ptr<Tool> wait_until_tool(Clock& clock) {
    return std::make_shared<WaitUntil>(clock);
}

std::shared_ptr<Tool> start_session_tool(PlanChild plan) {
    return std::make_shared<StartSession>(std::move(plan));
}

}  // namespace rouse
