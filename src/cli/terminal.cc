#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

namespace rouse::cli {
namespace {

constexpr std::size_t kStandardWidth = 80;

std::string_view variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
}

}  // namespace

Terminal look_at_terminal() {
    Terminal terminal;
    terminal.can_ask = ::isatty(STDIN_FILENO) == 1;
    if (::isatty(STDOUT_FILENO) != 1) return terminal;
    terminal.colours = variable("NO_COLOR").empty() && variable("TERM") != "dumb";
    struct winsize size{};
    const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    terminal.width = known ? size.ws_col : kStandardWidth;
    return terminal;
}

std::string coloured(std::string_view text, Colour colour, const Terminal& terminal) {
    if (!terminal.colours || colour == Colour::plain || text.empty()) return std::string(text);
    std::string_view code;
    switch (colour) {
        case Colour::plain: break;
        case Colour::dim: code = "2"; break;
        case Colour::bold: code = "1"; break;
        case Colour::red: code = "31"; break;
        case Colour::green: code = "32"; break;
        case Colour::yellow: code = "33"; break;
        case Colour::cyan: code = "36"; break;
    }
    return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

Colour colour_of_status(std::string_view status) {
    if (status == "waiting") return Colour::yellow;
    if (status == "running" || status == "processing" || status == "completed") {
        return Colour::green;
    }
    if (status.starts_with("interrupted") || status == "failed" || status == "expired") {
        return Colour::red;
    }
    return Colour::plain;
}

}  // namespace rouse::cli
