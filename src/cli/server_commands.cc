#include "cli/server_commands.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>

#include "cli/interrupts.h"
#include "cli/text.h"

namespace rouse::cli {
namespace {

struct ErrorView {
    std::string code;
    std::string detail;
    static constexpr auto fields() {
        return std::tuple(required("code", &ErrorView::code),
                          required("detail", &ErrorView::detail));
    }
};

void add_flags(CLI::App& command, ServerCommandFlags& flags) {
    const std::string group = "Server";
    command.add_option("--url", flags.server.url, "where it is (ROUSE_URL)")->group(group);
    command.add_option("--token", flags.server.token, "its bearer token (ROUSE_TOKEN)")
        ->group(group);
    command.add_option("--token-file", flags.server.token_file, "a file that holds the token")
        ->group(group);
    command
        .add_option("--ca-file", flags.server.ca_file,
                    "certificates to trust instead of the system's (ROUSE_CA_FILE)")
        ->group(group);
    command.add_flag("--json", flags.json, "the server's JSON instead of text");
}

}  // namespace

int Context::print_json(const std::string& json) const {
    std::cout << json << (json.ends_with('\n') ? "" : "\n");
    return kDone;
}

int Context::print(const Table& table) const {
    std::cout << table.render(terminal);
    return kDone;
}

std::string Context::command_line(const std::string& words) const {
    std::string line = "rouse " + words;
    const auto add = [&](const char* name, const std::string& value) {
        if (!value.empty()) line += std::string(" ") + name + " " + shell_word(value);
    };
    add("--url", flags.server.url);
    add("--token-file", flags.server.token_file);
    add("--ca-file", flags.server.ca_file);
    return line;
}

Error usage(std::string message) {
    return {ErrorKind::invalid, "usage", std::move(message)};
}

int report(const Error& error, const std::string& command, const ServerCommandFlags& flags) {
    if (flags.json) {
        std::cout << to_json(ErrorView{std::string(error.reason), error.message}) << "\n";
    }
    std::cout.flush();
    std::cerr << "rouse " << command << ": " << printable(error.message) << "\n";
    if (error.reason == "unauthorized") {
        std::cerr << "Give it with --token-file <data directory>/token, or in ROUSE_TOKEN.\n";
    }
    return error.reason == "usage" ? kUsage : kFailed;
}

int with_server(Env env, const std::string& command, const ServerCommandFlags& flags,
                int interrupts, const std::function<Result<int>(Context&)>& action) {
    const auto variable = [](const char* name) {
        const char* value = std::getenv(name);
        return std::string(value == nullptr ? "" : value);
    };
    Result<client::ServerAddress> server = client::find_server(flags.server, variable, env.fs);
    if (!server) return report(server.error(), command, flags);
    client::Client client({*std::move(server), interrupts});
    Context context{env, look_at_terminal(), flags, client, interrupts};
    const Result<int> code = action(context);
    return code ? *code : report(code.error(), command, flags);
}

CLI::App& ServerCommands::add_entry(CLI::App& parent, const CommandText& text, Entry entry) {
    entry.app = parent.add_subcommand(text.name, text.what);
    entry.name = parent.get_parent() == nullptr ? text.name : parent.get_name() + " " + text.name;
    entry.flags = std::make_shared<ServerCommandFlags>();
    add_flags(*entry.app, *entry.flags);
    entry.app->footer("Examples:\n" + text.examples);
    entries_.push_back(entry);
    return *entry.app;
}

CLI::App& ServerCommands::add(CLI::App& parent, const CommandText& text, Action action,
                              Interrupts interrupts) {
    return add_entry(parent, text, {nullptr, {}, std::move(action), interrupts, false, {}});
}

CLI::App& ServerCommands::add_group(CLI::App& parent, const CommandText& text, Action action) {
    CLI::App& group = add_entry(
        parent, text, {nullptr, {}, std::move(action), Interrupts::end_the_program, true, {}});
    group.require_subcommand(0, 1);
    return group;
}

Command ServerCommands::done() const {
    return [env = env_, entries = entries_] {
        for (const Entry& entry : entries) {
            const bool named = entry.app->parsed();
            if (!named || (entry.is_group && !entry.app->get_subcommands().empty())) continue;
            if (entry.interrupts == Interrupts::end_the_program) {
                return with_server(env, entry.name, *entry.flags, -1, entry.action);
            }
            const InterruptSignals signals;
            return with_server(env, entry.name, *entry.flags, signals.descriptor(), entry.action);
        }
        return -1;
    };
}

}  // namespace rouse::cli
