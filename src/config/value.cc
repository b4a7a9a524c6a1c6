#include "config/value.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "base/json.h"
#include "base/utf8.h"

namespace rouse::config {
namespace {

constexpr std::size_t kQuotedBytes = 60;

bool is_control(char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
}

template <class... Functions>
struct Overloaded : Functions... {
    using Functions::operator()...;
};

std::string float_text(double number) {
    std::string out = "float ";
    append_json_number(out, number);
    return out;
}

}  // namespace

const Value* find(const Table& table, std::string_view key) {
    const auto member = std::ranges::find(table, key, &Member::key);
    return member == table.end() ? nullptr : &member->value;
}

std::string describe(const Value& value) {
    return std::visit(
        Overloaded{
            [](const std::string& text) { return in_quotes(text); },
            [](std::int64_t number) { return "integer " + std::to_string(number); },
            [](double number) { return float_text(number); },
            [](bool flag) { return std::string(flag ? "boolean true" : "boolean false"); },
            [](const Date&) { return std::string("a date or time"); },
            [](const Array&) { return std::string("an array"); },
            [](const Table&) { return std::string("a table"); },
        },
        value.data);
}

std::string visible(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const Utf8Character next = first_utf8_character(text);
        const std::size_t length = std::max<std::size_t>(next.length, 1);
        const auto byte = static_cast<unsigned char>(text.front());
        if (next.length == 0 || (byte < 0x80 && is_control(text.front()))) {
            out += fmt::format("\\x{:02x}", byte);
        } else if (is_invisible(next.code)) {
            out += fmt::format("\\u{{{:x}}}", static_cast<unsigned>(next.code));
        } else {
            out += text.substr(0, length);
        }
        text.remove_prefix(length);
    }
    return out;
}

std::string in_quotes(std::string_view text) {
    if (text.size() <= kQuotedBytes) return '"' + visible(text) + '"';
    std::size_t end = kQuotedBytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U)
        --end;  // not inside a character
    return '"' + visible(text.substr(0, end)) + "…\"";
}

std::string to_toml_string(std::string_view text) {
    const bool plain = std::ranges::none_of(text, is_control);
    const bool escapes = text.find_first_of("\"\\") != std::string_view::npos;
    if (plain && escapes && text.find('\'') == std::string_view::npos) {
        return "'" + std::string(text) + "'";
    }
    std::string out;
    for (const char c : to_json_string(text)) {
        if (c == 0x7F) {
            out += "\\u007F";  // JSON takes it as it is, TOML does not
        } else {
            out += c;
        }
    }
    return out;
}

bool is_utf8(std::string_view text) {
    return RawJson::parse(to_json_string(text)).has_value();
}

}  // namespace rouse::config
