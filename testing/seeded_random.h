#pragma once

// Random numbers that are the same in every run: SplitMix64, whose output depends on the seed and
// the number of draws only, not on the standard library.

#include <atomic>
#include <cstdint>

#include "base/random.h"

namespace rouse::testing {

class SeededRandom final : public Random {
 public:
    explicit SeededRandom(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() {
        constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15;
        std::uint64_t z = state_.fetch_add(kStep) + kStep;
        z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9;
        z = (z ^ (z >> 27U)) * 0x94D049BB133111EB;
        return z ^ (z >> 31U);
    }

    // 0 to limit - 1; limit is not 0. Slightly uneven for huge limits, which no test minds.
    std::uint64_t below(std::uint64_t limit) { return next() % limit; }
    bool coin() { return (next() & 1U) != 0; }

    void fill(std::span<std::uint8_t> bytes) override {
        for (std::uint8_t& byte : bytes)
            byte = static_cast<std::uint8_t>(next() >> 56U);
    }

 private:
    std::atomic<std::uint64_t> state_;
};

}  // namespace rouse::testing
