#pragma once

// From plain structs to JSON and back, driven by a list of fields that each struct gives:
//
//   static constexpr auto fields() {
//       return std::tuple(required("run_id", &RunStarted::run_id), field("boot_id", …));
//   }
//
// A field with an empty value is left out when written and keeps its default when missing; a
// required one is always written and must be there. A struct with a member `Extra extra` keeps the
// members it does not know, in their order, and writes them last.

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "base/json.h"
#include "base/time.h"
#include "domain/ids.h"

namespace rouse {

// Unknown members as text, each with its leading comma: ,"key":value
struct Extra {
    std::string text;
    friend bool operator==(const Extra&, const Extra&) = default;
};

enum class Presence : std::uint8_t { optional, required, nullable };

template <class Struct, class Value>
struct Field {
    std::string_view name;
    Value Struct::* member;
    Presence presence;
};

template <class Struct, class Value>
constexpr Field<Struct, Value> field(std::string_view name, Value Struct::* member) {
    return {name, member, Presence::optional};
}
template <class Struct, class Value>
constexpr Field<Struct, Value> required(std::string_view name, Value Struct::* member) {
    return {name, member, Presence::required};
}
// Written as null when it has no value.
template <class Struct, class Value>
constexpr Field<Struct, Value> nullable(std::string_view name, Value Struct::* member) {
    return {name, member, Presence::nullable};
}

// Specialised for each enum that is stored: the enumerators' names in their order.
template <class Enum>
inline constexpr std::string_view kEnumNames[1] = {""};

template <class Enum>
    requires std::is_enum_v<Enum>
constexpr std::string_view to_string(Enum value) {
    return kEnumNames<Enum>[static_cast<std::size_t>(value)];
}

template <class Enum>
std::optional<Enum> parse_enum(std::string_view name) {
    for (std::size_t i = 0; i < std::size(kEnumNames<Enum>); ++i) {
        if (kEnumNames<Enum>[i] == name) return static_cast<Enum>(i);
    }
    return std::nullopt;
}

namespace codec {

template <class T>
concept Fielded = requires { T::fields(); };
template <class T>
concept WithExtra = requires(T value) { value.extra.text; };
template <class T>
concept AnyId = requires { T::kPrefix; };
template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
inline constexpr bool kIsVector = false;
template <class T>
inline constexpr bool kIsVector<std::vector<T>> = true;

template <class T>
bool is_empty(const T& value) {
    if constexpr (kIsOptional<T>) {
        return !value.has_value();
    } else if constexpr (AnyId<T> || kIsVector<T> || std::same_as<T, std::string>) {
        return value.empty();
    } else if constexpr (std::same_as<T, RawJson>) {
        return value.absent();
    } else if constexpr (std::same_as<T, CallId>) {
        return value.text.empty();
    } else if constexpr (std::same_as<T, bool>) {
        return !value;
    } else if constexpr (std::integral<T> || std::floating_point<T>) {
        return value == 0;
    } else if constexpr (Fielded<T>) {
        return value == T{};
    } else {
        return false;
    }
}

template <Fielded T>
void write_members(std::string& out, const T& value);
template <Fielded T>
bool read_members(std::string_view text, T& value);

template <class T>
void write(std::string& out, const T& value) {
    if constexpr (kIsOptional<T>) {
        value ? write(out, *value) : void(out += "null");
    } else if constexpr (std::same_as<T, std::string>) {
        append_json_string(out, value);
    } else if constexpr (AnyId<T>) {
        append_json_string(out, value.text());
    } else if constexpr (std::same_as<T, CallId>) {
        append_json_string(out, value.text);
    } else if constexpr (std::same_as<T, Timestamp>) {
        out += '"';
        append_rfc3339(out, value);
        out += '"';
    } else if constexpr (std::same_as<T, RawJson>) {
        out += value.absent() ? std::string_view("null") : std::string_view(value.text());
    } else if constexpr (std::same_as<T, bool>) {
        out += value ? "true" : "false";
    } else if constexpr (std::integral<T>) {
        out += std::to_string(value);
    } else if constexpr (std::floating_point<T>) {
        append_json_number(out, value);
    } else if constexpr (std::is_enum_v<T>) {
        append_json_string(out, to_string(value));
    } else if constexpr (kIsVector<T>) {
        out += '[';
        for (std::size_t i = 0; i < value.size(); ++i) {
            if (i > 0) out += ',';
            write(out, value[i]);
        }
        out += ']';
    } else if constexpr (Fielded<T>) {
        out += '{';
        write_members(out, value);
        out += '}';
    } else {
        value.write_json(out);
    }
}

// False: the token does not stand for a T.
template <class T>
bool read(std::string_view token, T& value) {
    if constexpr (kIsOptional<T>) {
        if (token == "null") return value = std::nullopt, true;
        return read(token, value.emplace());
    } else if constexpr (std::same_as<T, std::string>) {
        std::optional<std::string> text = read_json_string(token);
        if (!text) return false;
        value = *std::move(text);
        return true;
    } else if constexpr (AnyId<T>) {
        std::optional<std::string> text = read_json_string(token);
        if (!text) return false;
        const bool reserved = std::same_as<T, SessionId> && *text == system_log().text();
        if (!reserved && !T::is_valid(*text)) return false;
        value = T(*std::move(text));
        return true;
    } else if constexpr (std::same_as<T, CallId>) {
        return read(token, value.text);
    } else if constexpr (std::same_as<T, Timestamp>) {
        if (token.size() < 2 || token.front() != '"') return false;
        const Result<Timestamp> at = parse_rfc3339(token.substr(1, token.size() - 2));
        if (at) value = *at;
        return at.has_value();
    } else if constexpr (std::same_as<T, RawJson>) {
        value = RawJson::trusted(std::string(token));
        return true;
    } else if constexpr (std::same_as<T, bool>) {
        const std::optional<bool> flag = read_json_bool(token);
        if (flag) value = *flag;
        return flag.has_value();
    } else if constexpr (std::integral<T>) {
        const std::optional<std::int64_t> number = read_json_int(token);
        if (!number || !std::in_range<T>(*number)) return false;
        value = static_cast<T>(*number);
        return true;
    } else if constexpr (std::floating_point<T>) {
        const std::optional<double> number = read_json_number(token);
        if (number) value = static_cast<T>(*number);
        return number.has_value();
    } else if constexpr (std::is_enum_v<T>) {
        const std::optional<std::string> name = read_json_string(token);
        const std::optional<T> parsed = name ? parse_enum<T>(*name) : std::nullopt;
        if (parsed) value = *parsed;
        return parsed.has_value();
    } else if constexpr (kIsVector<T>) {
        std::vector<std::string_view> items;
        if (!split_array(token, items)) return false;
        value.clear();
        value.reserve(items.size());
        for (const std::string_view item : items) {
            if (!read(item, value.emplace_back())) return false;
        }
        return true;
    } else if constexpr (Fielded<T>) {
        return read_members(token, value);
    } else {
        return value.read_json(token);
    }
}

template <Fielded T>
void write_members(std::string& out, const T& value) {
    std::apply(
        [&](const auto&... one) {
            const auto put = [&](const auto& f) {
                const auto& member = value.*f.member;
                if (f.presence == Presence::optional && is_empty(member)) return;
                append_json_name(out, f.name);
                write(out, member);
            };
            (put(one), ...);
        },
        T::fields());
    if constexpr (WithExtra<T>) {
        std::string_view extra = value.extra.text;
        if (!extra.empty() && (out.empty() || out.back() == '{' || out.back() == ',')) {
            extra.remove_prefix(1);
        }
        out += extra;
    }
}

// The members of an object that is already split; `seen` counts how many of them were used.
template <Fielded T>
bool read_fields(const std::vector<JsonMember>& members, T& value) {
    bool ok = true;
    std::size_t used = 0;
    std::apply(
        [&](const auto&... one) {
            const auto get = [&](const auto& f) {
                for (const JsonMember& member : members) {
                    if (member.key != f.name) continue;
                    const bool none = f.presence == Presence::nullable && member.value == "null";
                    ok = ok && (none || read(member.value, value.*f.member));
                    ++used;
                    return;
                }
                ok = ok && f.presence != Presence::required;
            };
            (get(one), ...);
        },
        T::fields());
    if constexpr (WithExtra<T>) {
        if (!ok || used == members.size()) return ok;
        const auto known = [](std::string_view key) {
            return std::apply([&](const auto&... one) { return ((one.name == key) || ...); },
                              T::fields());
        };
        for (const JsonMember& member : members) {
            if (known(member.key)) continue;
            value.extra.text += ",\"";
            value.extra.text += member.key;
            value.extra.text += "\":";
            value.extra.text += member.value;
        }
    }
    return ok;
}

template <Fielded T>
bool read_members(std::string_view text, T& value) {
    std::vector<JsonMember> members;
    return split_object(text, members).has_value() && read_fields(members, value);
}

}  // namespace codec

template <class T>
std::string to_json(const T& value) {
    std::string out;
    codec::write(out, value);
    return out;
}

// corrupt: `what` is not what it should be.
template <class T>
Result<T> from_json(std::string_view text, std::string_view what) {
    T value{};
    if (!codec::read(text, value)) {
        return Error(ErrorKind::corrupt, "malformed_json", std::string(what) + " is malformed");
    }
    return value;
}

}  // namespace rouse
