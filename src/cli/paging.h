#pragma once

// Lists that come in pages.

#include <optional>
#include <string>

#include "cli/commands.h"
#include "client/client.h"

namespace rouse::cli {

// --limit, up to `most`, and --cursor.
void add_page_options(CLI::App& command, client::Page& page, std::size_t most = 500);

// Under a list: that there is more, and how to get it.
void say_more(const std::optional<std::string>& next_cursor);

}  // namespace rouse::cli
