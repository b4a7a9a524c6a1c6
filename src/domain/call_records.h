#pragma once

// Records of tool calls: those that end at once, and those whose result comes later.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "base/time.h"
#include "domain/message.h"
#include "domain/record_words.h"

namespace rouse {

// ---- tool calls made by us ------------------------------------------------------------------

struct ToolStarted {
    RunId run_id;
    CallId call_id;
    std::string tool;
    ROUSE_RECORD(ToolStarted, "tool.started");
    static constexpr auto fields() {
        using S = ToolStarted;
        return std::tuple(field("run_id", &S::run_id), required("call_id", &S::call_id),
                          field("tool", &S::tool));
    }
};

struct ToolCompleted {
    CallId call_id;
    ToolResult result;
    ROUSE_RECORD(ToolCompleted, "tool.completed");
    static constexpr auto fields() {
        return std::tuple(required("call_id", &ToolCompleted::call_id),
                          required("result", &ToolCompleted::result));
    }
};

struct ToolFailed {
    CallId call_id;
    std::string error;
    std::string reason;
    ROUSE_RECORD(ToolFailed, "tool.failed");
    static constexpr auto fields() {
        using S = ToolFailed;
        return std::tuple(required("call_id", &S::call_id), required("error", &S::error),
                          field("reason", &S::reason));
    }
};

// ---- tool calls whose result comes later ----------------------------------------------------

struct PendingCreated {
    PendingId pending_id;
    RunId run_id;
    CallId call_id;
    MessageId message_id;
    std::string part_id;
    std::string tool;
    WaitsFor waits_for = WaitsFor::external;
    std::string reason;  // input_required, auth_required, approval_required
    std::string prompt;
    RawJson metadata;
    std::string input_digest;
    RawJson input;                        // only when it is not what the model wrote
    std::optional<Timestamp> expires_at;  // absent: never
    bool by_id = false;                   // whoever was told the id may settle the call with it
    std::string webhook_url;              // told when somebody else does
    std::string webhook_secret_env;       // the name of the variable, never the secret
    BootId local_boot;                    // set while the call runs inside this very process
    bool ask_if_unknown = false;          // a person says how it went if that process dies
    bool repeat_if_unknown = false;       // it runs again if that process dies
    ROUSE_RECORD(PendingCreated, "pending.created");
    static constexpr auto fields() {
        using S = PendingCreated;
        return std::tuple(required("pending_id", &S::pending_id), field("run_id", &S::run_id),
                          required("call_id", &S::call_id), field("message_id", &S::message_id),
                          field("part_id", &S::part_id), field("tool", &S::tool),
                          required("waits_for", &S::waits_for), field("reason", &S::reason),
                          field("prompt", &S::prompt), field("metadata", &S::metadata),
                          field("input_digest", &S::input_digest), field("input", &S::input),
                          field("expires_at", &S::expires_at), field("by_id", &S::by_id),
                          field("webhook_url", &S::webhook_url),
                          field("webhook_secret_env", &S::webhook_secret_env),
                          field("local_boot", &S::local_boot),
                          field("ask_if_unknown", &S::ask_if_unknown),
                          field("repeat_if_unknown", &S::repeat_if_unknown));
    }
};

// The call waits (again): the outside confirmed the start, a lease ended, or its time was moved.
struct PendingWaiting {
    PendingId pending_id;
    // started, released, lease_expired, process_restart, extended, outcome_unknown
    std::string reason;
    std::string external_ref;
    std::optional<std::int64_t> estimated_ms;
    std::optional<Timestamp> expires_at;
    std::string prompt = {};  // what the tool said when it had started
    RawJson metadata = {};
    ROUSE_RECORD(PendingWaiting, "pending.waiting");
    static constexpr auto fields() {
        using S = PendingWaiting;
        return std::tuple(required("pending_id", &S::pending_id), field("reason", &S::reason),
                          field("external_ref", &S::external_ref),
                          field("estimated_ms", &S::estimated_ms),
                          field("expires_at", &S::expires_at), field("prompt", &S::prompt),
                          field("metadata", &S::metadata));
    }
};

struct PendingProcessing {
    PendingId pending_id;
    std::string worker;
    Timestamp lease_until{};
    ROUSE_RECORD(PendingProcessing, "pending.processing");
    static constexpr auto fields() {
        using S = PendingProcessing;
        return std::tuple(required("pending_id", &S::pending_id), required("worker", &S::worker),
                          required("lease_until", &S::lease_until));
    }
};

struct PendingProgress {
    PendingId pending_id;
    Progress progress;
    ROUSE_RECORD(PendingProgress, "pending.progress");
    static constexpr auto fields() {
        return std::tuple(required("pending_id", &PendingProgress::pending_id),
                          required("progress", &PendingProgress::progress));
    }
};

// Most of its time is over; written where somebody wants to be told.
struct PendingExpiring {
    PendingId pending_id;
    Timestamp expires_at{};
    ROUSE_RECORD(PendingExpiring, "pending.expiring");
    static constexpr auto fields() {
        return std::tuple(required("pending_id", &PendingExpiring::pending_id),
                          required("expires_at", &PendingExpiring::expires_at));
    }
};

struct PendingCompleted {
    PendingId pending_id;
    CallId call_id;
    ToolResult result;
    std::string digest;
    ROUSE_RECORD(PendingCompleted, "pending.completed");
    static constexpr auto fields() {
        using S = PendingCompleted;
        return std::tuple(required("pending_id", &S::pending_id), required("call_id", &S::call_id),
                          required("result", &S::result), required("digest", &S::digest));
    }
};

struct PendingFailed {
    PendingId pending_id;
    CallId call_id;
    std::string error;
    std::string digest;
    ROUSE_RECORD(PendingFailed, "pending.failed");
    static constexpr auto fields() {
        using S = PendingFailed;
        return std::tuple(required("pending_id", &S::pending_id), required("call_id", &S::call_id),
                          required("error", &S::error), required("digest", &S::digest));
    }
};

struct PendingExpired {
    PendingId pending_id;
    CallId call_id;
    std::string error;
    ROUSE_RECORD(PendingExpired, "pending.expired");
    static constexpr auto fields() {
        using S = PendingExpired;
        return std::tuple(required("pending_id", &S::pending_id), required("call_id", &S::call_id),
                          required("error", &S::error));
    }
};

struct PendingCancelled {
    PendingId pending_id;
    CallId call_id;
    std::string reason;  // cancelled, superseded, vetoed, deleted, interrupted
    std::string error;   // what the model is told
    ROUSE_RECORD(PendingCancelled, "pending.cancelled");
    static constexpr auto fields() {
        using S = PendingCancelled;
        return std::tuple(required("pending_id", &S::pending_id), required("call_id", &S::call_id),
                          required("reason", &S::reason), required("error", &S::error));
    }
};

// The call runs when the turn goes on: a person let it, with the edited input if there is one, or
// the process died under it and it may run again.
struct PendingApproved {
    PendingId pending_id;
    CallId call_id;
    std::string input_digest;
    RawJson input;       // only when the person changed it
    std::string reason;  // process_restart; absent: a person said so
    ROUSE_RECORD(PendingApproved, "pending.approved");
    static constexpr auto fields() {
        using S = PendingApproved;
        return std::tuple(required("pending_id", &S::pending_id), required("call_id", &S::call_id),
                          required("input_digest", &S::input_digest), field("input", &S::input),
                          field("reason", &S::reason));
    }
};

}  // namespace rouse
