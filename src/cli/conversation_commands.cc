#include <CLI/CLI.hpp>
#include <iostream>
#include <iterator>

#include "cli/answering.h"
#include "cli/commands.h"
#include "cli/follower.h"
#include "cli/names.h"
#include "cli/server_commands.h"
#include "cli/session_text.h"
#include "cli/text.h"
#include "cli/usage.h"
#include "cli/waiting_text.h"

namespace rouse::cli {
namespace {

constexpr std::size_t kTitleColumns = 60;

struct Options {
    std::string prompt;
    std::string agent;
    std::string model;
    std::string session;
    std::string title;
    std::string on_waiting = "reject";
    std::vector<std::string> results;
    bool detach = false;
    bool wait = false;
};

using MovedAnswer = Result<client::Answer<client::Moved>>;

// A session that somebody at a terminal, or a script, goes along with.
class Attended final {
 public:
    // `from` is the first record that is shown.
    Attended(Context& context, const Options& options, const client::SessionView& session, Seq from)
        : context_(context),
          options_(options),
          id_(session.id),
          prompt_(context.interrupt),
          follower_({std::cout, std::cerr, context.terminal, context.json()}),
          events_(context.client.follow(session.id, from)) {
        follower_.begin_at(session);
    }

    // Does `move` once nothing that follows from it can be missed, and shows what comes of it.
    Result<int> run(const std::function<MovedAnswer()>& move) {
        if (Result<void> live = follower_.catch_up(events_); !live) return leave(live.error());
        const MovedAnswer moved = move();
        if (!moved) return moved.error();
        const client::Moved& now = moved->value;
        if (!now.queued) {
            follower_.follow_run(now.run_id, now.seq);
        } else {
            follower_.follow_next_run(now.seq);
            if (!context_.json()) {
                std::cerr << "the session is busy; what you say is read when that is over\n";
            }
        }
        return attend(now.seq);
    }

    // Puts all open calls to the person first.
    Result<int> answer_and_run(const client::SessionView& session) {
        if (Result<void> live = follower_.catch_up(events_); !live) return leave(live.error());
        const auto behind = answer_calls(context_, session, WhichCalls::all, prompt_);
        if (!behind) return leave_waiting(behind.error());
        if (session.run) follower_.follow_run(session.run->run_id, session.last_seq);
        return *behind ? attend(**behind) : show_wait(session);
    }

 private:
    Result<int> attend(Seq behind) {
        for (;;) {
            const Result<FollowEnd> end = follower_.follow(events_, behind);
            if (!end) return leave(end.error());
            if (end->status != "waiting") return conclude(*end);
            const auto session = context_.client.session(id_);
            if (!session) return leave(session.error());
            behind = session->value.last_seq;
            if (session->value.status != "waiting") continue;  // it went on meanwhile
            std::optional<Seq> answered;
            const bool is_ours =
                session->value.run && follower_.follows(session->value.run->run_id);
            if (is_ours && context_.terminal.can_ask && !context_.json()) {
                const auto given =
                    answer_calls(context_, session->value, WhichCalls::for_a_person, prompt_);
                if (!given) return leave_waiting(given.error());
                answered = *given;
            }
            if (!answered && !options_.wait) return show_wait(session->value);
            behind = answered.value_or(behind + 1);
        }
    }

    int conclude(const FollowEnd& end) const {
        if (!end.failure.empty()) {
            std::cerr << coloured(printable(end.failure), Colour::red, context_.terminal) << "\n";
            return kFailed;
        }
        if (end.status == "idle") return kDone;
        std::cerr << way_on(context_, id_, end.status);
        return kFailed;
    }

    int show_wait(const client::SessionView& session) const {
        if (!context_.json()) {
            std::cout << waiting_text(context_, session, Ways::command_and_request);
        }
        return kDone;
    }

    // Ctrl-C leaves the session as it is; whatever else went wrong is the command's error.
    Result<int> leave(const Error& error) const {
        if (error.kind != ErrorKind::cancelled) return error;
        std::cerr << "\nleft " << id_.text() << "; it goes on without you.\n  "
                  << context_.command_line("sessions watch " + id_.text()) << "\n  "
                  << context_.command_line("cancel " + id_.text()) << "\n";
        return kFailed;
    }

    Result<int> leave_waiting(const Error& error) const {
        if (error.kind != ErrorKind::cancelled) return error;
        std::cerr << "\nleft " << id_.text() << "; it waits for an answer.\n  "
                  << context_.command_line("resume " + id_.text()) << "\n  "
                  << context_.command_line("cancel " + id_.text()) << "\n";
        return kFailed;
    }

    Context& context_;
    const Options& options_;
    SessionId id_;
    TerminalPrompt prompt_;
    Follower follower_;
    client::EventStream events_;
};

// Shows what comes of it, or with --detach only that it was begun.
Result<int> move_on(Context& context, const Options& options, const client::SessionView& session,
                    Seq from, const std::function<MovedAnswer()>& move) {
    if (!options.detach) return Attended(context, options, session, from).run(move);
    const MovedAnswer moved = move();
    if (!moved) return moved.error();
    if (context.json()) {
        return context.print_json("{\"session_id\":" + to_json_string(session.id.text()) + "," +
                                  moved->json.substr(moved->json.find('{') + 1));
    }
    std::cout << session.id.text() << "\n";
    return kDone;
}

Result<client::Answer<client::SessionView>> open_session(Context& context, const Options& options,
                                                         const std::string& prompt) {
    if (!options.session.empty()) {
        const Result<SessionId> id = find_session(context.client, options.session);
        if (!id) return id.error();
        return context.client.session(*id);
    }
    client::NewSession session;
    session.agent = options.agent;
    if (!options.model.empty()) {
        const std::size_t colon = options.model.find(':');
        if (colon == std::string::npos || colon == 0 || colon + 1 == options.model.size()) {
            return usage("--model is anthropic:MODEL or openai:MODEL, not '" + options.model + "'");
        }
        session.provider_type = options.model.substr(0, colon);
        session.provider_model = options.model.substr(colon + 1);
    }
    session.title = options.title;
    if (session.title.empty()) {
        session.title = cut_to(printable(prompt.substr(0, prompt.find('\n'))), kTitleColumns);
    }
    return context.client.create_session(session);
}

Result<int> run_prompt(Context& context, const Options& options) {
    if (!options.session.empty() && !(options.agent + options.model + options.title).empty()) {
        return usage("--agent, --model and --title are for new sessions; leave out --session");
    }
    std::string prompt = options.prompt;
    if (prompt == "-") prompt = {std::istreambuf_iterator<char>(std::cin), {}};
    if (prompt.empty()) return usage("there is nothing to say: give a prompt");
    const auto session = open_session(context, options, prompt);
    if (!session) return session.error();
    const SessionId id = session->value.id;
    const bool is_new = options.session.empty();
    const Seq from = is_new ? 1 : session->value.last_seq + 1;
    const auto say = [&] {
        const MovedAnswer said = context.client.send_message(id, prompt, options.on_waiting);
        // Nobody wants an empty session that nothing can be said in.
        if (!said && is_new && said.error().kind == ErrorKind::invalid) {
            (void)context.client.remove(id);
        }
        return said;
    };
    return move_on(context, options, session->value, from, say);
}

Result<client::CallResults> read_results(const std::vector<std::string>& given) {
    client::CallResults results;
    for (const std::string& one : given) {
        const std::size_t at = one.find('=');
        if (at == std::string::npos || at == 0) {
            return usage("--result is CALL=TEXT, such as call_1_1=done, not '" + one + "'");
        }
        results.emplace_back(CallId{one.substr(0, at)}, text_result(one.substr(at + 1)));
    }
    return results;
}

Result<int> resume(Context& context, const Options& options) {
    const Result<client::CallResults> results = read_results(options.results);
    if (!results) return results.error();
    const Result<SessionId> id = find_session(context.client, options.session);
    if (!id) return id.error();
    const auto session = context.client.session(*id);
    if (!session) return session.error();
    if (!results->empty()) {
        return move_on(context, options, session->value, session->value.last_seq + 1,
                       [&] { return context.client.resume(*id, *results); });
    }
    if (session->value.status != "waiting") {
        const bool interrupted = session->value.status == "interrupted_startup";
        const std::string hint =
            interrupted ? "; let it go on with: " + context.command_line("continue " + id->text())
                        : "";
        return Error(ErrorKind::precondition, "no_suspended_turn",
                     id->text() + " is " + session->value.status + ": nothing is suspended" + hint);
    }
    if (!context.terminal.can_ask || context.json()) {
        const Error error = usage("nobody sits here to be asked; give --result CALL=TEXT");
        const int code = report(error, "resume", context.flags);
        std::cerr << waiting_text(context, session->value, Ways::command);
        return code;
    }
    return Attended(context, options, session->value, session->value.last_seq + 1)
        .answer_and_run(session->value);
}

Result<int> go_on(Context& context, const Options& options) {
    const Result<SessionId> id = find_session(context.client, options.session);
    if (!id) return id.error();
    const auto session = context.client.session(*id);
    if (!session) return session.error();
    return move_on(context, options, session->value, session->value.last_seq + 1,
                   [&] { return context.client.go_on(*id); });
}

void add_common(CLI::App& command, Options& options) {
    CLI::Option* detach =
        command.add_flag("--detach", options.detach, "do not wait for what comes of it");
    command.add_flag("--wait", options.wait, "stay while it waits for others, however long")
        ->excludes(detach);
}

void add_run(CLI::App& program, ServerCommands& commands) {
    auto options = std::make_shared<Options>();
    CLI::App& command = commands.add(
        program,
        {"run", "Ask an agent, in a new session or a known one, and show its answer",
         "  rouse run \"Deploy main\"\n  rouse run \"And the docs?\" --session 01M7HQKV\n"
         "  rouse run --agent reviewer - < change.diff > review.txt\n"
         "  rouse run --model anthropic:claude-sonnet-4-5 \"What is new?\"\n\n"
         "Questions and approvals are asked at the terminal. When the session waits for\n"
         "something else, or nobody sits at the terminal, it says what for and how to\n"
         "resume, and ends with 0. A run that fails ends with 1. Ctrl-C leaves the\n"
         "session, which goes on by itself.\n"},
        with(options, run_prompt), ServerCommands::Interrupts::reach_the_command);
    command.add_option("prompt", options->prompt, "what to say; - reads standard input")
        ->required();
    command.add_option("--agent", options->agent, "who is asked; without, the default agent")
        ->check(not_empty());
    command.add_option("--model", options->model,
                       "anthropic:MODEL or openai:MODEL instead of the agent's; the key is the "
                       "server's");
    command.add_option("--session", options->session, "go on in this session")->check(not_empty());
    command.add_option("--title", options->title, "of a new session; without, from the prompt");
    command
        .add_option("--on-waiting", options->on_waiting,
                    "if the session waits: reject, queue, or supersede (cancels the wait)")
        ->check(one_of({"reject", "queue", "supersede"}))
        ->capture_default_str();
    add_common(command, *options);
}

void add_session_command(CLI::App& program, ServerCommands& commands, const CommandText& text,
                         Result<int> (*action)(Context&, const Options&)) {
    auto options = std::make_shared<Options>();
    CLI::App& command = commands.add(program, text, with(options, action),
                                     ServerCommands::Interrupts::reach_the_command);
    command.add_option("session", options->session, "its id, or the beginning of it")->required();
    if (text.name == "resume") {
        command
            .add_option("--result", options->results,
                        "CALL=TEXT, the result of one of its calls; may be repeated")
            ->allow_extra_args(false);
    }
    add_common(command, *options);
}

}  // namespace

Command add_conversations(CLI::App& program, Env env) {
    ServerCommands commands(env);
    add_run(program, commands);
    add_session_command(
        program, commands,
        {"resume", "Give a suspended session the results it waits for, and show what it says",
         "  rouse resume 01M7HQKV                      asks for them at the terminal\n"
         "  rouse resume 01M7HQKV --result call_1_1=done\n"},
        resume);
    add_session_command(program, commands,
                        {"continue", "Let an interrupted session go on from its last durable step",
                         "  rouse continue 01M7HQKV\n"},
                        go_on);
    return commands.done();
}

}  // namespace rouse::cli
