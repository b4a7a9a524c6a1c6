#pragma once

// The tool calls of one assistant message and how far each has come.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/schema_check.h"
#include "rouse/suspension.h"
#include "rouse/tool.h"

namespace rouse {

// A tool with its schema compiled.
struct CheckedTool {
    std::shared_ptr<Tool> tool;
    SchemaCheck schema;
};

struct BatchCall {
    enum class Phase : std::uint8_t { not_started, approved, pending, done };

    CallId id;
    std::string name;
    RawJson input;
    Phase phase = Phase::not_started;
    std::optional<ToolResult> result;        // when done
    std::optional<PendingToolCall> pending;  // when pending
    PendingId pending_id;                    // of an async tool's call, before the tool is asked
};

class ToolBatch {
 public:
    ToolBatch() = default;
    // The calls of a message, none of them started.
    explicit ToolBatch(const Message& assistant);
    // As a suspension has them. invalid  malformed_suspension
    static Result<ToolBatch> restore(const Message& assistant, const Suspension& state);

    std::vector<BatchCall>& calls() { return calls_; }
    const std::vector<BatchCall>& calls() const { return calls_; }
    bool empty() const { return calls_.empty(); }
    BatchCall* find(const CallId& id);

    bool has_pending() const;
    bool has_runnable() const;

    // All or nothing: every answer is for a pending call and of the right sort, or none is taken.
    //   conflict      unknown_pending_tool_call, digest_mismatch
    //   precondition  decision_required
    Result<void> check_answers(const Answers& answers);

    // One result block for each call that is done, in the calls' order.
    Message results() const;

 private:
    std::vector<BatchCall> calls_;
};

// Gives every call of a message an id of its own; models have been seen to repeat them.
void make_call_ids_unique(Content& content);

// What a tool gave back, checked: exactly one of a result and a suspension.
ToolOutcome well_formed(ToolOutcome outcome);

// The call as it waits.
PendingToolCall make_pending(const BatchCall& call, const Suspend& suspend);
PendingToolCall make_approval(const BatchCall& call);
// For a person who can find out how a call went that a crash cut short.
PendingToolCall make_question(const BatchCall& call);

}  // namespace rouse
