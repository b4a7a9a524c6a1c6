#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/commands.h"
#include "cli/usage.h"

#ifndef ROUSE_VERSION
#error "the build gives the version"
#endif

namespace rouse::cli {
namespace {

// What nobody could read was not done for whoever asked.
bool said_all() {
    std::cout.flush();
    if (std::cout) return true;
    std::cerr << "rouse: cannot write to standard output: is the disk full, or its reader gone?\n";
    return false;
}

}  // namespace

Command add_version(CLI::App& program, Env /*env*/) {
    CLI::App* command = program.add_subcommand("version", "Print the version");
    return [command] {
        if (!command->parsed()) return -1;
        std::cout << "rouse " << ROUSE_VERSION << "\n";
        return static_cast<int>(kDone);
    };
}

int run(int argc, char** argv, Env env, const std::vector<AddCommand>& more) {
    CLI::App program("Rouse: agent sessions that outlive the process that runs them", "rouse");
    program.require_subcommand(1);
    wrap_help(program);
    program.set_version_flag("--version", "rouse " ROUSE_VERSION, "Print the version");
    program.footer(
        "Examples:\n"
        "  rouse demo                     see a suspend, a kill -9 and a resume\n"
        "  rouse serve                    start a server\n"
        "  rouse run \"Deploy main\"        ask its agent\n"
        "  rouse sessions                 what there is; rouse waits, what it waits for\n\n"
        "rouse COMMAND --help shows examples of each.");
    std::vector<AddCommand> adding = more;
    adding.insert(adding.end(), {add_conversations, add_sessions, add_waits, add_pending, add_mail,
                                 add_tokens, add_verify, add_archives, add_version});
    std::vector<Command> commands;
    commands.reserve(adding.size());
    for (const AddCommand add : adding)
        commands.push_back(add(program, env));
    try {
        program.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        if (error.get_exit_code() == 0) return program.exit(error);  // --help, --version
        std::cerr << usage_text(program, error);
        return kUsage;
    }
    for (const Command& command : commands) {
        const int code = command();
        if (code == kDone && !said_all()) return kFailed;
        if (code >= 0) return code;
    }
    return kUsage;
}

}  // namespace rouse::cli
