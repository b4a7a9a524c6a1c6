#pragma once

// Where time comes from. Only the edges of the program hold a Clock; rules take the time as a
// value.

#include "base/time.h"

namespace rouse {

class Clock {
 public:
    virtual ~Clock() = default;
    virtual Timestamp now() = 0;
    // Never jumps; for measuring, not for deadlines that are stored.
    virtual std::chrono::nanoseconds monotonic() = 0;
};

class SystemClock final : public Clock {
 public:
    Timestamp now() override;
    std::chrono::nanoseconds monotonic() override;
};

}  // namespace rouse
