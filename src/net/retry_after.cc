#include "net/retry_after.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace rouse {
namespace {

std::optional<Milliseconds> read_time(const std::string& text, double unit_ms) {
    constexpr double kDayMs = 86'400'000;
    double number = 0;
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || rest != end || !std::isfinite(number) || number < 0) {
        return std::nullopt;
    }
    return Milliseconds(static_cast<Milliseconds::rep>(std::min(number * unit_ms, kDayMs)));
}

}  // namespace

std::optional<Milliseconds> retry_after_of(const HttpResponse& response) {
    if (const std::string* ms = response.header("retry-after-ms")) {
        if (const auto time = read_time(*ms, 1)) return time;
    }
    const std::string* after = response.header("retry-after");
    if (after == nullptr) return std::nullopt;
    if (const auto time = read_time(*after, 1000)) return time;
    const std::string* date = response.header("date");
    const time_t until = curl_getdate(after->c_str(), nullptr);
    const time_t now = date == nullptr ? -1 : curl_getdate(date->c_str(), nullptr);
    if (until < 0 || now < 0) return std::nullopt;
    return std::chrono::seconds(std::max<time_t>(until - now, 0));
}

}  // namespace rouse
