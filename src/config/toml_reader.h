#pragma once

// TOML text as values with their places. The only file behind this that knows toml++.

#include <expected>
#include <string>
#include <string_view>

#include "config/value.h"

namespace rouse::config {

struct SyntaxError {
    ConfigPlace place;
    std::string message;
};

std::expected<Table, SyntaxError> read_toml(std::string_view text, const std::string& file_name);

}  // namespace rouse::config
