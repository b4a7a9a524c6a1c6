#include "base/json.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <boost/json/basic_parser_impl.hpp>
#include <charconv>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "base/limits.h"

namespace rouse {
namespace {

namespace json = boost::json;

// Receives the parser's events and keeps nothing: only well-formedness and finite numbers matter.
struct CheckingHandler {
    static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
    static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
    static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
    static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);

    using Code = boost::system::error_code;
    bool on_document_begin(Code&) { return true; }
    bool on_document_end(Code&) { return true; }
    bool on_object_begin(Code&) { return true; }
    bool on_object_end(std::size_t, Code&) { return true; }
    bool on_array_begin(Code&) { return true; }
    bool on_array_end(std::size_t, Code&) { return true; }
    bool on_key_part(json::string_view, std::size_t, Code&) { return true; }
    bool on_key(json::string_view, std::size_t, Code&) { return true; }
    bool on_string_part(json::string_view, std::size_t, Code&) { return true; }
    bool on_string(json::string_view, std::size_t, Code&) { return true; }
    bool on_number_part(json::string_view, Code&) { return true; }
    bool on_int64(std::int64_t, json::string_view, Code&) { return true; }
    bool on_uint64(std::uint64_t, json::string_view, Code&) { return true; }
    bool on_double(double value, json::string_view, Code& code) {
        if (std::isfinite(value)) return true;
        code = json::make_error_code(json::error::not_number);
        return false;
    }
    bool on_bool(bool, Code&) { return true; }
    bool on_null(Code&) { return true; }
    bool on_comment_part(json::string_view, Code&) { return true; }
    bool on_comment(json::string_view, Code&) { return true; }
};

Error corrupt_at(std::size_t offset, std::string_view what) {
    return {ErrorKind::corrupt, "malformed_json",
            std::string(what) + " at byte " + std::to_string(offset)};
}

// `at` is at an opening quote; returns the offset behind the closing one, or npos. A quote with an
// odd number of backslashes before it belongs to the string.
std::size_t skip_string(std::string_view text, std::size_t at) {
    const std::size_t first = at + 1;
    for (std::size_t quote = text.find('"', first); quote != std::string_view::npos;
         quote = text.find('"', quote + 1)) {
        std::size_t inside = quote;
        while (inside > first && text[inside - 1] == '\\')
            --inside;
        if ((quote - inside) % 2 == 0) return quote + 1;
    }
    return std::string_view::npos;
}

bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// The text is well-formed: strings end.
std::string without_white_space(std::string_view text) {
    std::string compact;
    compact.reserve(text.size());
    while (!text.empty()) {
        std::size_t end = 0;  // of what is kept as it is
        while (end < text.size() && !is_blank(text[end]))
            end = text[end] == '"' ? skip_string(text, end) : end + 1;
        compact += text.substr(0, end);
        while (end < text.size() && is_blank(text[end]))
            ++end;
        text.remove_prefix(end);
    }
    return compact;
}

// true, false, null or what can only be meant as a number.
bool is_plain_token(std::string_view token) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (token.empty()) return false;
    if (token.front() != '-' && !is_digit(token.front())) {
        return token == "true" || token == "false" || token == "null";
    }
    return is_digit(token.back()) && std::ranges::all_of(token, [&](char c) {
               return is_digit(c) || c == '+' || c == '-' || c == '.' || c == 'e' || c == 'E';
           });
}

// `at` is at the first character of a value; returns the offset behind it, or npos.
std::size_t skip_value(std::string_view text, std::size_t at) {
    if (at >= text.size()) return std::string_view::npos;
    if (text[at] == '"') return skip_string(text, at);
    if (text[at] != '{' && text[at] != '[') {
        std::size_t end = at;
        while (end < text.size() && text[end] != ',' && text[end] != ']' && text[end] != '}')
            ++end;
        return is_plain_token(text.substr(at, end - at)) ? end : std::string_view::npos;
    }
    std::size_t depth = 0;
    while (at < text.size()) {
        switch (text[at]) {
            case '"':
                at = skip_string(text, at);
                if (at == std::string_view::npos) return at;
                continue;
            case '{':
            case '[': ++depth; break;
            case '}':
            case ']':
                if (--depth == 0) return at + 1;
                break;
            default: break;
        }
        ++at;
    }
    return std::string_view::npos;
}

bool is_special(char c) {
    return (static_cast<unsigned char>(c) < 0x20) | (c == '"') | (c == '\\');
}

// A loop that the compiler makes into vector instructions.
template <std::size_t kSize>
bool block_needs_escape(std::span<const char, kSize> block) {
    unsigned char found = 0;
    for (const char c : block)
        found |= static_cast<unsigned char>(is_special(c));
    return found != 0;
}

// Fewer than 16 bytes: two words that may overlap.
bool small_needs_escape(std::string_view text) {
    constexpr std::size_t kWord = 8;
    if (text.size() < kWord) return std::ranges::any_of(text, is_special);
    const std::span<const char> bytes(text);
    return block_needs_escape(bytes.first<kWord>()) || block_needs_escape(bytes.last<kWord>());
}

// Control characters, quotes and backslashes: every record's text is looked at for them, so they
// are looked for in blocks. The last block may overlap the one before.
bool needs_escape(std::string_view text) {
    constexpr std::size_t kSmall = 16;
    constexpr std::size_t kLarge = 64;
    if (text.size() < kSmall) return small_needs_escape(text);
    while (text.size() >= kLarge) {
        if (block_needs_escape(std::span<const char>(text).first<kLarge>())) return true;
        text.remove_prefix(kLarge);
    }
    // What was looked at already is harmless to look at again.
    const char* const end = text.data() + text.size();
    for (const char* at = text.data(); at + kSmall < end; at += kSmall) {
        if (block_needs_escape(std::span<const char, kSmall>(at, kSmall))) return true;
    }
    return block_needs_escape(std::span<const char, kSmall>(end - kSmall, kSmall));
}

}  // namespace

Result<RawJson> RawJson::parse(std::string_view text) {
    json::parse_options options;
    options.max_depth = limits::kJsonDepth;
    json::basic_parser<CheckingHandler> parser(options);
    boost::system::error_code code;
    const std::size_t consumed = parser.write_some(false, text.data(), text.size(), code);
    if (!code && consumed < text.size()) code = json::make_error_code(json::error::extra_data);
    if (code) {
        return Error(
            ErrorKind::invalid, "invalid_json",
            "not acceptable as JSON at byte " + std::to_string(consumed) + ": " + code.message());
    }
    return trusted(without_white_space(text));
}

RawJson RawJson::trusted(std::string text) {
    RawJson raw;
    raw.text_ = std::move(text);
    return raw;
}

Result<void> split_object(std::string_view text, std::vector<JsonMember>& members) {
    members.clear();
    if (text.size() < 2 || text.front() != '{') return corrupt_at(0, "not an object");
    std::size_t at = 1;
    if (text[at] == '}') {
        if (text.size() != 2) return corrupt_at(2, "something follows the object");
        return {};
    }
    for (;;) {
        if (at >= text.size() || text[at] != '"') return corrupt_at(at, "no key");
        const std::size_t key_end = skip_string(text, at);
        if (key_end == std::string_view::npos) return corrupt_at(at, "a key without end");
        if (key_end >= text.size() || text[key_end] != ':') return corrupt_at(key_end, "no colon");
        const std::size_t value_end = skip_value(text, key_end + 1);
        if (value_end == std::string_view::npos || value_end >= text.size()) {
            return corrupt_at(key_end, "a value without end");
        }
        members.push_back({text.substr(at + 1, key_end - at - 2),
                           text.substr(key_end + 1, value_end - key_end - 1)});
        if (text[value_end] == '}') {
            if (value_end + 1 != text.size()) {
                return corrupt_at(value_end + 1, "something follows the object");
            }
            return {};
        }
        if (text[value_end] != ',') return corrupt_at(value_end, "no comma");
        at = value_end + 1;
    }
}

Result<void> split_array(std::string_view text, std::vector<std::string_view>& items) {
    items.clear();
    if (text.size() < 2 || text.front() != '[') return corrupt_at(0, "not an array");
    if (text == "[]") return {};
    std::size_t at = 1;
    for (;;) {
        const std::size_t end = skip_value(text, at);
        if (end == std::string_view::npos || end >= text.size()) {
            return corrupt_at(at, "an item without end");
        }
        items.push_back(text.substr(at, end - at));
        if (text[end] == ']') {
            if (end + 1 != text.size()) return corrupt_at(end + 1, "something follows the array");
            return {};
        }
        if (text[end] != ',') return corrupt_at(end, "no comma");
        at = end + 1;
    }
}

std::optional<std::string> read_json_string(std::string_view token) {
    if (token.size() < 2 || token.front() != '"' || token.back() != '"') return std::nullopt;
    const std::string_view inside = token.substr(1, token.size() - 2);
    if (!needs_escape(inside)) return std::string(inside);
    boost::system::error_code code;
    const json::value value = json::parse(token, code);
    if (code || !value.is_string()) return std::nullopt;
    return std::string(value.get_string());
}

std::optional<std::int64_t> read_json_int(std::string_view token) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
    if (error != std::errc{} || end != token.data() + token.size()) return std::nullopt;
    return value;
}

std::optional<bool> read_json_bool(std::string_view token) {
    if (token == "true") return true;
    if (token == "false") return false;
    return std::nullopt;
}

std::optional<double> read_json_number(std::string_view token) {
    double number = 0;
    const auto parsed = std::from_chars(token.data(), token.data() + token.size(), number);
    const bool whole = parsed.ec == std::errc{} && parsed.ptr == token.data() + token.size();
    if (!whole || !std::isfinite(number)) return std::nullopt;
    return number;
}

void append_json_number(std::string& out, double number) {
    if (!std::isfinite(number)) {
        out += "null";
        return;
    }
    std::array<char, 32> text{};
    const auto end = std::to_chars(text.data(), text.data() + text.size(), number).ptr;
    out.append(text.data(), end);
}

std::string merge_patch(std::string_view before, std::string_view patch) {
    std::vector<JsonMember> members;
    std::vector<JsonMember> changes;
    if (!split_object(patch, changes)) return std::string(patch);
    if (!split_object(before, members)) members.clear();
    struct Wanted {
        std::string_view value;
        bool done = false;
    };
    // A tree and not a hash table: whoever sends the names chooses them.
    std::map<std::string_view, Wanted> wanted;
    for (const JsonMember& change : changes)
        wanted.insert_or_assign(change.key, Wanted{change.value});
    std::string out = "{";
    const auto put = [&](std::string_view key, std::string_view value) {
        if (out.size() > 1) out += ',';
        out.append("\"").append(key).append("\":").append(value);
    };
    const auto merge = [&](std::string_view key, std::string_view old, Wanted& change) {
        if (std::exchange(change.done, true) || change.value == "null") return;
        put(key, merge_patch(old, change.value));
    };
    for (const JsonMember& member : members) {
        const auto change = wanted.find(member.key);
        if (change == wanted.end()) {
            put(member.key, member.value);
        } else {
            merge(member.key, member.value, change->second);
        }
    }
    for (const JsonMember& change : changes)
        merge(change.key, "{}", wanted.at(change.key));
    return out + "}";
}

void append_json_string(std::string& out, std::string_view text) {
    if (!needs_escape(text)) {
        const std::size_t start = out.size();
        out.append(text.size() + 2, '"');
        text.copy(out.data() + start + 1, text.size());
        return;
    }
    out += json::serialize(json::string_view(text.data(), text.size()));
}

void append_json_name(std::string& out, std::string_view name) {
    const char before = out.empty() ? '{' : out.back();
    std::size_t start = out.size();
    out.append(name.size() + 4, '"');
    if (before == '{' || before == ',') {
        out.pop_back();
    } else {
        out[start++] = ',';
    }
    name.copy(out.data() + start + 1, name.size());
    out.back() = ':';
}

std::string to_json_string(std::string_view text) {
    std::string out;
    out.reserve(text.size() + 2);
    append_json_string(out, text);
    return out;
}

}  // namespace rouse
