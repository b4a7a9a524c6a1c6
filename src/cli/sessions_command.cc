#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/commands.h"
#include "cli/names.h"
#include "cli/paging.h"
#include "cli/record_text.h"
#include "cli/server_commands.h"
#include "cli/session_text.h"
#include "cli/text.h"
#include "cli/times.h"
#include "cli/usage.h"

namespace rouse::cli {
namespace {

constexpr std::size_t kLogPage = 1000;

struct Options {
    client::SessionQuery query;
    std::string session;
    std::vector<std::string> sessions;
    std::size_t messages = 6;
    Seq from_seq = 1;
    std::size_t limit = 0;
    Seq at_seq = 0;
    std::string title;
};

Result<int> list(Context& context, const Options& options) {
    const auto list = context.client.sessions(options.query);
    if (!list) return list.error();
    if (context.json()) return context.print_json(list->json);
    Table table({"SESSION", "STATUS", "AGE", "AGENT", "TITLE"});
    for (const client::SessionRow& row : list->value.items) {
        table.add({row.id.text(),
                   Cell(status_text(row.status, row.wait_kind), colour_of_status(row.status)),
                   to_age(context.now() - row.updated_at), row.agent, row.title});
    }
    if (table.empty()) {
        std::cout << "no sessions; make one with: rouse run \"…\"\n";
        return kDone;
    }
    context.print(table);
    say_more(list->value.next_cursor);
    return kDone;
}

Result<int> show(Context& context, const Options& options) {
    const Result<SessionId> id = find_session(context.client, options.session);
    if (!id) return id.error();
    const auto session = context.client.session(*id);
    if (!session) return session.error();
    if (context.json()) return context.print_json(session->json);
    std::cout << session_text(context, session->value);
    if (options.messages == 0) return kDone;
    const auto said = context.client.messages(*id);
    if (!said) return said.error();
    const std::string text = conversation_text(context, said->value, options.messages);
    if (!text.empty()) std::cout << "\n" << text;
    return kDone;
}

Result<void> add_records(Table& table, const client::LogPage& page) {
    for (const RawJson& record : page.items) {
        const Result<RecordLine> line = to_line(record.text());
        if (!line) return line.error();
        table.add({std::to_string(line->seq), to_day_and_time(line->at), line->kind, line->what});
    }
    return {};
}

Result<int> log(Context& context, const Options& options) {
    const Result<SessionId> id = find_session(context.client, options.session);
    if (!id) return id.error();
    Table table({"SEQ", "TIME (UTC)", "RECORD", ""});
    std::size_t left = options.limit > 0 ? options.limit : std::numeric_limits<std::size_t>::max();
    Seq from = options.from_seq;
    while (left > 0) {
        const std::size_t count = std::min(left, kLogPage);
        const auto page = context.client.log(*id, from, count);
        if (!page) return page.error();
        if (context.json()) {
            for (const RawJson& record : page->value.items)
                std::cout << record.text() << "\n";
        } else if (Result<void> added = add_records(table, page->value); !added) {
            return added.error();
        }
        if (!page->value.next_seq) break;
        left -= std::min(left, page->value.items.size());
        from = *page->value.next_seq;
    }
    return context.json() ? kDone : context.print(table);
}

Result<int> fork(Context& context, const Options& options) {
    const Result<SessionId> id = find_session(context.client, options.session);
    if (!id) return id.error();
    std::optional<Seq> at_seq;
    if (options.at_seq > 0) at_seq = options.at_seq;
    const auto made = context.client.fork(*id, at_seq, options.title);
    if (!made) return made.error();
    if (context.json()) return context.print_json(made->json);
    std::cout << made->value.id.text() << "\n";
    return kDone;
}

Result<int> remove(Context& context, const Options& options) {
    for (const std::string& name : options.sessions) {
        const Result<SessionId> id = find_session(context.client, name);
        if (!id) return id.error();
        if (const Result<void> removed = context.client.remove(*id); !removed) {
            return removed.error();
        }
        if (!context.json()) std::cout << "removed " << id->text() << "\n";
    }
    return kDone;
}

void add_list_options(CLI::App& command, Options& options) {
    command
        .add_option("--status", options.query.status,
                    "idle, running, waiting, interrupted_waiting or interrupted_startup")
        ->check(
            one_of({"idle", "running", "waiting", "interrupted_waiting", "interrupted_startup"}));
    command.add_option("--agent", options.query.agent, "of this agent");
    command.add_option("--task", options.query.task_id, "of this task");
    add_page_options(command, options.query.page);
}

void add_session(CLI::App& command, Options& options) {
    command.add_option("session", options.session, "its id, or the beginning of it")->required();
}

using SharedOptions = std::shared_ptr<Options>;

void add_reading(CLI::App& group, ServerCommands& commands, const SharedOptions& options) {
    add_list_options(commands.add(group,
                                  {"ls", "List sessions, newest first",
                                   "  rouse sessions ls\n  rouse sessions ls --status waiting\n"
                                   "  rouse sessions ls --json | jq -r '.items[].id'\n"},
                                  with(options, list)),
                     *options);
    CLI::App& showing = commands.add(
        group,
        {"show", "One session: what it does, what it waits for, what was said last",
         "  rouse sessions show 01M7HQKV\n  rouse sessions show 01M7HQKV --messages 100\n"},
        with(options, show));
    add_session(showing, *options);
    showing.add_option("--messages", options->messages, "how many of the last messages")
        ->check(whole_number(0))
        ->capture_default_str();
    CLI::App& logging =
        commands.add(group,
                     {"log", "The records of its log, oldest first; as JSON one to a line",
                      "  rouse sessions log 01M7HQKV\n  rouse sessions log 01M7HQKV --from-seq 5\n"
                      "  rouse sessions log 01M7HQKV --json > session.jsonl\n"},
                     with(options, log));
    add_session(logging, *options);
    logging.add_option("--from-seq", options->from_seq, "the first record")
        ->check(whole_number(1))
        ->capture_default_str();
    logging.add_option("--limit", options->limit, "how many at most")->check(whole_number(1));
}

void add_changing(CLI::App& group, ServerCommands& commands, const SharedOptions& options) {
    CLI::App& forking =
        commands.add(group,
                     {"fork", "A session of its own with the same past; prints its id",
                      "  rouse sessions fork 01M7HQKV --title \"another way\"\n"
                      "  rouse sessions fork 01M7HQKV --at-seq 4\n"},
                     with(options, fork));
    add_session(forking, *options);
    forking.add_option("--at-seq", options->at_seq, "the last record that it takes over")
        ->check(whole_number(1));
    forking.add_option("--title", options->title, "of the new session");
    CLI::App& removing = commands.add(
        group,
        {"rm", "Cancel what they wait for and remove sessions", "  rouse sessions rm 01M7HQKV\n"},
        with(options, remove));
    removing.add_option("sessions", options->sessions, "their ids, or the beginnings of them")
        ->required();
}

}  // namespace

Command add_sessions(CLI::App& program, Env env) {
    const auto options = std::make_shared<Options>();
    ServerCommands commands(env);
    CLI::App& group = commands.add_group(program,
                                         {"sessions", "Look at sessions; alone, list them",
                                          "  rouse sessions\n  rouse sessions show 01M7HQKV\n"},
                                         with(options, list));
    add_list_options(group, *options);
    add_reading(group, commands, options);
    add_watch(group, commands);
    add_changing(group, commands, options);
    return commands.done();
}

}  // namespace rouse::cli
