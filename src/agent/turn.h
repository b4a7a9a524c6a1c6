#pragma once

// One call of an agent, from opening the session to the response: the loop of model and tools.
//
// What a turn without a session or without hooks never does stands in coroutines of its own: a
// frame has room for every local of its function, and large ones are dear to allocate.

#include <memory>
#include <string>
#include <vector>

#include "agent/model_call.h"
#include "agent/tool_batch.h"
#include "base/schema_check.h"
#include "rouse/agent.h"

namespace rouse {

// An agent's options as one call sees them.
struct AgentSettings {
    AgentOptions options;
    std::vector<CheckedTool> tools;
    std::vector<const ToolSpec*> specs;
    std::optional<Error> mistake;  // in the options: every call fails with it

    const CheckedTool* find_tool(std::string_view name) const;
};

// `late` says, when the turn was stopped, that its time was over: that is the end of it.
Task<TurnResult> run_turn(std::shared_ptr<const AgentSettings> settings, AgentRequest request,
                          const bool* late = nullptr);
Error time_limit_reached();

class TurnRunner {
 public:
    TurnRunner(std::shared_ptr<const AgentSettings> settings, AgentRequest request);

    // To the end of the turn or to where it waits; may throw what a model, a hook or a session did.
    Task<Result<void>> run();
    bool has_begun() const { return begun_; }
    Task<void> note_failure(const Error& error);
    TurnResult take_result(const Result<void>& done);

 private:
    Task<Result<void>> start();
    Task<Result<void>> load_suspension();
    Result<void> check_resume() const;
    Task<Result<void>> read_history();
    Task<Result<void>> begin_turn();
    Result<void> restore_turn(Suspension state);
    Task<Result<void>> start_after_crash();
    Task<Result<void>> take_up(Session::Interrupted left);
    Task<Result<void>> take_answers();
    Task<Result<void>> show_answer(BatchCall& call, std::vector<std::string>& contexts);
    Task<Result<void>> save_answers(std::vector<BatchCall*> answered);

    Task<Result<void>> work_on_batch();
    void finish_batch();
    Task<Result<void>> generate();
    // What hooks put in the place of the prompt and of what came before the turn.
    struct Replacement {
        std::optional<std::string> system;
        std::optional<std::vector<Message>> history;
    };
    Task<Result<void>> ask_for_replacement(Replacement& replacement);
    Task<Result<ModelResponse>> ask_model(Model& model, const Replacement& replacement);
    void add_answer(ModelResponse& answer);
    Task<Result<void>> save_answer(ModelResponse& answer);
    Result<void> emit_calls();
    Task<Result<void>> refuse_cut_calls();
    std::optional<std::string> over_budget() const;
    Task<Result<void>> wait_for_person(std::string prompt);
    Task<Result<bool>> wants_to_stop();

    Task<Result<void>> suspend();
    Task<Result<void>> show_suspension(HookPoint point, const Suspension& state);
    Task<Result<void>> save_suspended(Suspension& state);
    Task<Result<void>> park_again();
    Task<Result<void>> complete();
    Task<Result<void>> show_end();
    Task<Result<void>> save_end();

    Task<Result<void>> call_hooks(HookPoint point, HookContext& context);
    Task<Result<void>> say(Message message);  // from a hook, as the user
    Result<void> emit(Item item);
    HookContext turn_context() const;
    Suspension suspension() const;
    bool has_hooks(HookPoint point) const { return !settings_->options.hooks.at(point).empty(); }
    bool has_session() const { return request_.session != nullptr; }

    std::shared_ptr<const AgentSettings> settings_;
    AgentRequest request_;

    std::span<const Message> history_;
    std::vector<Message> turn_;
    std::size_t first_output_ = 0;  // of turn_: what came before was there when the call began
    Usage usage_;
    ToolBatch batch_;           // of the assistant message at batch_at_
    std::size_t batch_at_ = 0;  // messages behind it wait until the results stand between
    bool begun_ = false;        // the session has been told of the turn
    bool resumed_ = false;
    bool kept_suspended_ = false;  // the session has this turn as suspended
    bool only_answers_ = false;    // so far: no model was called and no tool run
    bool finished_ = false;
    std::size_t iterations_ = 0;
    std::size_t cut_in_a_row_ = 0;  // answers whose calls could not be run
    ModelCaller caller_;
    Response response_;
};

}  // namespace rouse
