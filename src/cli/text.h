#pragma once

// Text from data on its way to a terminal.

#include <cstdint>
#include <string>
#include <string_view>

namespace rouse::cli {

// Characters that control a terminal or the direction of text, and bytes that are no text, become
// visible instead of effective.
std::string printable(std::string_view text);
// "1 session", "2 sessions".
std::string counted(std::uint64_t count, std::string_view what);
// The same, but lines and tabs stay.
std::string printable_lines(std::string_view text);

// How many columns printable text takes.
std::size_t columns_of(std::string_view text);
// At most so many columns; what is cut ends with an ellipsis.
std::string cut_to(std::string_view text, std::size_t columns);

// As one word of a shell's command line.
std::string shell_word(std::string_view text);

}  // namespace rouse::cli
