#include "store/files/layout.h"

#include <charconv>

namespace rouse::files {
namespace {

constexpr std::size_t kSegmentDigits = 10;

}  // namespace

std::string Layout::stem(const SessionId& id) const {
    return id == system_log() ? root_ + "/system" : sessions() + "/" + id.text();
}

std::string Layout::segment(std::uint64_t number) const {
    std::string digits = std::to_string(number);
    digits.insert(0, kSegmentDigits - std::min(kSegmentDigits, digits.size()), '0');
    return journal() + "/" + digits + ".log";
}

std::optional<SessionId> Layout::session_of_log(std::string_view file_name) {
    if (!file_name.ends_with(kLogSuffix)) return std::nullopt;
    file_name.remove_suffix(std::string_view(kLogSuffix).size());
    Result<SessionId> id = parse_session_id(file_name);
    if (!id) return std::nullopt;
    return *std::move(id);
}

std::optional<std::uint64_t> Layout::number_of_segment(std::string_view file_name) {
    if (!file_name.ends_with(".log")) return std::nullopt;
    file_name.remove_suffix(4);
    std::uint64_t number = 0;
    const char* end = file_name.data() + file_name.size();
    const auto parsed = std::from_chars(file_name.data(), end, number);
    if (parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
    return number;
}

}  // namespace rouse::files
