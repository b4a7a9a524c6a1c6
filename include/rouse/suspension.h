#pragma once

// A turn that waits. It is plain data with a JSON form: a program without a session keeps it where
// it likes (a file, a row, a queue) and gives it back to go on, in this process or another one.
//
//   std::string text = to_json(*response.suspension);
//   Result<Suspension> again = from_json<Suspension>(text, "the suspension");

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "domain/record.h"
#include "rouse/message.h"
#include "rouse/result.h"

namespace rouse {

// Why a call waits. An approval asks whether the call may run at all.
enum class SuspendReason : std::uint8_t { input_required, auth_required, approval_required };
template <>
inline constexpr std::string_view kEnumNames<SuspendReason>[] = {"input_required", "auth_required",
                                                                 "approval_required"};

// How the outside answers a tool's calls and hears of them, where there is a server for it. The log
// keeps it with each call, whatever becomes of the tool.
struct Callback {
    bool by_id = false;            // whoever was told the pending id may settle the call with it
    std::string secret_env = {};   // names the variable with the secret that signs, both ways
    std::string webhook_url = {};  // told when somebody else settles the call
    friend bool operator==(const Callback&, const Callback&) = default;
};

// A tool call whose result somebody else has. `metadata` is JSON as the tool gave it: numbers keep
// their digits, and no type of the tool's own survives.
struct PendingToolCall {
    CallId id;
    std::string name;
    RawJson input;
    std::string prompt;
    RawJson metadata;
    SuspendReason reason = SuspendReason::input_required;
    PendingId pending_id =
        {};  // with a durable session: leads to this call without the session's id
    WaitsFor waits_for = WaitsFor::external;
    std::int64_t timeout_ms = 0;  // 0: waits for ever
    Callback callback = {};       // for the log, not for whoever gets the suspension
    Extra extra = {};
    friend bool operator==(const PendingToolCall&, const PendingToolCall&) = default;
    static constexpr auto fields() {
        using S = PendingToolCall;
        return std::tuple(required("id", &S::id), required("name", &S::name),
                          required("input", &S::input), nullable("prompt", &S::prompt),
                          nullable("metadata", &S::metadata), required("reason", &S::reason),
                          field("pending_id", &S::pending_id), field("waits_for", &S::waits_for),
                          field("timeout_ms", &S::timeout_ms));
    }
};

// A call of the same batch that has its result already, whole.
struct CompletedToolCall {
    CallId id;
    std::string name;
    RawJson input;
    ToolResult result;
    Extra extra = {};
    friend bool operator==(const CompletedToolCall&, const CompletedToolCall&) = default;
    static constexpr auto fields() {
        using S = CompletedToolCall;
        return std::tuple(required("id", &S::id), required("name", &S::name),
                          required("input", &S::input), required("result", &S::result));
    }
};

// A call that was approved and runs as soon as nothing else of the batch waits.
struct ApprovedToolCall {
    CallId id;
    RawJson input;  // as it was approved
    Extra extra = {};
    friend bool operator==(const ApprovedToolCall&, const ApprovedToolCall&) = default;
    static constexpr auto fields() {
        return std::tuple(required("id", &ApprovedToolCall::id),
                          required("input", &ApprovedToolCall::input));
    }
};

// Calls of the last assistant message that stand in none of the three lists have not started: they
// run on resume, before the next model call.
struct Suspension {
    std::int32_t version = 1;
    std::vector<PendingToolCall> pending_tool_calls;
    std::vector<CompletedToolCall> completed_tool_calls;
    std::vector<ApprovedToolCall> approved_tool_calls;
    std::vector<Message> turn_messages;  // of this turn, from the user's message on
    Usage usage;                         // of this turn so far
    std::string resume_token;            // durable sessions, and only in the answer that suspends
    Extra extra = {};
    friend bool operator==(const Suspension&, const Suspension&) = default;
    static constexpr auto fields() {
        using S = Suspension;
        return std::tuple(required("version", &S::version),
                          required("pending_tool_calls", &S::pending_tool_calls),
                          required("completed_tool_calls", &S::completed_tool_calls),
                          field("approved_tool_calls", &S::approved_tool_calls),
                          required("turn_messages", &S::turn_messages),
                          required("usage", &S::usage), field("resume_token", &S::resume_token));
    }
};

// What a person says to a call that asks for approval.
struct Approval {
    bool approve = false;
    RawJson input;             // runs the call with this instead; recorded
    std::string input_digest;  // digest_of_input() of what was shown; checked when given
    std::string message;       // of a denial, for the model

    static Approval yes() { return {true, {}, {}, {}}; }
    static Approval with_input(RawJson input) { return {true, std::move(input), {}, {}}; }
    static Approval no(std::string message) { return {false, {}, {}, std::move(message)}; }
};

std::string digest_of_input(const RawJson& input);

// What comes back for pending calls, by call id. An error result for every pending call ends the
// wait and lets the agent answer.
using Answer = std::variant<ToolResult, Approval>;
using Answers = std::vector<std::pair<CallId, Answer>>;

// The input of a pending call as a struct of yours that lists its fields() (see tool.h).
//   corrupt  malformed_json: the input does not fit that struct
template <class T>
Result<T> decode_pending_input(const PendingToolCall& call) {
    return from_json<T>(call.input.text(), "the input of " + call.name);
}

// A result's content as a struct of yours: JSON in a string, in one text block, or as it stands.
Result<RawJson> content_as_json(const ToolResult& result);
template <class T>
Result<T> decode_content(const ToolResult& result) {
    const Result<RawJson> content = content_as_json(result);
    if (!content) return content.error();
    return from_json<T>(content->text(), "the content of the result");
}

}  // namespace rouse
