// Random turns against a simple model of what the conversation must be: batches of every kind of
// call, suspensions, approvals, answers in parts, refused requests, vetoes, cancels and crashes.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <random>

#include "base/env.h"
#include "domain/rules.h"
#include "rouse/durable_sessions.h"
#include "store/memory/memory_store.h"
#include "testing/agent_kit.h"
#include "testing/manual_clock.h"
#include "testing/seeded_random.h"

namespace rouse {
namespace {

using namespace testing;

enum class Kind : std::uint8_t { stateless, memory, durable };

enum class Act : std::uint8_t {
    answers,
    fails,
    throws,
    suspends,
    asks,  // and is approved
    is_denied,
    is_unknown,
    has_bad_input
};

struct PlannedCall {
    std::string id;
    Act act = Act::answers;
};
using Step = std::vector<PlannedCall>;
struct PlannedTurn {
    std::string question;
    std::vector<Step> steps;
};

std::string tool_for(Act act) {
    switch (act) {
        case Act::answers: return "answer";
        case Act::fails: return "fail";
        case Act::throws: return "throw";
        case Act::suspends: return "suspend";
        case Act::asks:
        case Act::is_denied: return "ask";
        case Act::is_unknown: return "nope";
        case Act::has_bad_input: return "strict";
    }
    return "";
}

Message planned_message(const Step& step) {
    Message message{Role::assistant, {}, {}};
    for (const PlannedCall& call : step) {
        message.content.emplace_back(
            ToolUseBlock{CallId{call.id}, tool_for(call.act), RawJson::trusted("{}"), {}});
    }
    return message;
}

Answer answer_to(const PlannedCall& call) {
    if (call.act == Act::asks) return Approval::yes();
    if (call.act == Act::is_denied) return Approval::no("denied " + call.id);
    return text_result("supplied " + call.id);
}

// What the reference says a call ends with.
ToolResult expected_result(const PlannedCall& call) {
    switch (call.act) {
        case Act::answers: return text_result("answer " + call.id);
        case Act::fails: return error_result("fail " + call.id);
        case Act::throws: return error_result("the tool failed: throw " + call.id);
        case Act::suspends: return text_result("supplied " + call.id);
        case Act::asks: return text_result("ran " + call.id);
        case Act::is_denied: return error_result("denied " + call.id);
        case Act::is_unknown: return error_result("there is no tool named nope");
        case Act::has_bad_input: return {};
    }
    return {};
}

Message end_of(const PlannedTurn& turn) {
    return {Role::assistant, text_content("end of " + turn.question), {}};
}

std::vector<std::shared_ptr<Tool>> make_tools() {
    const ToolAnnotations again{.idempotent = true};
    const auto make = [&](std::string name, ToolFunction function, bool approval = false) {
        ToolSpec spec{std::move(name), "", {}, again};
        spec.annotations.approval = approval;
        return make_tool(std::move(spec), std::move(function));
    };
    ToolSpec strict{"strict", "", RawJson::trusted(R"({"type":"object","required":["x"]})"), again};
    return {
        make("answer", [](const ToolCall& c) { return ToolOutcome::text("answer " + c.id.text); }),
        make("fail", [](const ToolCall& c) { return ToolOutcome::error("fail " + c.id.text); }),
        make("throw",
             [](const ToolCall& c) -> ToolOutcome {
                 throw std::runtime_error("throw " + c.id.text);
             }),
        make("suspend", [](const ToolCall&) { return ToolOutcome::suspended("wait"); }),
        make(
            "ask", [](const ToolCall& c) { return ToolOutcome::text("ran " + c.id.text); }, true),
        make_tool(strict, [](const ToolCall&) { return ToolOutcome::text("never"); })};
}

// Answers as planned, told by the turn's own messages where it stands.
class PlanModel final : public Model {
 public:
    explicit PlanModel(const std::vector<PlannedTurn>& plan) : plan_(plan) {}

    Task<ModelResult> generate(ModelRequest request, const OnText&) override {
        std::vector<Message> asked(request.history.begin(), request.history.end());
        asked.insert(asked.end(), request.turn.begin(), request.turn.end());
        if (const std::string open = unmatched_calls(asked); !open.empty()) problem = open;
        std::size_t said = 0;
        std::string question;
        for (const Message& message : request.turn) {
            if (message.role == Role::assistant) ++said;
            if (question.empty() || message.role == Role::user) {
                const std::string text = text_of(message);
                if (text.starts_with("turn ")) {
                    question = text;
                    said = 0;
                }
            }
        }
        for (const PlannedTurn& turn : plan_) {
            if (turn.question != question) continue;
            ModelResponse response;
            const bool ends = said >= turn.steps.size();
            response.content = (ends ? end_of(turn) : planned_message(turn.steps[said])).content;
            response.usage.output_tokens = 1;
            co_return response;
        }
        co_return Error(ErrorKind::internal, "unplanned", "nobody planned " + question);
    }

    std::string problem;

 private:
    const std::vector<PlannedTurn>& plan_;
};

class World {
 public:
    World(std::uint32_t seed, Kind kind) : dice_(seed), kind_(kind) {
        for (std::size_t turns = 1 + roll(3), t = 0; t < turns; ++t)
            plan_.push_back(plan_turn(t));
        model_ = std::make_shared<PlanModel>(plan_);
        for (const bool parallel : {true, false}) {
            Hooks hooks;
            hooks.add(HookPoint::on_suspend, [this](HookContext&) {
                if (!veto_) return HookVerdict::go_on();
                return HookVerdict::abort("vetoed");
            });
            agents_.push_back(
                std::make_unique<Agent>(AgentOptions{.model = model_,
                                                     .tools = make_tools(),
                                                     .hooks = hooks,
                                                     .parallel_tool_calls = parallel}));
        }
        if (kind == Kind::memory) session_ = make_memory_session(SessionId("sess_random"));
        if (kind == Kind::durable) boot();
    }

    void run() {
        for (const PlannedTurn& turn : plan_)
            play(turn);
        RC_ASSERT(model_->problem == "");
        RC_ASSERT(to_json(conversation()) == to_json(expected_));
    }

 private:
    std::size_t roll(std::size_t sides) { return dice_() % sides; }

    PlannedTurn plan_turn(std::size_t number) {
        PlannedTurn turn{"turn " + std::to_string(number) + ".", {}};
        for (std::size_t steps = roll(4), s = 0; s < steps; ++s) {
            Step step;
            for (std::size_t calls = 1 + roll(3), c = 0; c < calls; ++c) {
                // Ids repeat between steps and turns, as those of some models do.
                step.push_back({"c" + std::to_string(c), static_cast<Act>(roll(8))});
            }
            turn.steps.push_back(std::move(step));
        }
        return turn;
    }

    void boot() {
        session_.reset();
        sessions_.reset();
        auto opened = DurableSessions::open(env_, disk_);
        RC_ASSERT(opened.has_value());
        sessions_ = *std::move(opened);
        auto session = sessions_->get(id_);
        if (!session) session = sessions_->create("", id_);
        RC_ASSERT(session.has_value());
        session_ = *session;
    }

    void crash() {
        if (kind_ == Kind::durable) boot();
        if (state_) state_ = *from_json<Suspension>(to_json(*state_), "the suspension");
    }

    TurnResult ask(AgentRequest request) {
        request.session = session_;
        return agents_[roll(2)]->respond_and_wait(std::move(request));
    }

    void play(const PlannedTurn& turn) {
        state_.reset();
        for (;;) {
            AgentRequest request;
            request.messages = {user_message(turn.question)};
            if (kind_ == Kind::stateless) {
                request.messages = expected_;
                request.messages.push_back(user_message(turn.question));
            }
            veto_ = roll(6) == 0;
            TurnResult done = ask(std::move(request));
            if (!done) {
                RC_ASSERT(veto_ && done.error().reason == "hook_abort");
                if (roll(2) == 0) crash();
                continue;  // as if it had never been asked
            }
            if (follow(turn, *done)) return;
        }
    }

    // True: the turn is over.
    bool follow(const PlannedTurn& turn, Response response) {
        while (response.status == ResponseStatus::suspended) {
            state_ = response.suspension;
            if (roll(3) == 0) crash();
            if (roll(3) == 0) try_what_is_refused();
            if (session_ && roll(12) == 0) {
                cancel(turn);
                return true;
            }
            Answers answers = some_answers(turn);
            AgentRequest request{.answers = answers};
            if (!session_) request.state = state_;
            veto_ = kind_ != Kind::durable && roll(8) == 0;
            TurnResult done = ask(request);
            if (!done) {
                RC_ASSERT(veto_ && done.error().reason == "hook_abort");
                continue;  // still suspended as before, nothing was taken
            }
            response = *std::move(done);
        }
        expect(turn);
        if (kind_ == Kind::stateless && state_) {
            RC_ASSERT(to_json(response.suspension->turn_messages) == to_json(expected_));
        }
        return true;
    }

    const Step& waiting_step(const PlannedTurn& turn) const {
        std::size_t said = 0;
        bool mine = false;
        for (const Message& message : state_->turn_messages) {
            if (text_of(message) == turn.question) {
                mine = true;
                said = 0;
            }
            if (mine && message.role == Role::assistant) ++said;
        }
        return turn.steps.at(said - 1);
    }

    Answers some_answers(const PlannedTurn& turn) {
        Answers answers;
        for (const PendingToolCall& pending : state_->pending_tool_calls) {
            const bool last = &pending == &state_->pending_tool_calls.back();
            if (roll(2) == 0 && !(last && answers.empty())) continue;
            for (const PlannedCall& call : waiting_step(turn)) {
                if (call.id == pending.id.text) answers.emplace_back(pending.id, answer_to(call));
            }
        }
        std::ranges::shuffle(answers, dice_);
        return answers;
    }

    void try_what_is_refused() {
        AgentRequest stranger{.answers = {{CallId{"stranger"}, text_result("x")}}};
        AgentRequest input{.messages = {user_message("me too")}};
        AgentRequest nothing;
        for (AgentRequest* request : {&stranger, &input, &nothing}) {
            if (!session_) request->state = state_;
            const TurnResult refused = ask(*request);
            RC_ASSERT(!refused.has_value());
        }
    }

    void cancel(const PlannedTurn& turn) {
        const Result<void> done = wait_for(session_->cancel_suspension());
        RC_ASSERT(done.has_value());
        if (kind_ == Kind::memory) return;
        // A log forgets nothing: what was open is closed with an error.
        std::vector<Message> told = state_->turn_messages;
        Message results;
        for (const PlannedCall& call : waiting_step(turn)) {
            ToolResult result = error_result(kCancelledByUser);
            for (const CompletedToolCall& settled : state_->completed_tool_calls) {
                if (settled.id.text == call.id) result = settled.result;
            }
            results.content.emplace_back(
                ToolResultBlock{CallId{call.id}, result.content, result.is_error, {}});
        }
        told.push_back(std::move(results));
        expected_.insert(expected_.end(), told.begin(), told.end());
    }

    void expect(const PlannedTurn& turn) {
        expected_.push_back(user_message(turn.question));
        for (const Step& step : turn.steps) {
            expected_.push_back(planned_message(step));
            Message results;
            for (const PlannedCall& call : step) {
                ToolResult result = expected_result(call);
                if (call.act == Act::has_bad_input) result = bad_input_result();
                results.content.emplace_back(
                    ToolResultBlock{CallId{call.id}, result.content, result.is_error, {}});
            }
            expected_.push_back(std::move(results));
        }
        expected_.push_back(end_of(turn));
    }

    // The library's own words for it, asked for once.
    static ToolResult bad_input_result() {
        static const ToolResult result = [] {
            ScriptEntry call;
            call.call.push_back({"strict", RawJson::trusted("{}"), "c"});
            Agent agent({.model = std::make_shared<ScriptedModel>(std::vector{call, says("end")}),
                         .tools = make_tools()});
            const TurnResult done = agent.respond_and_wait(message("go"));
            const auto* block = done->output_messages.at(1).content.at(0).get_if<ToolResultBlock>();
            return ToolResult{block->content, block->is_error};
        }();
        return result;
    }

    std::vector<Message> conversation() {
        if (kind_ == Kind::stateless) return expected_;
        return history_of(*session_);
    }

    std::mt19937 dice_;
    Kind kind_;
    std::vector<PlannedTurn> plan_;
    std::shared_ptr<PlanModel> model_;
    std::vector<std::unique_ptr<Agent>> agents_;
    bool veto_ = false;

    ManualClock clock_;
    SeededRandom random_{3};
    RealFs fs_;
    Logger log_{LogLevel::off};
    Env env_{clock_, random_, fs_, log_};
    SessionId id_{"sess_random"};
    std::shared_ptr<MemoryStore> disk_ = std::make_shared<MemoryStore>(clock_);
    std::unique_ptr<DurableSessions> sessions_;
    std::shared_ptr<Session> session_;
    std::optional<Suspension> state_;
    std::vector<Message> expected_;
};

RC_GTEST_PROP(AgentPropertyTest, WithoutASessionTheConversationIsWhatItMustBe,
              (std::uint32_t seed)) {
    World(seed, Kind::stateless).run();
}

RC_GTEST_PROP(AgentPropertyTest, InMemoryTheConversationIsWhatItMustBe, (std::uint32_t seed)) {
    World(seed, Kind::memory).run();
}

RC_GTEST_PROP(AgentPropertyTest, OnDiskTheConversationIsWhatItMustBe, (std::uint32_t seed)) {
    World(seed, Kind::durable).run();
}

}  // namespace
}  // namespace rouse
