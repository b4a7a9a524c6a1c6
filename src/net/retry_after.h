#pragma once

// How long a server asks to be left alone: retry-after-ms, or retry-after in seconds or as a date.

#include <optional>

#include "net/http_client.h"

namespace rouse {

// A date is read against the answer's own Date header: two clocks need not agree.
std::optional<Milliseconds> retry_after_of(const HttpResponse& response);

}  // namespace rouse
