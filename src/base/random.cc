#include "base/random.h"

#include <sys/random.h>

#include <cerrno>

#include "base/check.h"

namespace rouse {

void SystemRandom::fill(std::span<std::uint8_t> bytes) {
    while (!bytes.empty()) {
        const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
        if (got < 0 && errno == EINTR) continue;
        ROUSE_CHECK(got > 0, "the system has no random bytes");
        bytes = bytes.subspan(static_cast<std::size_t>(got));
    }
}

}  // namespace rouse
