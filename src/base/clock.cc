#include "base/clock.h"

namespace rouse {

Timestamp SystemClock::now() {
    return std::chrono::floor<Milliseconds>(std::chrono::system_clock::now());
}

std::chrono::nanoseconds SystemClock::monotonic() {
    return std::chrono::steady_clock::now().time_since_epoch();
}

}  // namespace rouse
