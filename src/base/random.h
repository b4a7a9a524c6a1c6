#pragma once

// Where unpredictable bytes come from. Ids and secrets are made of nothing else.

#include <cstdint>
#include <span>

namespace rouse {

class Random {
 public:
    virtual ~Random() = default;
    virtual void fill(std::span<std::uint8_t> bytes) = 0;
};

// The kernel's generator. A failure ends the process: an id that can be guessed is worse.
class SystemRandom final : public Random {
 public:
    void fill(std::span<std::uint8_t> bytes) override;
};

}  // namespace rouse
