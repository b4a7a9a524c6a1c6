#pragma once

// Questions to whoever sits at the terminal.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rouse::cli {

class Prompt {
 public:
    virtual ~Prompt() = default;

    // `text` is printable. Nothing: the input has ended (Ctrl-D). cancelled: Ctrl-C.
    virtual Result<std::optional<std::string>> ask(const std::string& text) = 0;
};

class TerminalPrompt final : public Prompt {
 public:
    // `interrupt` as in ClientOptions.
    explicit TerminalPrompt(int interrupt) : interrupt_(interrupt) {}
    Result<std::optional<std::string>> ask(const std::string& text) override;

 private:
    std::optional<std::string> take_line();

    int interrupt_;
    std::string read_;
    bool ended_ = false;
};

// "y", "yes", "n", "no" in any case; nothing for anything else.
std::optional<bool> read_yes_or_no(std::string_view text);
// A number from 1 on, or the option itself: its place in the list, from 0 on.
std::optional<std::size_t> read_choice(std::string_view text,
                                       const std::vector<std::string>& options);

}  // namespace rouse::cli
