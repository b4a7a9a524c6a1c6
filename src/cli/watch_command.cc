#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/names.h"
#include "cli/record_text.h"
#include "cli/server_commands.h"
#include "cli/text.h"
#include "cli/times.h"
#include "cli/usage.h"

namespace rouse::cli {
namespace {

struct Options {
    std::string session;
    std::size_t last = 10;
};

struct SessionOfEvent {
    SessionId session_id;
    static constexpr auto fields() {
        return std::tuple(required("session_id", &SessionOfEvent::session_id));
    }
};

class Watcher final {
 public:
    Watcher(const Context& context, bool names_sessions)
        : context_(context), names_sessions_(names_sessions) {}

    // Until Ctrl-C, or until the one session is gone.
    Result<int> run(client::EventStream& events) {
        for (;;) {
            const Result<std::optional<client::Event>> event = events.next();
            if (!event && event.error().kind == ErrorKind::cancelled) return kDone;
            if (!event) return event.error();
            if (show(**event) && !names_sessions_) return kDone;
        }
    }

 private:
    // True once the session is gone.
    bool show(const client::Event& event) {
        if (event.name == client::kConnectionLost) {
            std::cerr << "connection lost, trying again\n";
        } else if (event.name == client::kConnectionBack) {
            std::cerr << "connected again\n";
        } else if (event.name == "resync") {
            std::cerr << "away for too long: some records were missed\n";
        } else if (event.name == PendingProgress::kKind || !event.id.empty()) {
            if (event.name == "snapshot") return false;
            context_.json() ? void(context_.print_json(event.data)) : show_event(event);
            std::cout.flush();
        }
        return event.name == SessionDeleted::kKind;
    }

    // Progress that is told more often than it is recorded has no seq and no time of its own.
    Result<RecordLine> line_of(const client::Event& event) const {
        if (!event.id.empty()) return to_line(event.data);
        const Result<PendingProgress> told = from_json<PendingProgress>(event.data, "the progress");
        if (!told) return told.error();
        return RecordLine{0, context_.now(), event.name, describe(*told)};
    }

    void show_event(const client::Event& event) const {
        const Result<RecordLine> line = line_of(event);
        if (!line) return;
        std::string seq = line->seq == 0 ? "" : std::to_string(line->seq);
        seq.insert(0, seq.size() < 4 ? 4 - seq.size() : 0, ' ');
        std::string kind = printable(line->kind);
        kind.resize(std::max<std::size_t>(kind.size(), 18), ' ');
        std::string text = seq + "  " + to_day_and_time(line->at) + "  ";
        if (names_sessions_) {
            if (const auto of = from_json<SessionOfEvent>(event.data, "the event")) {
                text = of->session_id.text() + text;
            }
        }
        text += line->what.empty() ? printable(line->kind) : kind + "  " + printable(line->what);
        const std::size_t width = context_.terminal.width;
        std::cout << (width > 0 ? cut_to(text, width) : text) << "\n";
    }

    const Context& context_;
    bool names_sessions_;
};

Result<int> watch(Context& context, const Options& options) {
    if (options.session.empty()) {
        client::EventStream events = context.client.follow_all();
        return Watcher(context, true).run(events);
    }
    const Result<SessionId> id = find_session(context.client, options.session);
    if (!id) return id.error();
    const auto session = context.client.session(*id);
    if (!session) return session.error();
    const Seq last = session->value.last_seq;
    client::EventStream events =
        context.client.follow(*id, last > options.last ? last - options.last + 1 : 1);
    return Watcher(context, false).run(events);
}

}  // namespace

void add_watch(CLI::App& sessions, ServerCommands& commands) {
    auto options = std::make_shared<Options>();
    CLI::App& command = commands.add(
        sessions,
        {"watch", "Print records as they are written, over restarts of the server, until Ctrl-C",
         "  rouse sessions watch 01M7HQKV\n  rouse sessions watch 01M7HQKV --last 1000\n"
         "  rouse sessions watch --json          all sessions, one record to a line\n"},
        with(options, watch), ServerCommands::Interrupts::reach_the_command);
    command.add_option("session", options->session,
                       "its id, or the beginning of it; without, all sessions from now on");
    command.add_option("--last", options->last, "how many earlier records to begin with")
        ->check(whole_number(0))
        ->capture_default_str();
}

}  // namespace rouse::cli
