#pragma once

// What the reader of one key has at hand: its name, the environment, and where to complain.

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "config/place.h"
#include "config/value.h"

namespace rouse::config {

using Environment = std::map<std::string, std::string>;

struct Reading {
    const Environment& environment;
    std::vector<ConfigMistake>& mistakes;
    ConfigOrigins& origins;
    std::set<std::string>& named_variables;  // that the configuration asked to be read
    std::string key = {};                    // "tools[0].url"

    // The same one step further down: at("tools") at("[0]") at(".url").
    Reading at(std::string_view step) const {
        return {environment, mistakes, origins, named_variables, key + std::string(step)};
    }

    void mistake(const ConfigPlace& place, std::string message) {
        mistakes.push_back({place.file, place.line, place.column, key, std::move(message)});
    }
    // "expects a duration such as "2h", got integer 5"
    void unexpected(const Value& value, const std::string& expected) {
        mistake(value.place, "expects " + expected + ", got " + describe(value));
    }
};

}  // namespace rouse::config
