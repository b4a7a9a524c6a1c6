// The forms that hold secrets. What is wrong with one is said without showing it: a secret that
// stands where the name of its variable should does not end up in a terminal or a log.

#include <algorithm>
#include <array>

#include "config/forms.h"

namespace rouse::config {
namespace {

bool is_upper_or_digit(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_letter(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

bool is_variable_name(std::string_view name) {
    return !name.empty() && !(name.front() >= '0' && name.front() <= '9') &&
           std::ranges::all_of(name, [](char c) { return is_upper_or_digit(c) || is_letter(c); });
}

bool is_header_name(std::string_view name) {
    return !name.empty() && std::ranges::all_of(name, [](char c) {
        return is_upper_or_digit(c) || is_letter(c) ||
               std::string_view("!#$%&'*+-.^`|~").contains(c);
    });
}

// "X-Api-Key" → {"x", "api", "key"}
std::vector<std::string> words_of(std::string_view name) {
    std::vector<std::string> words(1);
    for (const char c : name) {
        if (is_letter(c)) {
            words.back() += static_cast<char>(c | 0x20);
        } else if (!words.back().empty()) {
            words.emplace_back();
        }
    }
    return words;
}

// By its name: what it holds should not stand in a file that people show one another.
bool is_for_a_secret(std::string_view name) {
    constexpr std::array<std::string_view, 9> kAlone = {
        "authorization", "cookie", "secret",     "token",      "password",
        "passwd",        "apikey", "credential", "credentials"};
    constexpr std::array<std::string_view, 3> kBeforeKey = {"api", "access", "private"};
    const std::vector<std::string> words = words_of(name);
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (is_one_of(words[i], kAlone)) return true;
        if (i > 0 && words[i] == "key" && is_one_of(words[i - 1], kBeforeKey)) return true;
    }
    return false;
}

// `name` comes from the configuration.
std::optional<SecretText> read_variable(const std::string& name, const ConfigPlace& place,
                                        Reading& reading) {
    if (!is_variable_name(name)) {
        reading.mistake(place, "expects the name of an environment variable, not what is in it");
        return std::nullopt;
    }
    reading.named_variables.insert(name);
    // A name in small letters may well be the secret itself.
    const std::string shown = std::ranges::all_of(name, is_upper_or_digit) ? ' ' + name : "";
    const auto variable = reading.environment.find(name);
    if (variable == reading.environment.end()) {
        reading.mistake(place, "the environment variable" + shown + " is not set");
        return std::nullopt;
    }
    if (variable->second.empty()) {
        reading.mistake(place, "the environment variable" + shown + " is empty");
        return std::nullopt;
    }
    return SecretText{name, Secret(variable->second)};
}

std::optional<SecretText> read_text(const Member& member, Reading& reading) {
    constexpr std::string_view kReference = "env:";
    const auto* text = member.value.as<std::string>();
    if (text == nullptr) {
        reading.mistake(member.value.place, "expects a string");
        return std::nullopt;
    }
    if (text->starts_with(kReference)) {
        return read_variable(text->substr(kReference.size()), member.value.place, reading);
    }
    if (is_for_a_secret(member.key)) {
        reading.mistake(member.value.place,
                        "a secret does not belong here: put it into an environment variable and "
                        "write \"env:NAME\"");
        return std::nullopt;
    }
    return SecretText{{}, Secret(*text)};
}

enum class Entry { header, variable };

bool is_name(Entry entry, std::string_view name) {
    return entry == Entry::header ? is_header_name(name) : is_variable_name(name);
}

// A header ends at a line's end, a variable at a NUL.
bool is_text(Entry entry, const std::string& text) {
    return is_utf8(text) &&
           text.find_first_of(entry == Entry::header
                                  ? std::string_view("\r\n\0", 3)
                                  : std::string_view("\0", 1)) == std::string::npos;
}

std::optional<TextTable> read_table(const Value& value, Reading& reading, Entry entry) {
    const auto* members = value.as<Table>();
    if (members == nullptr) {
        reading.mistake(value.place, "expects " + HeadersForm::expects());
        return std::nullopt;
    }
    TextTable table;
    for (const Member& member : *members) {
        Reading at_member = reading.at('.' + visible(member.key));
        if (!is_name(entry, member.key)) {
            at_member.mistake(member.place, entry == Entry::header
                                                ? "is no name of a header"
                                                : "is no name of an environment variable");
            continue;
        }
        std::optional<SecretText> text = read_text(member, at_member);
        if (!text) continue;
        if (!is_text(entry, text->value.reveal())) {
            at_member.mistake(member.value.place, "holds characters that can't stand here");
            continue;
        }
        table.emplace(member.key, *std::move(text));
    }
    if (table.size() != members->size()) return std::nullopt;
    return table;
}

std::optional<std::string> print_table(const TextTable& table) {
    if (table.empty()) return std::nullopt;
    std::string out;
    for (const auto& [name, text] : table) {
        out += out.empty() ? "{ " : ", ";
        out += to_toml_string(name) + " = ";
        out += to_toml_string(text.variable.empty() ? text.value.reveal() : "env:" + text.variable);
    }
    return out + " }";
}

}  // namespace

std::optional<SecretText> SecretForm::read(const Value& value, Reading& reading) {
    const auto* name = value.as<std::string>();
    if (name == nullptr) {
        reading.mistake(value.place, "expects " + expects());
        return std::nullopt;
    }
    return read_variable(*name, value.place, reading);
}

std::optional<std::string> SecretForm::print(const Type& secret) {
    if (secret.variable.empty()) return std::nullopt;
    return to_toml_string(secret.variable);
}

std::optional<TextTable> HeadersForm::read(const Value& value, Reading& reading) {
    return read_table(value, reading, Entry::header);
}

std::optional<std::string> HeadersForm::print(const Type& table) {
    return print_table(table);
}

std::optional<TextTable> VariablesForm::read(const Value& value, Reading& reading) {
    return read_table(value, reading, Entry::variable);
}

std::optional<std::string> VariablesForm::print(const Type& table) {
    return print_table(table);
}

}  // namespace rouse::config
