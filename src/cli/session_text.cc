#include "cli/session_text.h"

#include <algorithm>

#include "cli/record_text.h"
#include "cli/text.h"
#include "cli/times.h"
#include "cli/waiting_text.h"

namespace rouse::cli {
namespace {

using client::MessageView;
using client::SessionView;

// Names on the left, values on the right.
class Facts final {
 public:
    explicit Facts(const Context& context) : context_(context) {}

    void add(const std::string& name, const std::string& value) {
        if (!value.empty()) table_.add({Cell(name, Colour::dim), value});
    }
    void add_time(const std::string& name, Timestamp at) {
        add(name, to_distance(at, context_.now()) + ", " + to_day_and_time(at) + " UTC");
    }
    std::string text() const { return table_.render(context_.terminal); }

 private:
    const Context& context_;
    Table table_;
};

std::string provider_text(const SessionView& session) {
    std::string text = session.agent;
    if (!session.provider.model.empty()) text += " on " + session.provider.model;
    return text;
}

std::string run_text(const client::RunView& run) {
    std::string text = run.run_id.text();
    if (run.outcome) text += " " + *run.outcome;
    if (!run.error.empty()) text += ": " + run.error;
    return text;
}

std::string usage_text(const Usage& usage) {
    if (usage.input_tokens == 0 && usage.output_tokens == 0) return {};
    return std::to_string(usage.input_tokens) + " tokens in, " +
           std::to_string(usage.output_tokens) + " out";
}

std::string heading(const Context& context, const SessionId& id, const std::string& status,
                    const std::string& text) {
    return coloured(id.text(), Colour::bold, context.terminal) + "  " +
           coloured(printable(text), colour_of_status(status), context.terminal) + "\n";
}

// Further lines stand under the first.
std::string under(std::string_view text, std::size_t columns) {
    std::string out;
    for (const char c : text) {
        out += c;
        if (c == '\n') out.append(columns, ' ');
    }
    return out;
}

std::string call_line(const MessageView& message, const ToolUseBlock& call) {
    std::string line = "→ " + call.name + " " + call.input.text();
    const auto part = std::ranges::find(message.parts, call.id, &client::ToolPartView::call_id);
    if (part == message.parts.end()) return line;
    if (part->state.output) return line + " ← " + *part->state.output;
    return line + " (" + part->state.status + ")";
}

std::string message_text(const Context& context, const MessageView& message) {
    constexpr std::size_t kIndent = 11;
    const Terminal& terminal = context.terminal;
    std::string role = printable(message.role);
    role.resize(std::max(role.size(), kIndent), ' ');
    std::vector<std::string> lines;
    if (const std::string text = text_of(message.content); !text.empty()) {
        lines.push_back(under(printable_lines(text), kIndent));
    }
    for (const Block& block : message.content) {
        const auto* call = block.get_if<ToolUseBlock>();
        if (call == nullptr) continue;
        std::string line = printable(call_line(message, *call));
        if (terminal.width > kIndent) line = cut_to(line, terminal.width - kIndent);
        lines.push_back(coloured(line, Colour::cyan, terminal));
    }
    if (message.queued) lines.emplace_back("(not read yet)");
    std::string out = coloured(role, Colour::dim, terminal);
    for (std::size_t i = 0; i < lines.size(); ++i)
        out += (i > 0 ? "\n" + std::string(kIndent, ' ') : "") + lines[i];
    return out + "\n";
}

}  // namespace

std::string status_text(const std::string& status, const std::optional<std::string>& wait_kind) {
    return status == "waiting" && wait_kind ? "waiting for " + *wait_kind : status;
}

std::string way_on(const Context& context, const SessionId& id, const std::string& status) {
    if (status == "interrupted_startup") {
        return id.text() + " was interrupted; let it go on with:\n    " +
               context.command_line("continue " + id.text()) + "\n";
    }
    if (status == "interrupted_waiting") {
        return id.text() + " got no answer in time; go on with it, or ask it anew:\n    " +
               context.command_line("continue " + id.text()) + "\n    " +
               context.command_line("run 'PROMPT' --session " + id.text()) + "\n";
    }
    return {};
}

std::string session_text(const Context& context, const SessionView& session) {
    const std::optional<client::WaitView> wait =
        session.run ? session.run->wait : std::optional<client::WaitView>();
    std::optional<std::string> kind;
    if (wait) kind = wait->kind;
    Facts facts(context);
    facts.add("title", session.title);
    facts.add("agent", provider_text(session));
    facts.add("alias", session.alias.value_or(""));
    facts.add("task", session.task_id.value_or(""));
    if (session.parent) facts.add("parent", session.parent->session_id.text());
    if (session.forked_from) {
        facts.add("fork of", session.forked_from->session_id.text() + " at " +
                                 std::to_string(session.forked_from->at_seq));
    }
    facts.add_time("created", session.created_at);
    facts.add_time("changed", session.updated_at);
    if (session.run) facts.add("run", run_text(*session.run));
    facts.add("usage", usage_text(session.usage));
    facts.add("log", std::to_string(session.last_seq) + " records");
    if (session.queued > 0) facts.add("queued", std::to_string(session.queued) + " messages");
    if (session.damaged) {
        facts.add("damaged", session.damaged->file + " at byte " +
                                 std::to_string(session.damaged->offset) + ": " +
                                 session.damaged->reason);
    }
    std::string text =
        heading(context, session.id, session.status, status_text(session.status, kind)) +
        facts.text();
    if (!session.pending.empty()) text += "\n" + waiting_text(context, session, Ways::command);
    if (const std::string how = way_on(context, session.id, session.status); !how.empty()) {
        text += "\n" + how;
    }
    return text;
}

std::string conversation_text(const Context& context, const client::Conversation& conversation,
                              std::size_t count) {
    const std::vector<MessageView>& items = conversation.items;
    const std::size_t first = items.size() > count ? items.size() - count : 0;
    std::string text;
    if (first > 0 && count > 0) text += "… " + std::to_string(first) + " earlier messages\n";
    for (std::size_t i = first; i < items.size(); ++i)
        text += message_text(context, items[i]);
    return text;
}

std::string explanation_text(const Context& context, const client::Explanation& explanation) {
    std::string text =
        heading(context, explanation.session_id, explanation.status, explanation.status);
    text += printable(explanation.reason) + "\n";
    Facts facts(context);
    if (const auto& wake = explanation.last_wake) {
        facts.add("last woken", to_distance(wake->at, context.now()) + " by " + wake->reason +
                                    " (record " + std::to_string(wake->seq) + ")");
    }
    if (const auto& wait = explanation.wait) {
        for (const client::PendingView& call : wait->pending) {
            facts.add("waits for", call.call_id.text + " " + call.tool + " (" + call.waits_for +
                                       ")" + (call.prompt.empty() ? "" : ": " + call.prompt));
        }
    }
    for (const client::DeadlineView& deadline : explanation.deadlines)
        facts.add(to_distance(deadline.at, context.now()), deadline.what);
    for (const std::string& concern : explanation.concerns)
        facts.add("look out", concern);
    if (const auto& interruption = explanation.interruption) {
        facts.add("interrupted",
                  interruption->reason + (interruption->at
                                              ? ", " + to_distance(*interruption->at, context.now())
                                              : std::string()));
    }
    return text + facts.text() + way_on(context, explanation.session_id, explanation.status);
}

}  // namespace rouse::cli
