#pragma once

// Tools: what an agent can do. A tool says what it takes (a JSON Schema) and answers with exactly
// one of a result, an error, or a suspension: "the answer comes later, from outside".
//
//   struct Deploy {
//       std::string branch;
//       static constexpr auto fields() { return std::tuple(required("branch", &Deploy::branch)); }
//   };
//   auto deploy = typed_tool<Deploy>("deploy", "Deploys a branch", [](const Deploy& input) {
//       return ToolOutcome::suspended("Deploying " + input.branch);
//   });

#include <boost/asio/awaitable.hpp>
#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "base/time.h"
#include "rouse/message.h"
#include "rouse/suspension.h"

namespace rouse {

template <class T>
using Task = boost::asio::awaitable<T>;

struct Suspend {
    std::string prompt;  // for whoever is to answer
    RawJson metadata;    // an object, or absent
    SuspendReason reason = SuspendReason::input_required;
    WaitsFor waits_for = WaitsFor::external;
    std::optional<Milliseconds> timeout = {};    // enforced by durable sessions
    std::string external_ref = {};               // the outside's own name for the job
    std::optional<Milliseconds> estimated = {};  // a hint, for people who wait
};

// Exactly one of the two is set. Both, or none, is a malformed outcome and becomes an error result.
struct ToolOutcome {
    std::optional<ToolResult> result;
    std::optional<Suspend> suspend;

    static ToolOutcome text(std::string_view text) { return {text_result(text), {}}; }
    static ToolOutcome json(RawJson content) { return {ToolResult{std::move(content)}, {}}; }
    static ToolOutcome error(std::string_view message) { return {error_result(message), {}}; }
    static ToolOutcome suspended(std::string prompt, RawJson metadata = {},
                                 SuspendReason reason = SuspendReason::input_required) {
        return {{}, Suspend{std::move(prompt), std::move(metadata), reason}};
    }
};

struct ToolAnnotations {
    bool read_only = false;     // changes nothing: may run again after a crash
    bool idempotent = false;    // may run again after a crash
    bool destructive = false;   // for people who look at it
    bool approval = false;      // a person is asked before each call
    bool stays_inside = false;  // only asks to wait: nobody learns of the call from it
    // After a crash a person says how a call went that may have run. Not set: as the agent does.
    std::optional<bool> ask_if_unknown = {};
};

struct ToolSpec {
    std::string name;
    std::string description;
    RawJson parameters = {};  // a JSON Schema for the input; absent: any object
    ToolAnnotations annotations = {};
    // Starts something whose answer comes later. With a durable session the call is pending, under
    // an id that the outside may be told, before the tool is asked; `timeout` is how long it may
    // take from then on.
    bool async = false;
    bool local = false;  // what it starts runs in this process: after a crash nobody will answer
    std::optional<Milliseconds> timeout = {};
    Callback callback = {};
};

struct ToolCall {
    CallId id;
    std::string name;
    RawJson input;  // fits the schema
    SessionId session_id;
    PendingId pending_id = {};  // of an async tool with a durable session
    MessageId message_id = {};  // that the model made the call with, of a durable session
};

// Called on the strand of the turn: calls of one batch take turns at their co_awaits, and a tool
// that blocks holds the others up. What it throws becomes an error result.
class Tool {
 public:
    explicit Tool(ToolSpec spec) : spec_(std::move(spec)) {}
    virtual ~Tool() = default;
    Tool(const Tool&) = delete;
    Tool& operator=(const Tool&) = delete;

    const ToolSpec& spec() const { return spec_; }
    virtual Task<ToolOutcome> call(ToolCall call) = 0;

 private:
    ToolSpec spec_;
};

using ToolFunction = std::function<ToolOutcome(const ToolCall&)>;
using AsyncToolFunction = std::function<Task<ToolOutcome>(ToolCall)>;
std::shared_ptr<Tool> make_tool(ToolSpec spec, ToolFunction function);
std::shared_ptr<Tool> make_async_tool(ToolSpec spec, AsyncToolFunction function);

// The JSON Schema of a struct that lists its fields(): strings, numbers, flags, other such structs,
// and vectors and optionals of these.
template <class T>
RawJson schema_of();

// A tool whose input is a struct.
template <class Input, std::invocable<const Input&> Function>
std::shared_ptr<Tool> typed_tool(std::string name, std::string description, Function function,
                                 ToolAnnotations annotations = {}) {
    ToolSpec spec{std::move(name), std::move(description), schema_of<Input>(), annotations};
    return make_tool(std::move(spec), [function = std::move(function)](const ToolCall& call) {
        const Result<Input> input = from_json<Input>(call.input.text(), "the input");
        if (!input) return ToolOutcome::error(input.error().message);
        return ToolOutcome(function(*input));
    });
}

namespace schema {

template <class T>
void write(std::string& out) {
    if constexpr (codec::kIsOptional<T>) {
        write<typename T::value_type>(out);
    } else if constexpr (codec::kIsVector<T>) {
        out += R"({"type":"array","items":)";
        write<typename T::value_type>(out);
        out += '}';
    } else if constexpr (std::same_as<T, bool>) {
        out += R"({"type":"boolean"})";
    } else if constexpr (std::integral<T>) {
        out += R"({"type":"integer"})";
    } else if constexpr (std::floating_point<T>) {
        out += R"({"type":"number"})";
    } else if constexpr (std::is_enum_v<T>) {
        out += R"({"type":"string","enum":[)";
        for (const std::string_view name : kEnumNames<T>) {
            if (out.back() != '[') out += ',';
            append_json_string(out, name);
        }
        out += "]}";
    } else if constexpr (std::same_as<T, RawJson>) {
        out += "{}";
    } else if constexpr (codec::Fielded<T>) {
        out += R"({"type":"object","properties":{)";
        std::string needed;
        const auto property = [&]<class S, class V>(const Field<S, V>& field) {
            if (out.back() != '{') out += ',';
            append_json_string(out, field.name);
            out += ':';
            write<V>(out);
            if (field.presence != Presence::required) return;
            if (!needed.empty()) needed += ',';
            append_json_string(needed, field.name);
        };
        std::apply([&](const auto&... field) { (property(field), ...); }, T::fields());
        out += "},\"required\":[" + needed + "],\"additionalProperties\":false}";
    } else {
        static_assert(std::same_as<T, std::string>, "a type without a JSON Schema");
        out += R"({"type":"string"})";
    }
}

}  // namespace schema

template <class T>
RawJson schema_of() {
    std::string out;
    schema::write<T>(out);
    return RawJson::trusted(std::move(out));
}

}  // namespace rouse
