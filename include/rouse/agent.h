#pragma once

// An agent: a model, tools and hooks. One call is one turn, or as much of it as can be done now.
//
//   rouse::Agent agent({.model = model, .tools = {deploy}});
//   auto response = agent.respond_and_wait({.messages = {rouse::user_message("Deploy main")}});
//   // … response->status == ResponseStatus::suspended; hours later, perhaps in another process:
//   response = agent.respond_and_wait({.answers = {{call_id, rouse::text_result("done")}},
//                                      .state = suspension});

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <variant>
#include <vector>

#include "rouse/hooks.h"
#include "rouse/message.h"
#include "rouse/model.h"
#include "rouse/session.h"
#include "rouse/suspension.h"
#include "rouse/tool.h"

namespace rouse {

// ---- What streams by ------------------------------------------------------------------------

struct TextDelta {
    std::string text;
};
struct ToolCallItem {
    CallId id;
    std::string name;
    RawJson input;
};
// A result, or the news that the call waits. A call that waited has two of these over its life.
struct ToolResultItem {
    CallId id;
    std::string name;
    std::variant<ToolResult, PendingToolCall> outcome;
};
// The last item of a call that begins to wait; sent once hooks have run and the session has saved.
struct SuspendedItem {
    Suspension suspension;
};
struct CompletedItem {};
using Item = std::variant<TextDelta, ToolCallItem, ToolResultItem, SuspendedItem, CompletedItem>;
// An error ends the call with it.
using OnItem = std::function<Result<void>(const Item&)>;

// ---- A call and its outcome -----------------------------------------------------------------

struct AgentRequest {
    std::shared_ptr<Session> session = {};
    std::vector<Message> messages =
        {};                // new input; without a session, the conversation before it too
    Answers answers = {};  // for the pending calls of a suspended turn
    std::optional<Suspension> state = {};  // the suspended turn, when no session keeps it
    bool go_on = false;                    // with the turn that a crash interrupted
    std::shared_ptr<Model> model = {};     // for this call, in place of the agent's
    OnItem on_item = {};
    std::stop_token stop = {};
};

enum class ResponseStatus : std::uint8_t { completed, suspended };

struct Response {
    ResponseStatus status = ResponseStatus::completed;
    std::vector<Message> output_messages;  // that this call added; none when it only took answers
    std::vector<Item> items;               // tool calls and their results
    Usage usage;  // of the whole turn, what was paid before a wait included
    // Set when suspended, and when a suspended turn completed: then nothing is pending and
    // turn_messages is the whole turn.
    std::optional<Suspension> suspension;

    std::string text() const;  // of the last message
};

// A failed turn: what went wrong, and what it had cost and said by then. Nothing of it was saved
// but what a durable session had recorded.
struct TurnError : Error {
    Usage usage = {};
    std::vector<Message> output_messages = {};
    std::vector<Item> items = {};

    TurnError() = default;
    TurnError(Error error) : Error(std::move(error)) {}  // NOLINT: an error is one
};
using TurnResult = std::expected<Response, TurnError>;

// A model call that may work later is made again, after `first_delay`, then twice that, and so on
// up to `longest_delay`, each shortened by up to half at random; or after what the provider asks.
// One that asks for more than `patience` is not waited for.
struct RetryPolicy {
    std::uint32_t retries = 8;
    Milliseconds first_delay{500};
    Milliseconds longest_delay{60'000};
    Milliseconds patience{600'000};
    std::function<double()> random = {};  // in [0, 1); a source of its own when empty
};

// In tokens, as add_paid_tokens() counts. What is over budget waits for a person, who lets it go on
// for as much again; nothing is cut in the middle.
struct TokenBudget {
    std::optional<std::int64_t> per_run = {};
    std::optional<std::int64_t> per_session = {};
};

struct AgentOptions {
    std::string name = "agent";
    std::string system_prompt = {};
    std::shared_ptr<Model> model = {};
    std::vector<std::shared_ptr<Tool>> tools = {};
    Hooks hooks = {};
    bool parallel_tool_calls = true;  // else one after the other, up to the first that suspends
    std::size_t max_iterations = 50;  // model calls in one call; a durable session waits then
    RetryPolicy retry = {};
    TokenBudget budget = {};                            // needs a durable session, which can wait
    std::optional<Milliseconds> time_limit = {};        // for one call of the agent
    bool ask_if_unknown = false;                        // see ToolAnnotations
    std::optional<Milliseconds> approval_timeout = {};  // for the person who is asked
    // Told of what does not stop a turn: hooks that failed.
    std::function<void(std::string_view)> on_warning = {};
};

// For any number of calls at once. Calls on one session take their turns, whichever agent they come
// from; a call from inside a turn on the same session is refused.
//
// Errors, besides those of models, sessions and items:
//   precondition  resume_required, no_suspended_turn, session_not_suspended, decision_required,
//                 result_required, not_interrupted, interrupted_turn
//   conflict      input_on_suspended_session, unknown_pending_tool_call, digest_mismatch,
//                 reentrant_session, hook_abort
//   invalid       nothing_to_do, no_model, invalid_schema, malformed_suspension
//   cancelled     cancelled       timeout  time_limit
//   unavailable   iteration_limit, token_budget, answers_cut
//   internal      exception: a model, a hook or a session threw
class Agent {
 public:
    explicit Agent(AgentOptions options);
    ~Agent();
    Agent(const Agent&) = delete;
    Agent& operator=(const Agent&) = delete;

    // The agent must outlive the call.
    Task<TurnResult> respond(AgentRequest request);
    // For programs without an event loop. Not from inside a coroutine.
    TurnResult respond_and_wait(AgentRequest request);

    // Take effect with the next call, also on a turn that was suspended before.
    void set_model(std::shared_ptr<Model> model);
    void set_system_prompt(std::string prompt);

 private:
    class Shared;
    std::shared_ptr<Shared> shared_;
};

}  // namespace rouse
