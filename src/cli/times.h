#pragma once

// Times as people say them.

#include <optional>
#include <string>

#include "base/time.h"

namespace rouse::cli {

// "0s", "59s", "5m", "47h", "729d", "2y".
std::string to_age(Milliseconds age);
// "5m ago" or "in 5m".
std::string to_distance(Timestamp at, Timestamp now);
// "in 5m", "5m ago" or "never".
std::string to_deadline(const std::optional<Timestamp>& at, Timestamp now);
// "2026-02-21 09:30:00", UTC.
std::string to_day_and_time(Timestamp at);

}  // namespace rouse::cli
