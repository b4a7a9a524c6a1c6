#pragma once

// The configuration as text: the one in effect, and what can be set at all.

#include <string>
#include <vector>

#include "config/config.h"
#include "config/place.h"

namespace rouse {

// TOML that load_config reads back to an equal Config, given the same environment. Each value that
// is no default has a comment that says where it came from. Of secrets only the names of their
// variables are printed.
std::string print_config(const Config& config, const ConfigOrigins& origins);

// What is set otherwise in one of them: keys such as server.listen, and lists such as webhooks.
std::vector<std::string> changed_keys(const Config& was, const Config& now);

// The tables of docs/configuration.md, as Markdown.
std::string print_config_reference();

}  // namespace rouse
