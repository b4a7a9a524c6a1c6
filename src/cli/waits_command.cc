#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/commands.h"
#include "cli/names.h"
#include "cli/paging.h"
#include "cli/server_commands.h"
#include "cli/session_text.h"
#include "cli/times.h"
#include "cli/usage.h"
#include "cli/waiting_text.h"

namespace rouse::cli {
namespace {

struct Options {
    std::string session;
    std::string kind;
    client::Page page;
    std::string mode;
};

std::string tools_of(const client::WaitView& wait) {
    std::string text;
    for (const client::PendingView& call : wait.pending)
        text += (text.empty() ? "" : ", ") + call.tool;
    return text;
}

std::string prompt_of(const client::WaitView& wait) {
    return wait.pending.empty() ? wait.prompt : wait.pending.front().prompt;
}

Result<int> list_waits(Context& context, const Options& options) {
    const auto waits = context.client.waits(options.kind, options.page);
    if (!waits) return waits.error();
    if (context.json()) return context.print_json(waits->json);
    Table table({"SESSION", "WAITS FOR", "TOOL", "DEADLINE", "TITLE", "PROMPT"});
    for (const client::WaitView& wait : waits->value.items) {
        table.add({wait.session_id.text(), Cell(wait.kind, Colour::yellow), tools_of(wait),
                   to_deadline(earliest_end(wait.pending, wait.deadline_at), context.now()),
                   wait.title, prompt_of(wait)});
    }
    if (table.empty()) {
        std::cout << "nothing waits\n";
    } else {
        context.print(table);
    }
    say_more(waits->value.next_cursor);
    return kDone;
}

Result<int> explain(Context& context, const Options& options) {
    const Result<SessionId> id = find_session(context.client, options.session);
    if (!id) return id.error();
    const auto explanation = context.client.explain(*id);
    if (!explanation) return explanation.error();
    if (context.json()) return context.print_json(explanation->json);
    std::cout << explanation_text(context, explanation->value);
    return kDone;
}

Result<int> cancel(Context& context, const Options& options) {
    const Result<SessionId> id = find_session(context.client, options.session);
    if (!id) return id.error();
    const auto moved = context.client.cancel(*id, options.mode);
    if (!moved) return moved.error();
    if (context.json()) return context.print_json(moved->json);
    std::cout << "cancelled " << moved->value.run_id.text() << " of " << id->text() << "\n";
    return kDone;
}

}  // namespace

Command add_waits(CLI::App& program, Env env) {
    const auto options = std::make_shared<Options>();
    ServerCommands commands(env);
    CLI::App& waits = commands.add(
        program,
        {"waits", "What all sessions wait for, the earliest deadline first",
         "  rouse waits\n  rouse waits --kind person        what waits for somebody's answer\n"},
        with(options, list_waits));
    waits
        .add_option("--kind", options->kind,
                    "external, person, timer, child, message, tool_result, user_input or chain")
        ->check(one_of({"external", "person", "timer", "child", "message", "tool_result",
                        "user_input", "chain"}));
    add_page_options(waits, options->page);
    const auto add_session = [&](CLI::App& command) {
        command.add_option("session", options->session, "its id, or the beginning of it")
            ->required();
    };
    add_session(commands.add(
        program,
        {"explain", "Why a session is as it is: what it waits for, what woke it, what happens when",
         "  rouse explain 01M7HQKV\n  rouse explain 01M7HQKV --json\n"},
        with(options, explain)));
    CLI::App& cancelling = commands.add(
        program,
        {"cancel", "Cancel what a session does or waits for; the session stays",
         "  rouse cancel 01M7HQKV\n"
         "  rouse cancel 01M7HQKV --mode acknowledge   its agent is told and goes on\n"},
        with(options, cancel));
    add_session(cancelling);
    cancelling.add_option("--mode", options->mode, "discard or acknowledge")
        ->check(one_of({"discard", "acknowledge"}));
    return commands.done();
}

}  // namespace rouse::cli
