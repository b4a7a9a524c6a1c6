#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <sstream>
#include <thread>

#include "app/commands.h"
#include "app/server_process.h"
#include "cli/interrupts.h"
#include "cli/record_text.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "client/client.h"
#include "store/files/verify.h"

namespace rouse::app {
namespace {

using cli::Colour;
using client::SessionView;

constexpr std::string_view kMessage = "Deploy main";
constexpr std::string_view kResult = "https://preview.example/main";
constexpr Milliseconds kPatience{10'000};

Error unexpected(std::string message) {
    return {ErrorKind::internal, "demo_failed", std::move(message)};
}

// Steps with a number, each with what one would type and what came of it.
class Story final {
 public:
    explicit Story(const cli::Terminal& terminal) : terminal_(terminal) {}

    void step(const std::string& text) {
        ++steps_;
        std::cout << "\n"
                  << cli::coloured(std::to_string(steps_) + ". " + text, Colour::bold, terminal_)
                  << "\n";
    }
    void command(const std::string& text) const { line("$ " + text, Colour::cyan); }
    void result(const std::string& text) const { line(cli::printable(text), Colour::plain); }
    void result(const cli::Table& table) const {
        cli::Terminal narrow = terminal_;
        narrow.width = terminal_.width > kIndent ? terminal_.width - kIndent : 97;
        std::istringstream lines(table.render(narrow));
        for (std::string text; std::getline(lines, text);)
            line(text, Colour::plain);
    }

 private:
    static constexpr std::size_t kIndent = 3;

    void line(const std::string& text, Colour colour) const {
        std::cout << std::string(kIndent, ' ') << cli::coloured(text, colour, terminal_) << "\n"
                  << std::flush;
    }

    cli::Terminal terminal_;
    int steps_ = 0;
};

class Demo final {
 public:
    Demo(Env env, std::string directory, int interrupt)
        : env_(env),
          directory_(std::move(directory)),
          interrupt_(interrupt),
          story_(cli::look_at_terminal()) {}

    Result<void> run() {
        using Step = Result<void> (Demo::*)();
        for (const Step step : {&Demo::start_server, &Demo::ask_agent, &Demo::kill_server,
                                &Demo::start_again, &Demo::give_result_twice, &Demo::show_answer,
                                &Demo::show_log, &Demo::stop_and_verify}) {
            if (Result<void> done = (this->*step)(); !done) return done;
        }
        return {};
    }

 private:
    static std::string curl(const std::string& target, const std::string& body = {}) {
        std::string line = "curl -H \"Authorization: Bearer $ROUSE_TOKEN\" \\\n";
        line += "       \"$ROUSE_URL" + target + "\"";
        if (body.empty()) return line;
        return line + " \\\n       -H 'Content-Type: application/json' -d " + cli::shell_word(body);
    }

    Result<void> open_server() {
        story_.command("rouse serve --data " + cli::shell_word(directory_) +
                       " --listen 127.0.0.1:0 &");
        Result<std::unique_ptr<ServerProcess>> server = ServerProcess::start(directory_);
        if (!server) return server.error();
        server_ = *std::move(server);
        const std::string token_file = directory_ + "/token";
        story_.result("process " + std::to_string(server_->pid()) + " listens");
        story_.command("export ROUSE_URL=" + server_->url() + " ROUSE_TOKEN=$(cat " +
                       cli::shell_word(token_file) + ")");
        const auto no_variable = [](const char*) { return std::string(); };
        Result<client::ServerAddress> address =
            client::find_server({server_->url(), "", token_file}, no_variable, env_.fs);
        if (!address) return address.error();
        client_ = std::make_unique<client::Client>(
            client::ClientOptions{*std::move(address), interrupt_});
        return {};
    }

    Result<void> start_server() {
        story_.step("Start a server. It needs no model and no key: its agent has a script.");
        return open_server();
    }

    Result<void> ask_agent() {
        story_.step("Ask the agent. It calls a tool whose result comes hours later, and suspends.");
        client::NewSession wish;
        wish.message = kMessage;
        wish.wait = "5s";
        story_.command(
            curl("/v1/sessions?wait=5s", "{\"message\":" + to_json_string(kMessage) + "}"));
        const auto session = client_->create_session(wish);
        if (!session) return session.error();
        id_ = session->value.id;
        story_.result(id_.text());
        if (Result<void> said = show_last_message(); !said) return said;
        return expect_waiting(session->value);
    }

    Result<void> expect_waiting(const SessionView& session) {
        if (session.status != "waiting" || session.pending.size() != 1) {
            return unexpected("the session does not wait, it is " + session.status);
        }
        pending_ = session.pending.front().pending_id;
        story_.result("status: waiting for " + session.pending.front().tool + ", " +
                      std::to_string(session.last_seq) + " records on disk");
        return {};
    }

    Result<void> kill_server() {
        story_.step("Kill the server, as a crash or a power cut would.");
        story_.command("kill -9 " + std::to_string(server_->pid()));
        server_->kill();
        if (client_->session(id_)) return unexpected("the server is still there");
        story_.result("nobody answers any more");
        return {};
    }

    Result<void> start_again() {
        story_.step("Start another one on the same directory. The session still waits.");
        if (Result<void> opened = open_server(); !opened) return opened;
        story_.command(curl("/v1/sessions/" + id_.text()));
        const auto session = client_->session(id_);
        if (!session) return session.error();
        return expect_waiting(session->value);
    }

    Result<void> give_result_twice() {
        story_.step("The result arrives, twice, as such messages do. The first one counts.");
        const std::string body = "{\"pendingID\":" + to_json_string(pending_) +
                                 ",\"result\":{\"output\":" + to_json_string(kResult) + "}}";
        for (const bool again : {false, true}) {
            if (!again) story_.command(curl("/async-tool/result", body));
            if (again) story_.command("# the same once more");
            const auto settled = client_->complete(pending_, std::string(kResult), "");
            if (!settled) return settled.error();
            if (settled->value.duplicate != again) return unexpected("the result counted wrongly");
            story_.result(again ? "known already: nothing changes" : "accepted");
        }
        return {};
    }

    Result<void> show_answer() {
        story_.step("The agent has gone on where it was, with the result.");
        story_.command(curl("/v1/sessions/" + id_.text() + "/messages"));
        const auto until = env_.clock.now() + kPatience;
        for (;;) {
            const auto session = client_->session(id_);
            if (!session) return session.error();
            if (session->value.status == "idle") break;
            if (env_.clock.now() > until) return unexpected("the agent did not answer");
            std::this_thread::sleep_for(Milliseconds(10));
        }
        return show_last_message();
    }

    Result<void> show_last_message() {
        const auto messages = client_->messages(id_);
        if (!messages) return messages.error();
        const auto& items = messages->value.items;
        if (items.empty() || items.back().role != "assistant") {
            return unexpected("the agent has said nothing");
        }
        story_.result("agent: " + cli::text_of(items.back().content));
        return {};
    }

    Result<void> show_log() {
        story_.step("Look at its log: each step is there once. The session is computed from it.");
        story_.command(curl("/v1/sessions/" + id_.text() + "/log"));
        const auto page = client_->log(id_, 1, 1000);
        if (!page) return page.error();
        cli::Table table;
        records_ = page->value.items.size();
        for (const RawJson& item : page->value.items) {
            const Result<cli::RecordLine> line = cli::to_line(item.text());
            if (!line) return line.error();
            table.add({std::to_string(line->seq), line->kind, line->what});
        }
        story_.result(table);
        return {};
    }

    Result<void> stop_and_verify() {
        story_.step("Stop the server and check every byte that it left.");
        client_.reset();
        const pid_t pid = server_->pid();
        if (Result<void> stopped = server_->stop(); !stopped) return stopped;
        story_.command("kill " + std::to_string(pid));
        story_.result("it has stopped");
        story_.command("rouse verify " + cli::shell_word(directory_));
        const Result<VerifyReport> report = verify(env_, directory_, VerifyMode::look);
        if (!report) return report.error();
        if (!report->clean()) return unexpected("the directory is not clean");
        story_.result(cli::summary_of(*report));
        story_.result("(" + std::to_string(report->records - records_) +
                      " of the records are the server's own, such as when it started)");
        return {};
    }

    Env env_;
    std::string directory_;
    int interrupt_;
    Story story_;
    std::unique_ptr<ServerProcess> server_;
    std::unique_ptr<client::Client> client_;
    SessionId id_;
    std::string pending_;
    std::size_t records_ = 0;  // of the session
};

// Removed at the end, unless the caller named it.
Result<std::string> make_directory(const std::string& named) {
    std::error_code error;
    if (!named.empty()) {
        std::filesystem::create_directories(named, error);
        if (!error) return named;
        return Error(ErrorKind::io, "io_error", "cannot make " + named + ": " + error.message());
    }
    const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
    std::string path = (folder / "rouse-demo-XXXXXX").string();
    if (error || ::mkdtemp(path.data()) == nullptr) {
        return Error(ErrorKind::io, "io_error", "cannot make a directory in " + folder.string());
    }
    return path;
}

int run_demo(Env env, const std::string& named) {
    const cli::InterruptSignals signals;
    const Timestamp began = env.clock.now();
    const Result<std::string> directory = make_directory(named);
    Result<void> played;
    if (directory) {
        std::cout << "An agent waits for a deploy while its server is killed. All of it is real:\n"
                     "the processes, the HTTP, and the files in "
                  << *directory << ".\n";
        played = Demo(env, *directory, signals.descriptor()).run();
        std::error_code ignored;
        if (named.empty()) std::filesystem::remove_all(*directory, ignored);
    } else {
        played = directory.error();
    }
    if (!played) {
        std::cerr << "rouse demo: " << cli::printable(played.error().message) << "\n";
        return cli::kFailed;
    }
    std::cout << "\nThat took " << (env.clock.now() - began).count() << " ms. ";
    if (named.empty()) {
        std::cout << "The files are gone; --dir DIR keeps them.\n";
    } else {
        std::cout << "Go on with: rouse serve --data " << cli::shell_word(named) << "\n";
    }
    return cli::kDone;
}

}  // namespace

cli::Command add_demo(CLI::App& program, Env env) {
    auto directory = std::make_shared<std::string>();
    CLI::App* command = program.add_subcommand(
        "demo", "Play a suspend, a kill -9 and a resume, and show what is left on disk");
    command->add_option("--dir", *directory, "keep the data in this directory");
    command->footer(
        "Examples:\n  rouse demo\n"
        "  rouse demo --dir ./demo && cat demo/sessions/*.messages.jsonl\n");
    return [=] { return command->parsed() ? run_demo(env, *directory) : -1; };
}

}  // namespace rouse::app
