#pragma once

// What a person who checks or starts with a configuration is told.

#include <string>
#include <string_view>
#include <vector>

#include "config/load.h"

namespace rouse {

// One a line: `rouse.toml:12:5: error: tools[0].url: is missing: …`; `what` is error or warning.
std::string to_text(const std::vector<ConfigMistake>& mistakes, std::string_view what = "error");

struct ConfigReport {
    bool ok = false;
    // The configuration in effect, as TOML, or all mistakes; then a line that sums it up.
    std::string text;
};

ConfigReport check_config(const ConfigSources& sources);
// Of what was loaded from the sources, and checked further.
ConfigReport report_config(const ConfigSources& sources, const ConfigResult& result);

}  // namespace rouse
