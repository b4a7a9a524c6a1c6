#pragma once

// For bugs only: a broken invariant ends the process, because a crash is safe and a wrong write is
// not.

#include <source_location>
#include <string_view>

namespace rouse {

[[noreturn]] void check_failed(std::string_view what,
                               std::source_location where = std::source_location::current());

}  // namespace rouse

#define ROUSE_CHECK(condition, what)                   \
    do {                                               \
        if (!(condition)) ::rouse::check_failed(what); \
    } while (false)
