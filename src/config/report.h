#pragma once

// What a person who checks or starts with a configuration is told.

#include <string>
#include <vector>

#include "config/load.h"

namespace rouse {

// One a line: `rouse.toml:12:5: error: tools[0].url: is missing: …`
std::string to_text(const std::vector<ConfigMistake>& mistakes);

struct ConfigReport {
    bool ok = false;
    // The configuration in effect, as TOML, or all mistakes; then a line that sums it up.
    std::string text;
};

ConfigReport check_config(const ConfigSources& sources);

}  // namespace rouse
