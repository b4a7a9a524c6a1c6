#include "cli/waiting_text.h"

#include "cli/text.h"
#include "cli/times.h"

namespace rouse::cli {
namespace {

using client::PendingView;

bool can_be_answered(const PendingView& call) {
    return call.waits_for == "external" || call.waits_for == "person";
}

std::string whom(const PendingView& call) {
    if (call.asks_approval()) return "asks for approval";
    if (call.waits_for == "person") return "waits for a person";
    if (call.waits_for == "external") return "waits for its result";
    if (call.waits_for == "timer") return "waits for its time";
    if (call.waits_for == "child") return "waits for another session";
    if (call.waits_for == "message") return "waits for a message";
    return "waits for " + call.waits_for;
}

std::string what_is_asked(const PendingView& call) {
    const bool asks = call.tool == "ask_user" && !call.prompt.empty();
    return printable(call.tool) +
           (asks ? ": " + printable(call.prompt) : " " + printable(call.input.text()));
}

std::string call_text(const Context& context, const SessionId& session, const PendingView& call,
                      Ways ways) {
    const Terminal& terminal = context.terminal;
    std::string text = "  " + coloured(printable(call.call_id.text), Colour::bold, terminal) +
                       "  " + what_is_asked(call) + "  (" + printable(whom(call));
    if (call.expires_at) text += ", expires " + to_distance(*call.expires_at, context.now());
    text += ")\n";
    if (!can_be_answered(call)) return text;
    text += "    " + rouse_line(context, session, call) + "\n";
    if (ways == Ways::command) return text;
    return text + "    " + curl_line(context.client.server(), call) + "\n";
}

}  // namespace

std::string rouse_line(const Context& context, const SessionId& session, const PendingView& call) {
    const std::string id = shell_word(printable(call.pending_id));
    if (call.asks_approval()) return context.command_line("pending approve " + id);
    const std::string result =
        printable(call.call_id.text) + (call.tool == "ask_user" ? "=ANSWER" : "=TEXT");
    return context.command_line("resume " + session.text() + " --result " + shell_word(result));
}

std::string curl_request(const client::ServerAddress& server, const std::string& target,
                         const std::string& body) {
    const std::string token =
        server.token_file.empty() ? "$ROUSE_TOKEN" : "$(cat " + shell_word(server.token_file) + ")";
    std::string line = "curl -H \"Authorization: Bearer " + token + "\"";
    if (!server.ca_file.empty()) line += " --cacert " + shell_word(server.ca_file);
    if (!body.empty()) line += " -H 'Content-Type: application/json'";
    line += " \\\n      " + shell_word(server.url + target);
    if (!body.empty()) line += " \\\n      -d " + shell_word(body);
    return line;
}

std::string curl_line(const client::ServerAddress& server, const PendingView& call) {
    const std::string id = printable(call.pending_id);
    if (call.asks_approval()) {
        return curl_request(server, "/v1/pending/" + id + "/decision", R"({"decision":"approve"})");
    }
    return curl_request(server, "/async-tool/result",
                        "{\"pendingID\":" + to_json_string(id) + R"(,"result":{"output":"TEXT"}})");
}

std::optional<Timestamp> earliest_end(const std::vector<PendingView>& calls,
                                      const std::optional<Timestamp>& deadline) {
    std::optional<Timestamp> earliest = deadline;
    for (const PendingView& call : calls) {
        if (call.expires_at && (!earliest || *call.expires_at < *earliest)) {
            earliest = call.expires_at;
        }
    }
    return earliest;
}

std::string waiting_text(const Context& context, const client::SessionView& session, Ways ways) {
    std::string text = session.id.text() + " waits";
    std::optional<Timestamp> end;
    if (session.run && session.run->wait) {
        end = earliest_end(session.pending, session.run->wait->deadline_at);
    }
    if (end) {
        text +=
            " until " + to_day_and_time(*end) + " UTC (" + to_distance(*end, context.now()) + ")";
    }
    text += ":\n";
    for (const PendingView& call : session.pending)
        text += call_text(context, session.id, call, ways);
    if (session.run && session.run->wait && !session.run->wait->prompt.empty()) {
        text += "  " + printable(session.run->wait->prompt) + "\n    " +
                context.command_line("run 'go on' --session " + session.id.text()) + "\n";
    }
    return text;
}

}  // namespace rouse::cli
