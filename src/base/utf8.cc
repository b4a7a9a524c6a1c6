#include "base/utf8.h"

#include <algorithm>

namespace rouse {
namespace {

bool continues(char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80;
}

struct Range {
    char32_t first;
    char32_t last;
};

constexpr Range kInvisible[] = {{0x00, 0x1F},     {0x7F, 0x9F},     {0x61C, 0x61C},
                                {0x180E, 0x180E}, {0x200B, 0x200B}, {0x200E, 0x200F},
                                {0x2028, 0x202E}, {0x2060, 0x206F}, {0xFEFF, 0xFEFF},
                                {0xFFF9, 0xFFFB}, {0xFFFE, 0xFFFF}, {0xE0000, 0xE007F}};

}  // namespace

Utf8Character first_utf8_character(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    if (byte(0) < 0x80) return {byte(0), 1};
    const std::size_t length = byte(0) >= 0xF0 ? 4 : byte(0) >= 0xE0 ? 3 : 2;
    if (byte(0) < 0xC2 || byte(0) > 0xF4 || text.size() < length) return {};
    char32_t code = byte(0) & (0x7FU >> length);
    for (std::size_t i = 1; i < length; ++i) {
        if (!continues(text[i])) return {};
        code = (code << 6U) | (byte(i) & 0x3FU);
    }
    constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    if (code < kSmallest[length] || code > 0x10FFFF || surrogate) return {};
    return {code, length};
}

bool is_invisible(char32_t code) {
    return std::ranges::any_of(
        kInvisible, [&](const Range& range) { return code >= range.first && code <= range.last; });
}

std::string to_utf8(std::string_view bytes) {
    std::string text;
    text.reserve(bytes.size());
    while (!bytes.empty()) {
        const std::size_t length = first_utf8_character(bytes).length;
        text += length == 0 ? std::string_view("\uFFFD") : bytes.substr(0, length);
        bytes.remove_prefix(length == 0 ? 1 : length);
    }
    return text;
}

std::string_view utf8_head(std::string_view text, std::size_t limit) {
    if (text.size() <= limit) return text;
    while (limit > 0 && continues(text[limit]))
        --limit;
    return text.substr(0, limit);
}

std::string_view utf8_tail(std::string_view text, std::size_t limit) {
    if (text.size() <= limit) return text;
    text.remove_prefix(text.size() - limit);
    while (!text.empty() && continues(text.front()))
        text.remove_prefix(1);
    return text;
}

}  // namespace rouse
