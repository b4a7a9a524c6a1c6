#include "cli/paging.h"

#include <iostream>

#include "cli/text.h"
#include "cli/usage.h"

namespace rouse::cli {

void add_page_options(CLI::App& command, client::Page& page, std::size_t most) {
    command.add_option("--limit", page.limit, "how many at most, up to " + std::to_string(most))
        ->check(whole_number(1, most))
        ->capture_default_str();
    command.add_option("--cursor", page.cursor, "go on where a list ended");
}

void say_more(const std::optional<std::string>& next_cursor) {
    if (!next_cursor) return;
    std::cout << "more with --cursor " << shell_word(printable(*next_cursor)) << "\n";
}

}  // namespace rouse::cli
