#pragma once

// Where a conversation is kept between calls. An agent works without any; with a session of your
// own (history() and save_turn() are enough); with one that remembers suspensions; and with a
// durable one, which records every step so that a killed process loses nothing.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rouse/message.h"
#include "rouse/result.h"
#include "rouse/suspension.h"
#include "rouse/tool.h"

namespace rouse {

struct Turn {
    std::vector<Message> messages;
    Usage usage;
};

// The calls come from one agent call at a time: the agent locks the session by its id. What is
// passed in is the session's own copy.
class Session {
 public:
    virtual ~Session() = default;

    virtual const SessionId& id() const = 0;

    // What was said before the current turn, oldest first. Good until the turn is saved.
    virtual Task<Result<std::span<const Message>>> history() = 0;

    // A whole turn, at its end. An error is the error of the agent's call.
    //   conflict  suspended_session: it waits; resume it or cancel the suspension
    virtual Task<Result<void>> save_turn(Turn turn) = 0;

    // ---- Suspensions. A session that does not keep them leaves these alone: the caller has the
    // suspension in the response and gives it back with the answers.

    virtual bool keeps_suspensions() const { return false; }
    virtual Task<Result<std::optional<Suspension>>> load_suspension();
    // Gives back the suspension as it was stored, with what the session added to it. When nothing
    // is pending in it any more, all results came meanwhile, and the turn goes on.
    virtual Task<Result<Suspension>> save_suspended_turn(Suspension suspension);
    // Puts the finished turn in place of the suspended one. precondition  not_suspended
    virtual Task<Result<void>> save_resumed_turn(Turn turn);
    // Which one counts when the caller brings a state too: the caller's, unless the session knows
    // better.
    virtual Result<Suspension> choose_state(const Suspension& stored, const Suspension& passed);
    // For callers of your own, while no agent works on the session. Ends the wait; what its tools
    // did is not undone. A session in memory drops the turn, a durable one closes its open calls
    // with an error. precondition  not_suspended
    virtual Task<Result<void>> cancel_suspension();

    // ---- Steps. A durable session records them; the others have nothing to do.

    virtual Task<Result<void>> begin_turn(std::vector<Message> input);
    struct AssistantStep {
        Message message;
        std::string model;
        std::string stop_reason;
        Usage usage;
    };
    virtual Task<Result<void>> add_assistant(AssistantStep step);
    virtual Task<Result<void>> add_user(Message message);  // said by a hook, mid-turn
    // Before each model call: what others wrote to the session's agent and it has not seen.
    virtual Task<Result<std::optional<Message>>> new_mail();
    // The id of the latest assistant message. Call ids are the model's and may come again; together
    // with this one they do not, and a call that a boot repeats from the log has the same two.
    virtual MessageId latest_step() const { return {}; }
    // Returns when it is safe to begin: after a crash it will be seen that the calls may have run.
    virtual Task<Result<void>> calls_starting(std::vector<CallId> calls);
    // For tools whose answer comes later: the ids under which the calls are pending once this
    // returns. Somebody outside may settle them from then on.
    struct Starting {
        PendingToolCall call;
        bool local = false;           // as ToolSpec::local
        bool ask_if_unknown = false;  // as ToolAnnotations::ask_if_unknown
        bool may_run_again = false;   // after a crash
    };
    virtual Task<Result<std::vector<PendingId>>> calls_pending(std::vector<Starting> calls);
    struct Started {
        PendingToolCall call;
        std::string external_ref;
        std::optional<Milliseconds> estimated;
    };
    virtual Task<Result<void>> call_started(Started started);  // its tool said so
    // Gives back the result that counts: another one when somebody outside was faster.
    virtual Task<Result<ToolResult>> call_ended(CallId call, ToolResult result);
    virtual Task<Result<void>> accept_answers(Answers answers);
    struct RetryStep {
        std::uint32_t attempt = 0;  // that comes next; the first call is attempt 1
        std::string message;        // what went wrong
        Milliseconds delay{};       // until then
    };
    virtual Task<Result<void>> model_retrying(RetryStep step);
    // What was changed in the conversation before the model got it.
    virtual Task<Result<void>> context_repaired(std::vector<std::string> changes);

    // ---- Budgets. Only a durable session counts over the turns, and only it can wait.

    struct Paid {
        std::int64_t run = 0;      // tokens since it began, or since a person let it go on
        std::int64_t session = 0;  // of all its runs, likewise
    };
    virtual std::optional<Paid> paid() const { return std::nullopt; }
    struct InputWait {
        std::string prompt;
        std::optional<Milliseconds> timeout;
    };
    // Parks the turn until somebody says something. unavailable  token_budget: it cannot wait
    virtual Task<Result<Suspension>> wait_for_input(InputWait wait);
    // It is parked like that: the next message goes on with the turn.
    virtual bool waits_for_input() const { return false; }

    // Comes back when all that the session has told of this turn may be known outside: before a
    // model is asked over the network, before a tool that reaches anybody.
    virtual Task<Result<void>> reach_disk();

    virtual Task<Result<void>> turn_failed(Error error);

    // A turn that a crash left in the middle, if there is one: everything up to its last recorded
    // step. After go_on() it is this process that works on it.
    struct Interrupted {
        Suspension so_far;                 // its pending calls are none
        std::vector<CallId> may_have_run;  // started, and no result was recorded
        bool resumed = false;              // it had waited, and its answers are there
    };
    virtual Task<Result<std::optional<Interrupted>>> interrupted();
    virtual Task<Result<void>> go_on();
};

// Lives in memory, keeps suspensions, and changes only when a whole turn is saved.
std::shared_ptr<Session> make_memory_session(SessionId id);

}  // namespace rouse
