#pragma once

// Runs what can be run of a batch: hooks, schema, approval, the tool itself, and the steps that a
// session is told.

#include <string>
#include <vector>

#include "agent/tool_batch.h"
#include "rouse/agent.h"

namespace rouse {

struct AgentSettings;

inline constexpr std::string_view kMayHaveRun =
    "interrupted, outcome unknown: the call may have run; look before trying again";

// After a crash nobody knows whether a call ran. These may simply run again.
bool may_run_again(const ToolSpec& spec);

// Runs a chain of hooks. conflict  hook_abort
Task<Result<void>> run_hooks(const AgentOptions& options, HookPoint point, HookContext& context);

// Where hooks see this result.
HookPoint result_point(const ToolResult& result);

struct ToolCallReport {
    CallId id;
    std::string additional_context;
};

class ToolCaller {
 public:
    ToolCaller(const AgentSettings& settings, Session* session)
        : settings_(settings), session_(session) {}

    // Reports what was run, in the calls' order. All at once, or one after the other up to the
    // first that suspends. An error ends the turn.
    Task<Result<std::vector<ToolCallReport>>> run(ToolBatch& batch);

 private:
    using Report = Result<ToolCallReport>;

    Task<Result<std::vector<ToolCallReport>>> run_in_order(std::vector<BatchCall*> calls);
    Task<Result<std::vector<ToolCallReport>>> run_together(std::vector<BatchCall*> calls);

    // pre_tool_use
    Task<Result<void>> show_call(BatchCall& call);
    // Its hooks, schema, approval: what settles a call without running it. False: it has to run.
    bool settle_early(BatchCall& call) const;
    Task<Report> execute(BatchCall& call);
    Task<Result<void>> announce(std::vector<BatchCall*> calls);
    Task<Result<void>> make_calls_pending(std::vector<BatchCall*> calls);
    Task<ToolOutcome> call_tool(BatchCall& call);
    void make_call_pending(BatchCall& call, Suspend& suspend) const;
    Task<Result<void>> save_started(const BatchCall& call, Suspend suspend);
    Task<Result<void>> show_result(BatchCall& call, ToolCallReport& report);
    bool has_hooks(HookPoint point) const;
    HookContext hook_context(const BatchCall& call) const;

    const AgentSettings& settings_;
    Session* session_;
};

}  // namespace rouse
