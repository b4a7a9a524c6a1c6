#include "base/time.h"

#include <algorithm>
#include <array>

namespace rouse {
namespace {

void put_digits(char* at, std::int64_t value, int width) {
    for (int i = width - 1; i >= 0; --i) {
        at[i] = static_cast<char>('0' + value % 10);
        value /= 10;
    }
}

// Reads exactly `width` digits and moves on; -1 when they are not there.
int take_digits(std::string_view& text, std::size_t width) {
    if (text.size() < width) return -1;
    int value = 0;
    for (const char c : text.substr(0, width)) {
        if (c < '0' || c > '9') return -1;
        value = value * 10 + (c - '0');
    }
    text.remove_prefix(width);
    return value;
}

template <class... Chars>
bool take(std::string_view& text, Chars... one_of) {
    if (text.empty() || ((text.front() != one_of) && ...)) return false;
    text.remove_prefix(1);
    return true;
}

Error bad_time(std::string_view text) {
    return {ErrorKind::invalid, "invalid_time",
            "not a time as in 2026-02-21T09:30:00Z: " + std::string(text.substr(0, 40))};
}

// The fraction's milliseconds; further digits are dropped. -1: no digit behind the dot.
int take_fraction(std::string_view& text) {
    if (!take(text, '.')) return 0;
    int ms = 0;
    int scale = 100;
    std::size_t digits = 0;
    while (!text.empty() && text.front() >= '0' && text.front() <= '9') {
        ms += (text.front() - '0') * scale;
        scale /= 10;
        text.remove_prefix(1);
        ++digits;
    }
    return digits == 0 ? -1 : ms;
}

}  // namespace

std::string to_rfc3339(Timestamp at) {
    std::string text;
    append_rfc3339(text, at);
    return text;
}

void append_rfc3339(std::string& out, Timestamp at) {
    using namespace std::chrono;
    // Many records are written in the same millisecond.
    thread_local Timestamp last = Timestamp::min();
    thread_local std::array<char, 24> text_of_last;
    if (at == last) {
        out.append(text_of_last.data(), text_of_last.size());
        return;
    }
    const auto day = floor<days>(at);
    const year_month_day date(day);
    const hh_mm_ss<Milliseconds> time(at - day);
    const std::size_t start = out.size();
    out += "0000-00-00T00:00:00.000Z";
    char* text = out.data() + start;
    put_digits(text, static_cast<int>(date.year()), 4);
    put_digits(text + 5, static_cast<unsigned>(date.month()), 2);
    put_digits(text + 8, static_cast<unsigned>(date.day()), 2);
    put_digits(text + 11, time.hours().count(), 2);
    put_digits(text + 14, time.minutes().count(), 2);
    put_digits(text + 17, time.seconds().count(), 2);
    put_digits(text + 20, time.subseconds().count(), 3);
    std::copy_n(text, text_of_last.size(), text_of_last.begin());
    last = at;
}

Result<Timestamp> parse_rfc3339(std::string_view text) {
    using namespace std::chrono;
    const std::string_view whole = text;
    const int y = take_digits(text, 4);
    if (y < 0 || !take(text, '-')) return bad_time(whole);
    const int mo = take_digits(text, 2);
    if (mo < 0 || !take(text, '-')) return bad_time(whole);
    const int d = take_digits(text, 2);
    if (d < 0 || !take(text, 'T', 't', ' ')) return bad_time(whole);
    const int h = take_digits(text, 2);
    if (h < 0 || h > 23 || !take(text, ':')) return bad_time(whole);
    const int mi = take_digits(text, 2);
    if (mi < 0 || mi > 59 || !take(text, ':')) return bad_time(whole);
    const int s = take_digits(text, 2);
    if (s < 0 || s > 60) return bad_time(whole);
    const int ms = take_fraction(text);
    if (ms < 0) return bad_time(whole);

    int offset_minutes = 0;
    if (!take(text, 'Z', 'z')) {
        const bool west = !text.empty() && text.front() == '-';
        if (!take(text, '+', '-')) return bad_time(whole);
        const int oh = take_digits(text, 2);
        if (oh < 0 || oh > 23 || !take(text, ':')) return bad_time(whole);
        const int om = take_digits(text, 2);
        if (om < 0 || om > 59) return bad_time(whole);
        offset_minutes = (oh * 60 + om) * (west ? -1 : 1);
    }
    const year_month_day date(year(y), month(static_cast<unsigned>(mo)),
                              day(static_cast<unsigned>(d)));
    if (!text.empty() || !date.ok()) return bad_time(whole);
    const Timestamp at = Timestamp(sys_days(date)) + hours(h) + minutes(mi) + seconds(s) +
                         Milliseconds(ms) - minutes(offset_minutes);
    // An offset or a leap second may lead out of the years that to_rfc3339 can print.
    constexpr Timestamp kFirst(sys_days(year(0) / January / 1));
    constexpr Timestamp kBehind(sys_days(year(10'000) / January / 1));
    if (at < kFirst || at >= kBehind) return bad_time(whole);
    return at;
}

}  // namespace rouse
