#pragma once

// What people see of a session. One pure function decides; nobody else does.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "domain/summary.h"

namespace rouse {

// The same status in the words of boards and their clients.
enum class BoardState : std::uint8_t {
    created,
    running,
    waiting_for_input,
    completed,
    error,
    cancelled
};
template <>
inline constexpr std::string_view kEnumNames<BoardState>[] = {
    "CREATED", "RUNNING", "WAITING_FOR_INPUT", "COMPLETED", "ERROR", "CANCELLED"};

// And in the words of the pending-call API.
enum class ActivityType : std::uint8_t { idle, busy, retry, waiting_async };
template <>
inline constexpr std::string_view kEnumNames<ActivityType>[] = {"idle", "busy", "retry",
                                                                "waiting_async"};

struct Activity {
    ActivityType type = ActivityType::idle;
    std::optional<Retry> retry;
    PendingId pending_id;  // with waiting_async: the oldest open call
    std::string tool;
    std::optional<Timestamp> since;
    std::optional<Timestamp> timeout;
    friend bool operator==(const Activity&, const Activity&) = default;
};

struct SessionView {
    SessionStatus status = SessionStatus::idle;
    BoardState state = BoardState::created;
    Activity activity;
    Seq seq = 0;  // a view with a smaller seq is older
    friend bool operator==(const SessionView&, const SessionView&) = default;
};

SessionStatus project_status(const RunFacts& run, const BootId& boot, Timestamp now);
SessionView project(const SessionState& state, const BootId& boot, Timestamp now);

}  // namespace rouse
