#include "cli/text.h"

#include "base/utf8.h"

namespace rouse::cli {
namespace {

struct Range {
    char32_t first;
    char32_t last;
};

constexpr Range kNoColumn[] = {
    {0x300, 0x36F}, {0x200C, 0x200D}, {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}};
constexpr Range kTwoColumns[] = {{0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},
                                 {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},
                                 {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},   {0x1F300, 0x1F64F},
                                 {0x1F680, 0x1F6FF}, {0x1F900, 0x1F9FF}, {0x20000, 0x3FFFD}};

template <std::size_t N>
bool is_in(const Range (&ranges)[N], char32_t code) {
    for (const Range& range : ranges) {
        if (code >= range.first && code <= range.last) return true;
    }
    return false;
}

std::string hex(char32_t code) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string out;
    for (; code > 0 || out.size() < 2; code >>= 4U)
        out.insert(out.begin(), kDigits[code & 0xFU]);
    return out;
}

std::string visible(char32_t code) {
    if (code == '\n') return "\\n";
    if (code == '\t') return "\\t";
    if (code == '\r') return "\\r";
    if (code < 0x80) return "\\x" + hex(code);
    return "\\u{" + hex(code) + "}";
}

enum class Lines : std::uint8_t { shown, kept };

std::string make_printable(std::string_view text, Lines lines) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const Utf8Character next = first_utf8_character(text);
        const bool breaks = next.code == '\n' || next.code == '\t';
        if (next.length == 0) {
            out += "\\x" + hex(static_cast<unsigned char>(text.front()));
        } else if (is_invisible(next.code) && !(breaks && lines == Lines::kept)) {
            out += visible(next.code);
        } else {
            out += text.substr(0, next.length);
        }
        text.remove_prefix(next.length == 0 ? 1 : next.length);
    }
    return out;
}

std::size_t columns_of(const Utf8Character& one) {
    if (is_in(kNoColumn, one.code)) return 0;
    return is_in(kTwoColumns, one.code) ? 2 : 1;
}

}  // namespace

std::string printable(std::string_view text) {
    return make_printable(text, Lines::shown);
}

std::string counted(std::uint64_t count, std::string_view what) {
    return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

std::string printable_lines(std::string_view text) {
    return make_printable(text, Lines::kept);
}

std::size_t columns_of(std::string_view text) {
    std::size_t columns = 0;
    while (!text.empty()) {
        const Utf8Character next = first_utf8_character(text);
        columns += columns_of(next);
        text.remove_prefix(next.length == 0 ? 1 : next.length);
    }
    return columns;
}

std::string cut_to(std::string_view text, std::size_t columns) {
    if (columns_of(text) <= columns) return std::string(text);
    if (columns == 0) return {};
    std::string out;
    std::size_t used = 1;
    while (!text.empty()) {
        const Utf8Character next = first_utf8_character(text);
        const std::size_t length = next.length == 0 ? 1 : next.length;
        used += columns_of(next);
        if (used > columns) break;
        out += text.substr(0, length);
        text.remove_prefix(length);
    }
    return out + "…";
}

std::string shell_word(std::string_view text) {
    constexpr std::string_view kPlain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%";
    if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) {
        return std::string(text);
    }
    std::string out = "'";
    for (const char c : text)
        c == '\'' ? void(out += "'\\''") : void(out += c);
    return out + "'";
}

}  // namespace rouse::cli
