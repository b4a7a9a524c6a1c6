#pragma once

// The words and small values that records are made of.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "domain/codec.h"
#include "domain/ids.h"

namespace rouse {

// Whom a pending call waits for.
enum class WaitsFor : std::uint8_t { external, person, timer, child, message };
template <>
inline constexpr std::string_view kEnumNames<WaitsFor>[] = {"external", "person", "timer", "child",
                                                            "message"};

// What a parked run waits for: the kind of its calls if they agree, else tool_result; a wait
// without calls is user_input.
enum class WaitKind : std::uint8_t {
    external,
    person,
    timer,
    child,
    message,
    tool_result,
    user_input
};
template <>
inline constexpr std::string_view kEnumNames<WaitKind>[] = {
    "external", "person", "timer", "child", "message", "tool_result", "user_input"};

enum class InterruptReason : std::uint8_t { process_restart, process_exit, wait_timeout };
template <>
inline constexpr std::string_view kEnumNames<InterruptReason>[] = {"process_restart",
                                                                   "process_exit", "wait_timeout"};

// Why a wait ended in a resume.
enum class ResumeReason : std::uint8_t { result, expired, cancelled, input };
template <>
inline constexpr std::string_view kEnumNames<ResumeReason>[] = {"result", "expired", "cancelled",
                                                                "input"};

enum class SessionStatus : std::uint8_t {
    idle,
    running,
    waiting,
    interrupted_waiting,
    interrupted_startup
};
template <>
inline constexpr std::string_view kEnumNames<SessionStatus>[] = {
    "idle", "running", "waiting", "interrupted_waiting", "interrupted_startup"};

struct Provider {
    std::string type;
    std::string model;
    bool chosen = false;  // for this session; else it is what the agent had when it was made
    Extra extra = {};
    friend bool operator==(const Provider&, const Provider&) = default;
    static constexpr auto fields() {
        return std::tuple(field("type", &Provider::type), field("model", &Provider::model),
                          field("chosen", &Provider::chosen));
    }
};

// The call of another session that this session is the answer to.
struct ParentRef {
    SessionId session_id;
    RunId run_id;
    CallId call_id;
    Extra extra = {};
    friend bool operator==(const ParentRef&, const ParentRef&) = default;
    static constexpr auto fields() {
        return std::tuple(required("session_id", &ParentRef::session_id),
                          field("run_id", &ParentRef::run_id),
                          field("call_id", &ParentRef::call_id));
    }
};

// The call of a session's parent that goes on with it.
struct AskedBy {
    RunId run_id;
    CallId call_id;
    std::string chain_id;  // of causes
    std::uint32_t hops = 0;
    Extra extra = {};
    friend bool operator==(const AskedBy&, const AskedBy&) = default;
    static constexpr auto fields() {
        using S = AskedBy;
        return std::tuple(required("run_id", &S::run_id), field("call_id", &S::call_id),
                          field("chain_id", &S::chain_id), field("hops", &S::hops));
    }
};

struct ForkOrigin {
    SessionId session_id;
    Seq at_seq = 0;
    Extra extra = {};
    friend bool operator==(const ForkOrigin&, const ForkOrigin&) = default;
    static constexpr auto fields() {
        return std::tuple(required("session_id", &ForkOrigin::session_id),
                          required("at_seq", &ForkOrigin::at_seq));
    }
};

struct Progress {
    std::optional<std::int32_t> percent;
    std::string message;
    Extra extra = {};
    friend bool operator==(const Progress&, const Progress&) = default;
    static constexpr auto fields() {
        return std::tuple(field("percent", &Progress::percent),
                          field("message", &Progress::message));
    }
};

// Every record type has a kKind, its fields, and what it did not understand.
#define ROUSE_RECORD(Type, kind)                    \
    static constexpr std::string_view kKind = kind; \
    Extra extra = {};                               \
    friend bool operator==(const Type&, const Type&) = default

}  // namespace rouse
