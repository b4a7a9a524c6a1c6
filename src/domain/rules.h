#pragma once

// What the rules of runs and waits share. A rule takes the latest state and a command and returns
// the records to commit, or a refusal that says what to do next; it changes nothing itself.

#include <string>
#include <string_view>
#include <vector>

#include "domain/record.h"
#include "domain/state.h"

namespace rouse {

using Records = std::vector<RecordBody>;

inline constexpr std::string_view kTimedOut = "Tool execution timed out";
inline constexpr std::string_view kCancelledByUser = "Cancelled by user";
inline constexpr std::string_view kOutcomeUnknown = "interrupted, outcome unknown";

// Closes every call of the turn that has no result yet, so that no model ever sees one without.
void close_calls(const SessionState& state, std::string_view reason, std::string_view error,
                 Records& records);

// Parked, but its time is up or its token is gone: nothing that anybody gives ends the wait.
bool wait_is_over(const SessionState& state, Timestamp now);

// Not deleted: everything but reading needs that. not_found "session_gone".
Result<void> require_live(const SessionState& state);

}  // namespace rouse
