#include "app/open_files.h"

#include <sys/resource.h>

#include <algorithm>

namespace rouse::app {

std::size_t allow_open_files() {
    // Programs that we start inherit it, and some go through all descriptors that there could be.
    constexpr rlim_t kMost = 65'536;
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMost;
    const rlim_t wanted = std::min(limit.rlim_max, kMost);
    if (limit.rlim_cur < wanted) {
        const rlimit raised{wanted, limit.rlim_max};
        if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
    }
    return static_cast<std::size_t>(limit.rlim_cur);
}

std::size_t connections_within(std::size_t open_files, std::size_t wanted) {
    constexpr std::size_t kKept = 512;
    const std::size_t rest = open_files > 2 * kKept ? open_files - kKept : open_files / 2;
    return std::min(wanted, rest);
}

}  // namespace rouse::app
