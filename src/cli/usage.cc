#include "cli/usage.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <sstream>

#include "base/nearest.h"
#include "cli/text.h"

namespace rouse::cli {
namespace {

// The command that the line names, as far as it names one.
const CLI::App& innermost(const CLI::App& program) {
    const CLI::App* app = &program;
    while (!app->get_subcommands().empty())
        app = app->get_subcommands().front();
    return *app;
}

std::string name_of(const CLI::App& app) {
    const CLI::App* parent = app.get_parent();
    return (parent == nullptr ? "" : name_of(*parent) + " ") + app.get_name();
}

std::vector<std::string> commands_of(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
        names.push_back(command->get_name());
    return names;
}

std::vector<std::string> options_of(const CLI::App& app) {
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options()) {
        for (const std::string& name : option->get_lnames())
            names.push_back("--" + name);
    }
    return names;
}

std::string unknown_option(const CLI::App& app, const std::string& option) {
    const std::string name = option.substr(0, option.find('='));
    if (is_one_of(name, options_of(app))) {
        return printable(name) + " stands behind the command: " + name_of(app) + " " +
               printable(name) + " …";
    }
    const auto meant = nearest(name, options_of(app));
    return "there is no option " + printable(name) +
           (meant ? ", did you mean " + *meant + "?" : "");
}

std::string unknown_command(const CLI::App& app, const std::string& command) {
    const std::string text = "there is no command '" + printable(command) + "'";
    if (const auto meant = nearest(command, commands_of(app))) {
        return text + ", did you mean '" + name_of(app) + " " + *meant + "'?";
    }
    std::string elsewhere;
    for (const CLI::App* group : app.get_subcommands([](const CLI::App*) { return true; })) {
        if (is_one_of(command, commands_of(*group))) {
            elsewhere += (elsewhere.empty() ? "" : " or ") + ("'" + name_of(*group)) + " " +
                         printable(command) + "'";
        }
    }
    if (!elsewhere.empty()) return text + ", did you mean " + elsewhere + "?";
    if (app.get_parent() == nullptr) return text;
    std::string listed;
    for (const std::string& name : commands_of(app))
        listed += (listed.empty() ? "" : ", ") + name;
    return text + "; there are: " + listed;
}

std::string unexpected(const CLI::App& app, const std::vector<std::string>& words) {
    const auto option = std::ranges::find_if(
        words, [](const std::string& word) { return word.size() > 1 && word.starts_with('-'); });
    if (option != words.end()) return unknown_option(app, *option);
    if (!commands_of(app).empty()) return unknown_command(app, words.front());
    return "'" + printable(words.front()) +
           "' is one word too many; text of several words stands in quotes";
}

// CLI11 does not break lines.
class WrappedHelp final : public CLI::Formatter {
 public:
    std::string make_option_desc(const CLI::Option* option) const override {
        return wrapped(CLI::Formatter::make_option_desc(option));
    }
    std::string make_subcommand(const CLI::App* command) const override {
        std::ostringstream out;
        CLI::detail::format_help(out, command->get_name(), wrapped(command->get_description()),
                                 get_column_width());
        return out.str();
    }

 private:
    std::string wrapped(const std::string& text) const {
        constexpr std::size_t kColumns = 80;
        const std::size_t width = kColumns - get_column_width();
        std::istringstream words(text);
        std::string out;
        std::size_t used = 0;
        for (std::string word; words >> word;) {
            const std::size_t columns = columns_of(word);
            if (used > 0 && used + 1 + columns > width) {
                out += '\n';
                used = 0;
            } else if (used > 0) {
                out += ' ';
                ++used;
            }
            out += word;
            used += columns;
        }
        return out;
    }
};

}  // namespace

void wrap_help(CLI::App& program) {
    program.formatter(std::make_shared<WrappedHelp>());
}

CLI::Validator not_empty() {
    return CLI::Validator(
        [](std::string& given) { return std::string(given.empty() ? "must not be empty" : ""); },
        "");
}

CLI::Validator whole_number(std::uint64_t least, std::uint64_t most) {
    const auto check = [least, most](const std::string& text) {
        std::uint64_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        const bool whole = error == std::errc() && end == text.data() + text.size();
        if (whole && value >= least && value <= most) return std::string();
        return "must be a whole number from " + std::to_string(least) +
               (most == kMostCounted ? " on" : " to " + std::to_string(most)) + ", not '" +
               printable(text) + "'";
    };
    return {check, ""};
}

CLI::Validator one_of(const std::vector<std::string>& names) {
    const auto check = [names](const std::string& text) {
        if (is_one_of(text, names)) return std::string();
        const auto meant = nearest(text, names);
        return "must be " + alternatives(names) + ", not '" + printable(text) + "'" +
               (meant ? "; did you mean " + *meant + "?" : "");
    };
    return {check, ""};
}

std::string usage_text(const CLI::App& program, const CLI::ParseError& error) {
    const CLI::App& app = innermost(program);
    const std::string name = name_of(app);
    const std::vector<std::string> words = program.remaining(true);
    const bool needs_command = app.get_require_subcommand_min() > 0;
    if (needs_command && words.empty()) return program.help();
    const bool is_extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
    const std::string what =
        (is_extra || needs_command) && !words.empty() ? unexpected(app, words) : error.what();
    return name + ": " + what + "\n'" + name + " --help' shows how it is called.\n";
}

}  // namespace rouse::cli
