#pragma once

// What the output goes to, and how it may look there.

#include <cstdint>
#include <string>
#include <string_view>

namespace rouse::cli {

struct Terminal {
    bool colours = false;
    std::size_t width = 0;  // in columns; 0: it is no terminal, and nothing is cut
    bool can_ask = false;   // somebody sits at the input
};

// Standard output's, with NO_COLOR and TERM=dumb respected.
Terminal look_at_terminal();

enum class Colour : std::uint8_t { plain, dim, bold, red, green, yellow, cyan };

// `text` is printable already.
std::string coloured(std::string_view text, Colour colour, const Terminal& terminal);

// Of a session's or a call's status.
Colour colour_of_status(std::string_view status);

}  // namespace rouse::cli
