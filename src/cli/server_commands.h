#pragma once

// Commands that ask a server: their common flags, how they are added to the program, and what each
// gets when it runs.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "client/client.h"

namespace rouse::cli {

struct ServerCommandFlags {
    client::ServerFlags server;
    bool json = false;
};

// What a command works with.
struct Context {
    Env& env;
    Terminal terminal;
    ServerCommandFlags flags;
    client::Client& client;
    int interrupt = -1;  // as the client has it

    bool json() const { return flags.json; }
    Timestamp now() const { return env.clock.now(); }
    // The server's JSON as it is.
    int print_json(const std::string& json) const;
    int print(const Table& table) const;
    // With the flags that make it reach the same server.
    std::string command_line(const std::string& words) const;
};

// Says on standard error what is wrong, with --json also on standard output; gives the exit code.
int report(const Error& error, const std::string& command, const ServerCommandFlags& flags);

Error usage(std::string message);

// `interrupts` is a descriptor as in ClientOptions, or -1.
int with_server(Env env, const std::string& command, const ServerCommandFlags& flags,
                int interrupts, const std::function<Result<int>(Context&)>& action);

struct CommandText {
    std::string name;
    std::string what;
    std::string examples;  // whole lines
};

class ServerCommands final {
 public:
    using Action = std::function<Result<int>(Context&)>;
    enum class Interrupts : std::uint8_t { end_the_program, reach_the_command };

    explicit ServerCommands(Env env) : env_(env) {}

    CLI::App& add(CLI::App& parent, const CommandText& text, Action action,
                  Interrupts interrupts = Interrupts::end_the_program);
    // A command of commands; alone, it does `action`.
    CLI::App& add_group(CLI::App& parent, const CommandText& text, Action action);

    // Runs the one that was named.
    Command done() const;

 private:
    struct Entry {
        CLI::App* app;
        std::string name;
        Action action;
        Interrupts interrupts;
        bool is_group;
        std::shared_ptr<ServerCommandFlags> flags;
    };
    CLI::App& add_entry(CLI::App& parent, const CommandText& text, Entry entry);

    Env env_;
    std::vector<Entry> entries_;
};

// An action on the options that the command line fills in before it runs.
template <class Options>
ServerCommands::Action with(std::shared_ptr<Options> options,
                            Result<int> (*action)(Context&, const Options&)) {
    return [options = std::move(options), action](Context& context) {
        return action(context, *options);
    };
}

}  // namespace rouse::cli
