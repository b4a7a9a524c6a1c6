#include <CLI/CLI.hpp>
#include <iostream>
#include <optional>

#include "cli/commands.h"
#include "cli/names.h"
#include "cli/paging.h"
#include "cli/server_commands.h"
#include "cli/text.h"
#include "cli/times.h"

namespace rouse::cli {
namespace {

struct MailOptions {
    std::string to;
    std::string text;
    client::MailToSend mail;
    std::string session;
    client::Page page{500, {}};
};

Result<void> address(Context& context, const SessionId& id, client::MailToSend& mail) {
    const auto session = context.client.session(id);
    if (!session) return session.error();
    mail.to = id.text();
    if (mail.task_id.empty()) mail.task_id = session->value.task_id.value_or("");
    return {};
}

// The same alias in other tasks than the one that was meant.
std::string aliases_elsewhere(Context& context, const client::MailToSend& mail) {
    client::SessionQuery query;
    query.alias = mail.to;
    const auto found = context.client.sessions(query);
    std::string text;
    for (const client::SessionRow& row :
         found ? found->value.items : std::vector<client::SessionRow>()) {
        if (!row.task_id) continue;
        text += (text.empty() ? "; there is one with --task " : " or --task ") +
                printable(*row.task_id);
    }
    return text;
}

Result<int> send(Context& context, const MailOptions& options) {
    client::MailToSend mail = options.mail;
    mail.to = options.to;
    mail.message = options.text;
    auto sent = context.client.broadcast(mail);
    if (!sent && sent.error().reason == "unknown_alias") {
        // No alias of that task: the id of a session, which is known without its task?
        const Result<SessionId> id = find_session(context.client, mail.to);
        if (!id && mail.to.starts_with(SessionId::kPrefix)) return id.error();
        if (!id) {
            return Error(sent.error().kind, "unknown_alias",
                         sent.error().message + aliases_elsewhere(context, mail));
        }
        if (Result<void> addressed = address(context, *id, mail); !addressed) {
            return addressed.error();
        }
        sent = context.client.broadcast(mail);
    }
    if (!sent) return sent.error();
    if (context.json()) return context.print_json(sent->json);
    for (const client::MailStopView& stop : sent->value.delivered) {
        std::cout << printable(stop.alias) << ": " << printable(stop.action);
        if (!stop.reason.empty()) std::cout << " (" << printable(stop.reason) << ")";
        std::cout << "\n";
    }
    std::cout << sent->value.message_id << "\n";
    return kDone;
}

std::string state_of(const client::LetterView& letter) {
    if (letter.handled) return "answered";
    return letter.presented ? "seen" : "unread";
}

Result<int> show_inbox(Context& context, const MailOptions& options) {
    const Result<SessionId> id = find_session(context.client, options.session);
    if (!id) return id.error();
    const auto inbox = context.client.inbox(*id, options.page);
    if (!inbox) return inbox.error();
    if (context.json()) return context.print_json(inbox->json);
    Table table({"MESSAGE", "FROM", "AGE", "STATE", "TEXT"});
    for (const client::LetterView& letter : inbox->value.items) {
        const std::string age =
            letter.received_at ? to_age(context.now() - *letter.received_at) : "";
        table.add({letter.message_id, letter.from, age, state_of(letter), letter.text});
    }
    if (table.empty()) {
        std::cout << "no mail\n";
    } else {
        context.print(table);
    }
    say_more(inbox->value.next_cursor);
    return kDone;
}

}  // namespace

Command add_mail(CLI::App& program, Env env) {
    const auto options = std::make_shared<MailOptions>();
    ServerCommands commands(env);
    CLI::App& sending =
        commands.add(program,
                     {"send", "Write to an agent by its alias; it wakes if it is idle",
                      "  rouse send build \"Is main green?\"\n"
                      "  rouse send build \"It is red\" --from review --task web\n"},
                     with(options, send));
    sending.add_option("to", options->to, "its alias, or a session's id")->required();
    sending.add_option("text", options->text, "what to say")->required();
    sending.add_option("--task", options->mail.task_id, "the task whose agents are meant");
    sending.add_option("--from", options->mail.from, "the session in whose name you write");
    sending.add_option("--reply-to", options->mail.reply_to, "the message that this answers");
    CLI::App& inbox = commands.add(
        program, {"inbox", "What others wrote to a session's agent", "  rouse inbox 01M7HQKV\n"},
        with(options, show_inbox));
    inbox.add_option("session", options->session, "its id, or the beginning of it")->required();
    add_page_options(inbox, options->page);
    return commands.done();
}

}  // namespace rouse::cli
