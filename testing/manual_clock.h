#pragma once

// A clock that moves only when a test moves it.

#include <atomic>

#include "base/clock.h"

namespace rouse::testing {

class ManualClock final : public Clock {
 public:
    // 2026-01-01T00:00:00Z unless told otherwise.
    explicit ManualClock(Timestamp start = from_epoch_ms(1'767'225'600'000))
        : now_ms_(to_epoch_ms(start)) {}

    Timestamp now() override { return from_epoch_ms(now_ms_.load()); }
    std::chrono::nanoseconds monotonic() override { return Milliseconds(passed_ms_.load()); }

    // Time passes: both clocks go on.
    void advance(Milliseconds by) {
        now_ms_ += by.count();
        passed_ms_ += by.count();
    }

    // Somebody sets the time of day, back or forth; the monotonic clock does not notice.
    void set(Timestamp now) { now_ms_ = to_epoch_ms(now); }

 private:
    std::atomic<std::int64_t> now_ms_;
    std::atomic<std::int64_t> passed_ms_ = 0;
};

}  // namespace rouse::testing
