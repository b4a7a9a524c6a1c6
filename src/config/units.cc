#include "config/units.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <span>
#include <system_error>

namespace rouse::config {
namespace {

struct Unit {
    std::string_view name;
    std::uint64_t factor;
};

// Largest first, so that the first one that divides is the one to print.
constexpr std::array<Unit, 5> kTimeUnits = {
    {{"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1000}, {"ms", 1}}};
constexpr std::array<Unit, 4> kByteUnits = {
    {{"GiB", 1ULL << 30U}, {"MiB", 1ULL << 20U}, {"KiB", 1ULL << 10U}, {"B", 1}}};

constexpr std::uint64_t kLongestMs = 36'500ULL * 86'400'000;
constexpr std::uint64_t kMostBytes = 1024ULL << 30U;

std::optional<std::uint64_t> parse(std::string_view text, std::span<const Unit> units,
                                   std::uint64_t most) {
    std::uint64_t number = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (code != std::errc{}) return std::nullopt;
    const std::string_view name = text.substr(static_cast<std::size_t>(end - text.data()));
    const auto unit = std::ranges::find(units, name, &Unit::name);
    if (unit == units.end() || number == 0 || number > most / unit->factor) return std::nullopt;
    return number * unit->factor;
}

std::string print(std::uint64_t number, std::span<const Unit> units) {
    const auto unit =
        std::ranges::find_if(units, [&](const Unit& u) { return number % u.factor == 0; });
    return std::to_string(number / unit->factor) + std::string(unit->name);
}

}  // namespace

std::optional<Milliseconds> parse_duration(std::string_view text) {
    const auto ms = parse(text, kTimeUnits, kLongestMs);
    if (!ms) return std::nullopt;
    return Milliseconds(*ms);
}

std::string to_duration_text(Milliseconds duration) {
    if (duration.count() <= 0) return "0ms";
    return print(static_cast<std::uint64_t>(duration.count()), kTimeUnits);
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) {
    return parse(text, kByteUnits, kMostBytes);
}

std::string to_bytes_text(std::uint64_t bytes) {
    return bytes == 0 ? "0B" : print(bytes, kByteUnits);
}

}  // namespace rouse::config
