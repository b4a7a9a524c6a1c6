#pragma once

// Values as somebody wrote them, each with its place, whatever they were read from. The file, the
// environment and the command line meet here, so that one reader per key serves all three.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/place.h"

namespace rouse::config {

struct Value;
struct Member;
using Array = std::vector<Value>;
using Table = std::vector<Member>;  // in the order of the text

struct Date {};  // a date or a time of day: no key takes one

struct Value {
    std::variant<std::string, std::int64_t, double, bool, Date, Array, Table> data;
    ConfigPlace place;

    template <class T>
    const T* as() const {
        return std::get_if<T>(&data);
    }
};

struct Member {
    std::string key;
    ConfigPlace place;
    Value value;
};

const Value* find(const Table& table, std::string_view key);  // null when it is not there

// What a person wrote, for a message: `integer 5`, `"soon"`, `a table`.
std::string describe(const Value& value);

// In quotes, shortened, without effect on a terminal.
std::string in_quotes(std::string_view text);
// Control characters become visible instead of effective.
std::string visible(std::string_view text);

// A TOML string: literal where that reads better, else with escapes.
std::string to_toml_string(std::string_view text);

bool is_utf8(std::string_view text);

}  // namespace rouse::config
