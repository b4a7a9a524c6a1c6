#pragma once

// What lists, filters and timers need of a session, small enough to keep for every session there
// is: one row of the store's index.

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "domain/state.h"

namespace rouse {

struct PendingSummary {
    PendingId pending_id;
    std::string tool;
    PendingStatus status = PendingStatus::waiting;
    WaitsFor waits_for = WaitsFor::external;
    Timestamp created_at{};
    std::optional<Timestamp> expires_at;
    std::optional<Timestamp> lease_until;
    bool local = false;   // runs inside a process of ours
    bool warned = false;  // that its time is nearly over
    friend bool operator==(const PendingSummary&, const PendingSummary&) = default;
    static constexpr auto fields() {
        using S = PendingSummary;
        return std::tuple(required("id", &S::pending_id), field("tool", &S::tool),
                          required("status", &S::status), required("for", &S::waits_for),
                          required("created", &S::created_at), field("expires", &S::expires_at),
                          field("lease", &S::lease_until), field("local", &S::local),
                          field("warned", &S::warned));
    }
};

// Where the latest run stands.
enum class RunPhase : std::uint8_t {
    none,
    active,
    parked,
    completed,
    failed,
    cancelled,
    interrupted
};
template <>
inline constexpr std::string_view kEnumNames<RunPhase>[] = {
    "none", "active", "parked", "completed", "failed", "cancelled", "interrupted"};

// All that the status is computed from (status.h).
struct RunFacts {
    RunPhase phase = RunPhase::none;
    BootId boot_id;
    std::optional<TokenStatus> token;  // of the open wait; absent: the wait has lost its token
    std::optional<Timestamp> token_expires_at;
    std::optional<Timestamp> deadline_at;
    std::optional<InterruptReason> interrupted;
    friend bool operator==(const RunFacts&, const RunFacts&) = default;
    static constexpr auto fields() {
        using S = RunFacts;
        return std::tuple(required("phase", &S::phase), field("boot", &S::boot_id),
                          field("token", &S::token), field("token_expires", &S::token_expires_at),
                          field("deadline", &S::deadline_at),
                          field("interrupted", &S::interrupted));
    }
};

struct SessionSummary {
    SessionId id;
    Seq last_seq = 0;
    Timestamp created_at{};
    Timestamp updated_at{};
    std::string title;
    std::string agent;
    std::string task_id;
    std::string alias;
    std::string external_id;
    SessionId parent;
    RunFacts run;
    std::optional<WaitKind> wait_kind;
    bool redrive = false;                 // a resume was accepted and nothing came of it yet
    std::vector<PendingSummary> pending;  // the open ones
    friend bool operator==(const SessionSummary&, const SessionSummary&) = default;
    static constexpr auto fields() {
        using S = SessionSummary;
        return std::tuple(required("id", &S::id), required("seq", &S::last_seq),
                          required("created", &S::created_at), required("updated", &S::updated_at),
                          field("title", &S::title), field("agent", &S::agent),
                          field("task", &S::task_id), field("alias", &S::alias),
                          field("external", &S::external_id), field("parent", &S::parent),
                          field("run", &S::run), field("wait", &S::wait_kind),
                          field("redrive", &S::redrive), field("pending", &S::pending));
    }

    // Something may still happen to it without anybody asking: a run, a wait, a deadline.
    bool is_active() const {
        return run.phase == RunPhase::active || run.phase == RunPhase::parked;
    }
};

RunFacts run_facts(const SessionState& state);
SessionSummary summarize(const SessionState& state);

// The earliest time at which something is due: a call, a lease, the wait itself.
std::optional<Timestamp> next_due(const SessionSummary& summary);
// The earliest time at which somebody is to be told that a call expires soon.
std::optional<Timestamp> next_warning(const SessionSummary& summary);

}  // namespace rouse
