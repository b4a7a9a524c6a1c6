#include "store/files/layout.h"

#include <charconv>

namespace rouse::files {
namespace {

std::string with_number(const std::string& directory, std::uint64_t number, const char* suffix) {
    constexpr std::size_t kDigits = 10;
    std::string digits = std::to_string(number);
    digits.insert(0, kDigits - std::min(kDigits, digits.size()), '0');
    return directory + "/" + digits + suffix;
}

std::optional<std::uint64_t> number_before(std::string_view suffix, std::string_view file_name) {
    if (!file_name.ends_with(suffix)) return std::nullopt;
    file_name.remove_suffix(suffix.size());
    std::uint64_t number = 0;
    const auto parsed =
        std::from_chars(file_name.data(), file_name.data() + file_name.size(), number);
    const bool is_whole = parsed.ptr == file_name.data() + file_name.size();
    if (parsed.ec != std::errc{} || !is_whole) return std::nullopt;
    return number;
}

}  // namespace

std::string Layout::stem(const SessionId& id) const {
    return id == system_log() ? root_ + "/system" : sessions() + "/" + id.text();
}

std::string Layout::segment(std::uint64_t number) const {
    return with_number(journal(), number, kSegmentSuffix);
}

std::string Layout::pack(std::uint64_t number) const {
    return with_number(packs(), number, kPackSuffix);
}

std::optional<SessionId> Layout::session_of_log(std::string_view file_name) {
    if (!file_name.ends_with(kLogSuffix)) return std::nullopt;
    file_name.remove_suffix(std::string_view(kLogSuffix).size());
    Result<SessionId> id = parse_session_id(file_name);
    if (!id) return std::nullopt;
    return *std::move(id);
}

std::optional<std::uint64_t> Layout::number_of_segment(std::string_view file_name) {
    return number_before(kSegmentSuffix, file_name);
}

std::optional<std::uint64_t> Layout::number_of_pack(std::string_view file_name) {
    return number_before(kPackSuffix, file_name);
}

}  // namespace rouse::files
