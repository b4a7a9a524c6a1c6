#include "cli/answering.h"

#include <algorithm>
#include <iostream>

#include "cli/text.h"

namespace rouse::cli {
namespace {

using client::PendingView;
using Given = Result<std::optional<GivenAnswer>>;
using Line = Result<std::optional<std::string>>;

std::string question_mark(const Terminal& terminal) {
    return coloured("?", Colour::yellow, terminal) + " ";
}

GivenAnswer answered(const client::QuestionAnswer& answer) {
    return {std::nullopt, to_json(answer)};
}

// Says what it is about once and asks until `read` makes something of the line; Ctrl-D gives
// nothing.
template <class T>
Result<std::optional<T>> ask_until(Prompt& prompt, const std::string& about,
                                   const std::string& question,
                                   const std::function<std::optional<T>(std::string_view)>& read) {
    for (std::string text = about + question;; text = question) {
        const Line line = prompt.ask(text);
        if (!line) return line.error();
        if (!*line) return std::optional<T>();
        if (std::optional<T> value = read(**line)) return value;
    }
}

Given ask_confirm(const std::string& heading, Prompt& prompt) {
    const auto yes = ask_until<bool>(prompt, heading, " [y/n] ", read_yes_or_no);
    if (!yes) return yes.error();
    if (!*yes) return std::optional<GivenAnswer>();
    return std::optional(answered({**yes ? "yes" : "no", **yes}));
}

Given ask_select(const std::string& heading, const std::vector<std::string>& options,
                 Prompt& prompt) {
    std::string text = heading + "\n";
    for (std::size_t i = 0; i < options.size(); ++i)
        text += "  " + std::to_string(i + 1) + ") " + printable(options[i]) + "\n";
    const auto read = [&](std::string_view line) { return read_choice(line, options); };
    const auto choice =
        ask_until<std::size_t>(prompt, text, "  1-" + std::to_string(options.size()) + ": ", read);
    if (!choice) return choice.error();
    if (!*choice) return std::optional<GivenAnswer>();
    return std::optional(answered({options[**choice], false}));
}

Given ask_text(const std::string& heading, Prompt& prompt) {
    const Line line = prompt.ask(heading + "\n  > ");
    if (!line) return line.error();
    if (!*line) return std::optional<GivenAnswer>();
    return std::optional(answered({**line, false}));
}

Given ask_question(const client::Question& question, Prompt& prompt, const Terminal& terminal) {
    const std::string heading = question_mark(terminal) + printable_lines(question.question);
    if (question.type == "confirm") return ask_confirm(heading, prompt);
    if (question.type == "select") return ask_select(heading, question.options, prompt);
    return ask_text(heading, prompt);
}

// Everything that is approved is shown, however long.
Given ask_approval(const PendingView& call, Prompt& prompt, const Terminal& terminal) {
    const std::string heading = question_mark(terminal) + printable(call.prompt) + "\n  " +
                                printable(call.tool) + " " + printable(call.input.text());
    const auto yes = ask_until<bool>(prompt, heading + "\n", "  approve? [y/n] ", read_yes_or_no);
    if (!yes) return yes.error();
    if (!*yes) return std::optional<GivenAnswer>();
    client::Decision decision;
    decision.approve = **yes;
    decision.input_digest = call.input_digest;
    if (!decision.approve) {
        const Line why = prompt.ask("  why not? (may be empty) ");
        if (!why) return why.error();
        decision.message = (*why).value_or("");
    }
    return std::optional(GivenAnswer{std::move(decision), {}});
}

Given ask_result(const PendingView& call, Prompt& prompt, const Terminal& terminal) {
    const Line line = prompt.ask(question_mark(terminal) + "the result of " + printable(call.tool) +
                                 " " + printable(call.input.text()) + "\n  (empty: not now) > ");
    if (!line) return line.error();
    if (!*line || (*line)->empty()) return std::optional<GivenAnswer>();
    return std::optional(GivenAnswer{std::nullopt, **line});
}

Result<client::Answer<client::Moved>> send(client::Client& client, const SessionId& session,
                                           const PendingView& call, const GivenAnswer& given) {
    if (given.decision) return client.decide(call.pending_id, *given.decision);
    return client.resume(session, {{call.call_id, text_result(given.result)}});
}

bool was_settled_elsewhere(const Error& error) {
    constexpr std::string_view kReasons[] = {"not_waiting", "conflicting_result",
                                             "no_suspended_turn", "unknown_pending_tool_call",
                                             "unknown_pending_id"};
    return std::ranges::find(kReasons, error.reason) != std::end(kReasons);
}

}  // namespace

Given put_to_person(const PendingView& call, Prompt& prompt, const Terminal& terminal) {
    if (call.asks_approval()) return ask_approval(call, prompt, terminal);
    if (call.tool == "ask_user") {
        const auto question = from_json<client::Question>(call.input.text(), "the question");
        if (question) return ask_question(*question, prompt, terminal);
    }
    return ask_result(call, prompt, terminal);
}

Result<std::optional<Seq>> answer_calls(Context& context, const client::SessionView& session,
                                        WhichCalls which, Prompt& prompt) {
    std::optional<Seq> behind;
    for (const PendingView& call : session.pending) {
        if (which == WhichCalls::for_a_person && call.waits_for != "person") continue;
        const Given given = put_to_person(call, prompt, context.terminal);
        if (!given) return given.error();
        if (!*given) continue;
        const auto moved = send(context.client, session.id, call, **given);
        if (!moved && was_settled_elsewhere(moved.error())) {
            std::cerr << "somebody else was faster: " << printable(moved.error().message) << "\n";
            behind = std::max(behind.value_or(0), session.last_seq);
            continue;
        }
        if (!moved) return moved.error();
        behind = std::max(behind.value_or(0), moved->value.seq);
    }
    return behind;
}

}  // namespace rouse::cli
