#pragma once

// What only trying shows of the models that a configuration names.

#include <map>
#include <string>
#include <vector>

#include "config/load.h"

namespace rouse::app {

struct ModelChecks {
    std::vector<ConfigMistake> mistakes;  // scripts that cannot be read or played
    std::vector<ConfigMistake> warnings;  // keys that are not set here; the server may have them
};

// `result` may have mistakes: what could not be read of it is left out.
ModelChecks check_models(const ConfigResult& result,
                         const std::map<std::string, std::string>& environment);

}  // namespace rouse::app
