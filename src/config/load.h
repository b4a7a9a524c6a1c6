#pragma once

// Defaults, file, environment and command line become one Config, each over the one before, and
// every mistake in any of them is reported at once.

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"
#include "config/place.h"

namespace rouse {

struct ConfigSources {
    std::optional<std::string> file_text = {};
    std::string file_name = "rouse.toml";
    // All of it: ROUSE_<SECTION>_<KEY> set keys, HOME and XDG_DATA_HOME say where data lies, and
    // the variables that the file names hold secrets.
    std::map<std::string, std::string> environment = {};
    // "server.listen" and its value; the last of a key wins. Lists are separated by commas.
    std::vector<std::pair<std::string, std::string>> flags = {};
};

std::map<std::string, std::string> process_environment();

struct ConfigResult {
    Config config;                        // usable only without mistakes
    std::vector<ConfigMistake> mistakes;  // in the order of the file, then environment and flags
    ConfigOrigins origins;

    bool ok() const { return mistakes.empty(); }
};

ConfigResult load_config(const ConfigSources& sources);

}  // namespace rouse
