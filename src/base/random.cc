#include "base/random.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/check.h"

namespace rouse {

namespace {

void fill_from_system(std::span<std::uint8_t> bytes) {
    while (!bytes.empty()) {
        const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
        if (got < 0 && errno == EINTR) continue;
        ROUSE_CHECK(got > 0, "the system has no random bytes");
        bytes = bytes.subspan(static_cast<std::size_t>(got));
    }
}

// Many small ids for one call of the system. What was handed out is wiped.
class Supply {
 public:
    void fill(std::span<std::uint8_t> bytes) {
        if (bytes.size() > left_) {
            fill_from_system(bytes_);
            left_ = bytes_.size();
        }
        const std::span<std::uint8_t> given =
            std::span(bytes_).subspan(left_ - bytes.size(), bytes.size());
        std::ranges::copy(given, bytes.begin());
        ::explicit_bzero(given.data(), given.size());
        left_ -= bytes.size();
    }
    static constexpr std::size_t kBytes = 1024;

 private:
    std::array<std::uint8_t, kBytes> bytes_ = {};
    std::size_t left_ = 0;
};

}  // namespace

void SystemRandom::fill(std::span<std::uint8_t> bytes) {
    thread_local Supply supply;
    if (bytes.size() > Supply::kBytes / 4) return fill_from_system(bytes);
    supply.fill(bytes);
}

}  // namespace rouse
