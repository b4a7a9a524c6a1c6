#include "cli/times.h"

#include <algorithm>

namespace rouse::cli {

std::string to_age(Milliseconds age) {
    using namespace std::chrono;
    const auto is_below = [&](Milliseconds limit) { return age < limit; };
    const auto count = [&]<class Unit>(Unit, char letter) {
        return std::to_string(std::max<std::int64_t>(0, duration_cast<Unit>(age).count())) + letter;
    };
    if (is_below(minutes(1))) return count(seconds(), 's');
    if (is_below(hours(1))) return count(minutes(), 'm');
    if (is_below(hours(48))) return count(hours(), 'h');
    if (is_below(days(730))) return count(days(), 'd');
    return count(years(), 'y');
}

std::string to_distance(Timestamp at, Timestamp now) {
    if (at <= now) return to_age(now - at) + " ago";
    // What was set to two hours a moment ago is not "in 1h".
    const Milliseconds left = at - now;
    return "in " + to_age(left + left / 100 + Milliseconds(500));
}

std::string to_deadline(const std::optional<Timestamp>& at, Timestamp now) {
    return at ? to_distance(*at, now) : "never";
}

std::string to_day_and_time(Timestamp at) {
    std::string text = to_rfc3339(at).substr(0, 19);
    text[10] = ' ';
    return text;
}

}  // namespace rouse::cli
