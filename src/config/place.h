#pragma once

// Where something was written, and what is wrong there.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace rouse {

inline constexpr std::string_view kCommandLine = "command line";

// Line and column count from 1. They are 0 in the environment and on the command line, where `file`
// is the variable's name or kCommandLine.
struct ConfigPlace {
    std::string file;
    std::uint32_t line = 0;
    std::uint32_t column = 0;
    friend bool operator==(const ConfigPlace&, const ConfigPlace&) = default;
};

struct ConfigMistake {
    std::string file;
    std::uint32_t line = 0;
    std::uint32_t column = 0;
    std::string key;      // "server.listen", "tools[0].url"; empty for the file as a whole
    std::string message;  // says what to do; holds no secret and nothing a terminal would act on
    friend bool operator==(const ConfigMistake&, const ConfigMistake&) = default;
};

// Where each value came from that is not a default, by key: "server.listen", "agents[0].tools[1]".
using ConfigOrigins = std::map<std::string, ConfigPlace>;

}  // namespace rouse
