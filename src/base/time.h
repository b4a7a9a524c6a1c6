#pragma once

// Time of day as the log knows it: milliseconds, UTC. For people and for deadlines, never for
// order.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace rouse {

using Milliseconds = std::chrono::milliseconds;
using Timestamp = std::chrono::sys_time<Milliseconds>;

inline std::int64_t to_epoch_ms(Timestamp at) {
    return at.time_since_epoch().count();
}
inline Timestamp from_epoch_ms(std::int64_t ms) {
    return Timestamp(Milliseconds(ms));
}

// "2026-02-21T09:30:00.125Z", the years 0000 to 9999.
std::string to_rfc3339(Timestamp at);
void append_rfc3339(std::string& out, Timestamp at);

// Exactly what to_rfc3339 writes, and RFC 3339 with other fractions or an offset. invalid.
Result<Timestamp> parse_rfc3339(std::string_view text);

}  // namespace rouse
