#include "cli/prompt.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <iostream>

#include "base/utf8.h"

namespace rouse::cli {
namespace {

std::string_view without_blanks(std::string_view text) {
    const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
    while (!text.empty() && is_blank(text.front()))
        text.remove_prefix(1);
    while (!text.empty() && is_blank(text.back()))
        text.remove_suffix(1);
    return text;
}

std::string lower(std::string_view text) {
    std::string out(text);
    std::ranges::transform(out, out.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return out;
}

}  // namespace

std::optional<std::string> TerminalPrompt::take_line() {
    const std::size_t end = read_.find('\n');
    if (end == std::string::npos && !(ended_ && !read_.empty())) return std::nullopt;
    std::string line = read_.substr(0, end);
    read_.erase(0, end == std::string::npos ? end : end + 1);
    return to_utf8(line);
}

Result<std::optional<std::string>> TerminalPrompt::ask(const std::string& text) {
    std::cout.flush();
    std::cerr << text << std::flush;
    for (;;) {
        if (std::optional<std::string> line = take_line()) return line;
        if (ended_) {
            std::cerr << "\n";
            return std::optional<std::string>();
        }
        std::array<pollfd, 2> inputs = {pollfd{STDIN_FILENO, POLLIN, 0},
                                        pollfd{interrupt_, POLLIN, 0}};
        if (::poll(inputs.data(), inputs.size(), -1) < 0 && errno != EINTR) ended_ = true;
        if (inputs[1].revents != 0) {
            return Error(ErrorKind::cancelled, "cancelled", "the question was left");
        }
        if (inputs[0].revents == 0) continue;
        std::array<char, 4096> bytes{};
        const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) ended_ = true;
        if (count > 0) read_.append(bytes.data(), static_cast<std::size_t>(count));
    }
}

std::optional<bool> read_yes_or_no(std::string_view text) {
    const std::string word = lower(without_blanks(text));
    if (word == "y" || word == "yes") return true;
    if (word == "n" || word == "no") return false;
    return std::nullopt;
}

std::optional<std::size_t> read_choice(std::string_view text,
                                       const std::vector<std::string>& options) {
    text = without_blanks(text);
    const auto same = std::ranges::find(options, text);
    if (same != options.end()) return static_cast<std::size_t>(same - options.begin());
    std::size_t number = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = error == std::errc() && rest == text.data() + text.size();
    if (!whole || number < 1 || number > options.size()) return std::nullopt;
    return number - 1;
}

}  // namespace rouse::cli
