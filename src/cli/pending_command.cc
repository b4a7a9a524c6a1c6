#include <CLI/CLI.hpp>
#include <iostream>
#include <iterator>

#include "cli/commands.h"
#include "cli/names.h"
#include "cli/paging.h"
#include "cli/server_commands.h"
#include "cli/text.h"
#include "cli/times.h"
#include "cli/usage.h"

namespace rouse::cli {
namespace {

struct Options {
    std::string session;
    std::string status;
    client::Page page{1000, {}};
    std::string call;
    std::string text;
    std::string title;
    std::optional<std::string> input;
    std::string message;
};

std::optional<Timestamp> expiry_of(const client::CallView& call) {
    if (!call.timeout) return std::nullopt;
    return from_epoch_ms(*call.timeout);
}

Result<int> list(Context& context, const Options& options) {
    std::optional<SessionId> session;
    if (!options.session.empty()) {
        Result<SessionId> id = find_session(context.client, options.session);
        if (!id) return id.error();
        session = *std::move(id);
    }
    const auto calls = context.client.calls(session, options.status, options.page);
    if (!calls) return calls.error();
    if (context.json()) return context.print_json(calls->json);
    Table table({"PENDING", "TOOL", "STATUS", "FOR", "AGE", "EXPIRES", "SESSION", "PROMPT"});
    for (const client::CallView& call : calls->value.pending) {
        table.add(
            {short_call_id(call.id), call.tool, Cell(call.status, colour_of_status(call.status)),
             call.waits_for, to_age(context.now() - from_epoch_ms(call.time.created)),
             to_deadline(expiry_of(call), context.now()), call.session_id.text(), call.prompt});
    }
    if (table.empty()) {
        std::cout << "no pending calls\n";
    } else {
        context.print(table);
    }
    say_more(calls->value.next_cursor);
    return kDone;
}

std::string progress_text(const Progress& progress) {
    std::string text = progress.percent ? std::to_string(*progress.percent) + "% " : "";
    return text + progress.message;
}

Result<int> show(Context& context, const Options& options) {
    const Result<std::string> id = find_call(context.client, options.call);
    if (!id) return id.error();
    const auto found = context.client.call(*id);
    if (!found) return found.error();
    if (context.json()) return context.print_json(found->json);
    const client::CallView& call = found->value.pending;
    Table table;
    const auto add = [&](const char* name, const std::string& value) {
        if (!value.empty()) table.add({Cell(name, Colour::dim), value});
    };
    add("pending", call.id);
    add("session", call.session_id.text());
    add("call", call.call_id.text);
    add("tool", call.tool);
    add("input", call.input.text());
    table.add({Cell("status", Colour::dim), Cell(call.status, colour_of_status(call.status))});
    add("waits for", call.waits_for);
    add("prompt", call.prompt);
    add("worker", call.worker);
    add("reference", call.external_ref);
    if (call.progress) add("progress", progress_text(*call.progress));
    const Timestamp now = context.now();
    add("created", to_distance(from_epoch_ms(call.time.created), now));
    if (call.time.completed) add("settled", to_distance(from_epoch_ms(*call.time.completed), now));
    if (!call.time.completed) add("expires", to_deadline(expiry_of(call), now));
    if (call.result) add("result", call.result->output);
    add("error", call.error);
    Terminal uncut = context.terminal;
    uncut.width = 0;
    std::cout << table.render(uncut);
    return kDone;
}

int say_settled(const Context& context, const client::Answer<client::Settled>& settled) {
    if (context.json()) return context.print_json(settled.json);
    std::cout << (settled.value.duplicate ? "known already, nothing changes: " : "accepted: ")
              << settled.value.session_id.text() << "\n";
    return kDone;
}

std::string read_text(const std::string& given) {
    if (given != "-") return given;
    return {std::istreambuf_iterator<char>(std::cin), {}};
}

Result<int> complete(Context& context, const Options& options) {
    const Result<std::string> id = find_call(context.client, options.call);
    if (!id) return id.error();
    const auto settled = context.client.complete(*id, read_text(options.text), options.title);
    if (!settled) return settled.error();
    return say_settled(context, *settled);
}

Result<int> fail(Context& context, const Options& options) {
    const Result<std::string> id = find_call(context.client, options.call);
    if (!id) return id.error();
    const auto settled = context.client.fail(*id, read_text(options.text));
    if (!settled) return settled.error();
    return say_settled(context, *settled);
}

Result<int> cancel(Context& context, const Options& options) {
    const Result<std::string> id = find_call(context.client, options.call);
    if (!id) return id.error();
    const auto settled = context.client.cancel_call(*id);
    if (!settled) return settled.error();
    return say_settled(context, *settled);
}

Result<int> decide(Context& context, const Options& options, const client::Decision& decision) {
    const Result<std::string> id = find_call(context.client, options.call);
    if (!id) return id.error();
    const auto moved = context.client.decide(*id, decision);
    if (!moved) return moved.error();
    if (context.json()) return context.print_json(moved->json);
    std::cout << (decision.approve ? "approved: " : "denied: ") << moved->value.session_id.text()
              << "\n";
    return kDone;
}

Result<int> approve(Context& context, const Options& options) {
    client::Decision decision;
    decision.approve = true;
    if (options.input) {
        Result<RawJson> input = RawJson::parse(*options.input);
        if (!input) return usage("--input is not JSON: " + input.error().message);
        std::vector<JsonMember> members;
        if (!split_object(input->text(), members)) {
            return usage("--input is not a JSON object, which a tool's input is");
        }
        decision.input = *std::move(input);
    }
    return decide(context, options, decision);
}

Result<int> deny(Context& context, const Options& options) {
    client::Decision decision;
    decision.message = options.message;
    return decide(context, options, decision);
}

void add_list_options(CLI::App& command, Options& options) {
    command.add_option("--session", options.session, "of this session");
    command.add_option("--status", options.status, "instead of those that are open")
        ->check(one_of({"waiting", "processing", "completed", "failed", "expired", "cancelled"}));
    add_page_options(command, options.page, 1000);
}

void add_call(CLI::App& command, Options& options) {
    command.add_option("pending", options.call, "its id, whole or as the list has it")->required();
}

using SharedOptions = std::shared_ptr<Options>;

void add_settling(CLI::App& group, ServerCommands& commands, const SharedOptions& options) {
    CLI::App& completing =
        commands.add(group,
                     {"complete", "Give the result",
                      "  rouse pending complete 5E5KR24EAY \"the preview is up\"\n"
                      "  make report | rouse pending complete 5E5KR24EAY -\n"},
                     with(options, complete));
    add_call(completing, *options);
    completing.add_option("result", options->text, "its text; - reads standard input")->required();
    completing.add_option("--title", options->title, "a few words for people");
    CLI::App& failing = commands.add(
        group,
        {"fail", "Say that it failed", "  rouse pending fail 5E5KR24EAY \"no such branch\"\n"},
        with(options, fail));
    add_call(failing, *options);
    failing.add_option("error", options->text, "what the agent is told; - reads standard input")
        ->required();
    add_call(commands.add(group,
                          {"cancel", "Cancel it; its agent is told and goes on",
                           "  rouse pending cancel 5E5KR24EAY\n"},
                          with(options, cancel)),
             *options);
}

void add_deciding(CLI::App& group, ServerCommands& commands, const SharedOptions& options) {
    CLI::App& approving =
        commands.add(group,
                     {"approve", "Let a call run that asks for approval",
                      "  rouse pending approve 5E5KR24EAY\n"
                      "  rouse pending approve 5E5KR24EAY --input '{\"table\":\"logs\"}'\n"},
                     with(options, approve));
    add_call(approving, *options);
    approving.add_option("--input", options->input, "JSON: run it with this input instead");
    CLI::App& denying =
        commands.add(group,
                     {"deny", "Do not let it run; its agent is told and goes on",
                      "  rouse pending deny 5E5KR24EAY --message \"not on a Friday\"\n"},
                     with(options, deny));
    add_call(denying, *options);
    denying.add_option("--message", options->message, "why");
}

}  // namespace

Command add_pending(CLI::App& program, Env env) {
    const auto options = std::make_shared<Options>();
    ServerCommands commands(env);
    CLI::App& group = commands.add_group(
        program,
        {"pending", "Tool calls whose result comes later; alone, list them",
         "  rouse pending\n  rouse pending complete 5E5KR24EAY \"the preview is up\"\n"},
        with(options, list));
    add_list_options(group, *options);
    add_list_options(commands.add(group,
                                  {"ls", "List open calls",
                                   "  rouse pending ls\n  rouse pending ls --session 01M7HQKV\n"},
                                  with(options, list)),
                     *options);
    add_call(commands.add(group,
                          {"show", "One call, with its input and, later, its result",
                           "  rouse pending show 5E5KR24EAY\n"},
                          with(options, show)),
             *options);
    add_settling(group, commands, options);
    add_deciding(group, commands, options);
    return commands.done();
}

}  // namespace rouse::cli
