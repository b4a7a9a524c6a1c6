#pragma once

// Durations and sizes as people write them: "500ms", "2h", "4MiB".

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace rouse::config {

// A whole number and one of ms, s, m, h, d. Nothing when it is not that, is zero, or is longer than
// a hundred years.
std::optional<Milliseconds> parse_duration(std::string_view text);
std::string to_duration_text(Milliseconds duration);  // in the largest unit that is exact

// A whole number and one of B, KiB, MiB, GiB. Nothing when it is not that, is zero, or is more than
// 1024 GiB.
std::optional<std::uint64_t> parse_bytes(std::string_view text);
std::string to_bytes_text(std::uint64_t bytes);

}  // namespace rouse::config
