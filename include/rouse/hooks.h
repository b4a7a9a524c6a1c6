#pragma once

// Hooks: code of yours that sees a turn go by, may change it, and may veto it.
//
// A hook returns a verdict. abort() ends the call with the error hook_abort; what the turn did is
// dropped and the session stays as it was. An error() is logged and the chain goes on.
//
// on_suspend runs before anything is saved: a webhook that it sends may speak of a suspension that
// never comes to be. Send from an outbox, after the response.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rouse/message.h"
#include "rouse/suspension.h"
#include "rouse/tool.h"

namespace rouse {

enum class HookPoint : std::uint8_t {
    pre_generation,         // before each model call
    post_generation,        // before the turn is saved, completed or suspended
    pre_tool_use,           // before a call; may change its input or answer in its place
    post_tool_use,          // after a result; may change it
    post_tool_use_failure,  // after an error result; may change it
    on_suspend,             // when the turn begins to wait; not again for a part of the answers
    stop                    // when the model wants to end the turn; may make it go on
};
template <>
inline constexpr std::string_view kEnumNames<HookPoint>[] = {
    "pre_generation",        "post_generation", "pre_tool_use", "post_tool_use",
    "post_tool_use_failure", "on_suspend",      "stop"};

struct HookVerdict {
    enum class Kind : std::uint8_t { go_on, abort, error };
    Kind kind = Kind::go_on;
    std::string message;

    static HookVerdict go_on() { return {}; }
    static HookVerdict abort(std::string message) { return {Kind::abort, std::move(message)}; }
    static HookVerdict error(std::string message) { return {Kind::error, std::move(message)}; }
};

// What a hook sees. Which fields are set depends on the point; changes take effect as described.
struct HookContext {
    HookPoint point = HookPoint::pre_generation;
    SessionId session_id;

    // pre_generation: replaces what came before this turn, for this model call. The turn itself,
    // with its results, always follows.
    std::optional<std::vector<Message>> replace_history;
    std::optional<std::string> replace_system;

    // The tool points. A result set by pre_tool_use answers in the tool's place.
    const Tool* tool = nullptr;  // null when the agent has no tool of that name
    CallId call_id;
    std::string tool_name;
    RawJson input;
    std::optional<ToolResult> result;
    std::string additional_context;  // shown to the model behind the results of the batch

    // post_generation, on_suspend, stop: the turn so far.
    std::vector<Message> output_messages;
    Usage usage;
    std::optional<Suspension> suspension;

    // stop: the turn goes on with this as a message from the user.
    std::optional<std::string> go_on_because;
};

using Hook = std::function<Task<HookVerdict>(HookContext&)>;

// The hooks of an agent, each point in the order of adding.
class Hooks {
 public:
    Hooks& add(HookPoint point, std::function<HookVerdict(HookContext&)> hook);
    Hooks& add_async(HookPoint point, Hook hook);
    const std::vector<Hook>& at(HookPoint point) const;

 private:
    static constexpr std::size_t kPoints = std::size(kEnumNames<HookPoint>);
    std::vector<Hook> hooks_[kPoints];
};

}  // namespace rouse
