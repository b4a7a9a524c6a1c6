#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/commands.h"
#include "cli/paging.h"
#include "cli/server_commands.h"
#include "cli/text.h"
#include "cli/times.h"
#include "cli/usage.h"

namespace rouse::cli {
namespace {

struct Options {
    std::string name;
    std::string scope;
    std::vector<std::string> tasks;
    std::string id;
    client::Page page{500, {}};
};

std::string joined(const std::vector<std::string>& texts) {
    std::string out;
    for (const std::string& text : texts)
        out += (out.empty() ? "" : ", ") + text;
    return out;
}

Result<int> list(Context& context, const Options& options) {
    const auto tokens = context.client.tokens(options.page);
    if (!tokens) return tokens.error();
    if (context.json()) return context.print_json(tokens->json);
    Table table({"TOKEN", "SCOPE", "AGE", "TASKS", "NAME"});
    for (const client::TokenView& token : tokens->value.items) {
        const std::string age = token.created_at ? to_age(context.now() - *token.created_at) : "";
        table.add({token.id, token.scope, age, token.tasks.empty() ? "all" : joined(token.tasks),
                   token.name});
    }
    if (table.empty()) {
        std::cout << "no tokens but the one in the server's data directory\n";
    } else {
        context.print(table);
    }
    say_more(tokens->value.next_cursor);
    return kDone;
}

// The secret alone goes to standard output, so that TOKEN=$(rouse token create …) works.
Result<int> create(Context& context, const Options& options) {
    const auto made = context.client.create_token(options.name, options.scope, options.tasks);
    if (!made) return made.error();
    if (context.json()) return context.print_json(made->json);
    std::cerr << made->value.id << " may " << made->value.scope << "; it is shown only now:\n";
    std::cout << printable(made->value.token) << "\n";
    return kDone;
}

Result<int> revoke(Context& context, const Options& options) {
    if (const Result<void> done = context.client.revoke_token(options.id); !done) {
        return done.error();
    }
    if (!context.json()) std::cout << "revoked " << printable(options.id) << "\n";
    return kDone;
}

}  // namespace

Command add_tokens(CLI::App& program, Env env) {
    const auto options = std::make_shared<Options>();
    ServerCommands commands(env);
    CLI::App& group =
        commands.add_group(program,
                           {"token", "API tokens of the server; alone, list them",
                            "  rouse token\n  rouse token create ci --scope submit\n"},
                           with(options, list));
    add_page_options(group, options->page);
    add_page_options(
        commands.add(group, {"ls", "List tokens, without their secrets", "  rouse token ls\n"},
                     with(options, list)),
        options->page);
    CLI::App& creating =
        commands.add(group,
                     {"create", "Make a token and print it, this once",
                      "  rouse token create ci --scope submit\n"
                      "  ROUSE_TOKEN=$(rouse token create reader) rouse sessions\n"},
                     with(options, create));
    creating.add_option("name", options->name, "what it is for")->required();
    creating
        .add_option("--scope", options->scope,
                    "read (the default), submit, operate or admin; each includes those before")
        ->check(one_of({"read", "submit", "operate", "admin"}));
    creating
        .add_option("--task", options->tasks, "only for sessions of this task; may be repeated")
        ->allow_extra_args(false);
    CLI::App& revoking =
        commands.add(group, {"revoke", "Make a token worthless", "  rouse token revoke rk_Z9K3\n"},
                     with(options, revoke));
    revoking.add_option("token", options->id, "its id, as the list has it")->required();
    return commands.done();
}

}  // namespace rouse::cli
