// A load generator for a Rouse server: how many suspended and resumed runs a machine makes, and how
// long each request takes. Prints one JSON object; whatever is not as expected is an error.

#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/json.hpp>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>

#include "bench/load_run.h"

namespace rouse::bench {
namespace {

constexpr const char* kAbout =
    "Load on a Rouse server, from outside. Prints one JSON object; times are microseconds.";

constexpr const char* kExamples = R"(
Modes:
  cycle    new session with a message -> suspended; its result -> completed; all durable
  ceiling  the same two requests to bench/ceiling, the limit of this machine
  park     --cycles sessions that stay waiting; their ids go to --ids
  answer   results for random ones of those in --ids, one at a time
  turns    one session, --cycles turns of message and result; is the last as fast as the tenth?
  idle     --cycles sessions with nothing to do, named a0, a1, …
  mail     a letter to each of the first --cycles of them, until those that it wakes are done
  sse      --connections readers of one session while it makes --cycles turns: all events to all?
  health   GET /healthz, with a pause between; to run beside another load
  reads    GET /v1/sessions/{id}, likewise

Examples:
  What this machine can do, and what the server makes of it:
    ceiling --data DIR --listen 127.0.0.1:7718 &
    load --url http://127.0.0.1:7718 --mode ceiling --connections 64 --seconds 10
    rouse serve --data DATA &
    load --token-file DATA/token --mode cycle --connections 64 --seconds 10
  100,000 waiting sessions, then how fast one of them answers:
    load --token-file DATA/token --mode park --connections 64 --cycles 100000 --ids ids.txt
    load --token-file DATA/token --mode answer --cycles 500 --ids ids.txt
  A thousand readers:
    load --token-file DATA/token --mode sse --connections 1000 --cycles 100
  Are reads still quick while others write?
    load --token-file DATA/token --mode cycle --connections 64 --seconds 10 &
    load --token-file DATA/token --mode reads --seconds 8

Exit codes: 0 all as expected, 1 something was not, 2 usage.)";

const std::map<std::string, Mode> kModes = {
    {"cycle", Mode::cycle},   {"ceiling", Mode::ceiling}, {"park", Mode::park},
    {"answer", Mode::answer}, {"turns", Mode::turns},     {"idle", Mode::idle},
    {"mail", Mode::mail},     {"sse", Mode::sse},         {"health", Mode::health},
    {"reads", Mode::reads},
};

std::string name_of(Mode mode) {
    for (const auto& [name, value] : kModes)
        if (value == mode) return name;
    return {};
}

// What is typed, before it is checked.
struct Typed {
    std::string url = "http://127.0.0.1:7717";
    std::string token_file;
    std::string mode = "cycle";
    LoadOptions options;
    std::uint64_t pause_ms = 10;
    std::uint64_t patience_s = 60;
};

void describe(CLI::App& app, Typed& typed) {
    LoadOptions& options = typed.options;
    app.footer(kExamples);
    app.add_option("--url", typed.url, "the server")->capture_default_str();
    app.add_option("--token-file", typed.token_file, "file with the bearer token: DATA/token");
    app.add_option("--mode", typed.mode, "what to do, see below")->capture_default_str();
    app.add_option("--connections", options.connections, "how many at the same time")
        ->capture_default_str()
        ->check(CLI::Range(1, 100'000));
    app.add_option("--seconds", options.seconds, "for so long (10, unless --cycles says)");
    app.add_option("--cycles", options.cycles, "so many: cycles, sessions, turns, requests");
    app.add_option("--ids", options.ids_file, "file of the parked sessions (park, answer)");
    app.add_option("--session", options.session_id, "an existing session (turns, reads)");
    app.add_option("--agent", options.work.agent, "agent of new sessions")->capture_default_str();
    app.add_option("--message", options.work.message, "what they are told")->capture_default_str();
    app.add_option("--wait", options.work.wait, "for how long an answer may wait for the run")
        ->capture_default_str();
    app.add_option("--pause-ms", typed.pause_ms, "between requests (health, reads)")
        ->capture_default_str();
    app.add_option("--patience", typed.patience_s, "seconds without any answer, then give up")
        ->capture_default_str();
    app.add_option("--seed", options.seed, "of what is random")->capture_default_str();
    app.add_flag("--keep-going", options.keep_going,
                 "count errors instead of stopping at the first");
}

std::string first_word_of(const std::string& path) {
    std::ifstream file(path);
    std::string word;
    file >> word;
    if (word.empty()) throw std::invalid_argument("no token in " + path);
    return word;
}

LoadOptions check(Typed typed) {
    LoadOptions options = std::move(typed.options);
    const auto mode = kModes.find(typed.mode);
    if (mode == kModes.end()) throw std::invalid_argument("there is no mode '" + typed.mode + "'");
    options.mode = mode->second;
    options.target.server = parse_address(typed.url);
    if (!typed.token_file.empty()) options.target.token = first_word_of(typed.token_file);
    options.pause = std::chrono::milliseconds(typed.pause_ms);
    options.patience = std::chrono::seconds(typed.patience_s);
    const bool with_ids = options.mode == Mode::park || options.mode == Mode::answer;
    if (with_ids && options.ids_file.empty()) {
        throw std::invalid_argument("--mode " + typed.mode + " needs --ids FILE");
    }
    const bool by_number = options.mode == Mode::park || options.mode == Mode::turns ||
                           options.mode == Mode::idle || options.mode == Mode::mail;
    if (by_number && options.cycles == 0) {
        throw std::invalid_argument("--mode " + typed.mode + " needs --cycles N");
    }
    if (options.cycles == 0 && options.seconds == 0) options.seconds = 10;
    return options;
}

Task<void> run_mode(Run& run) {
    switch (run.options.mode) {
        case Mode::cycle:
        case Mode::ceiling: return run_cycles(run);
        case Mode::park: return run_park(run);
        case Mode::answer: return run_answers(run);
        case Mode::turns: return run_turns(run);
        case Mode::idle: return run_idle(run);
        case Mode::mail: return run_mail(run);
        case Mode::sse: return run_sse(run);
        case Mode::health:
        case Mode::reads: return run_probes(run);
    }
    throw std::logic_error("a mode that is none");
}

// Ends a run in which nothing is answered any more.
class Watch {
 public:
    explicit Watch(Run& run) : run_(run), timer_(run.loop) {}

    void start() {
        timer_.expires_after(run_.options.patience);
        timer_.async_wait([this](boost::system::error_code stopped) {
            if (stopped) return;
            if (run_.report.requests == seen_) {
                run_.failed("no answer for " + std::to_string(run_.options.patience.count()) +
                            " seconds");
                return run_.loop.stop();
            }
            seen_ = run_.report.requests;
            start();
        });
    }
    void stop() { timer_.cancel(); }

 private:
    Run& run_;
    asio::steady_timer timer_;
    std::uint64_t seen_ = 0;
};

void work(Run& run) {
    Watch watch(run);
    watch.start();
    asio::co_spawn(run.loop, run_mode(run), [&](const std::exception_ptr& thrown) {
        watch.stop();
        run.ended(thrown);
    });
    run.loop.run();
    if (!run.report.end) run.report.end = SteadyClock::now();
}

// Every connection is a file, and the usual limit is 1,024.
void raise_file_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

int print(const Run& run) {
    boost::json::object object;
    object["mode"] = name_of(run.options.mode);
    object["connections"] = run.options.connections;
    for (const auto& member : run.report.to_json())
        object.insert(member);
    std::cout << to_text(object) << std::endl;
    if (run.report.first_error.empty()) return 0;
    std::cerr << "load: " << run.report.first_error << "\n";
    return 1;
}

}  // namespace
}  // namespace rouse::bench

int main(int argc, char** argv) {
    using namespace rouse::bench;
    CLI::App app(kAbout);
    Typed typed;
    describe(app, typed);
    try {
        app.parse(argc, argv);
        raise_file_limit();
        Run run(check(std::move(typed)));
        work(run);
        return print(run);
    } catch (const CLI::ParseError& failed) {
        return app.exit(failed) == 0 ? 0 : 2;
    } catch (const std::invalid_argument& failed) {
        std::cerr << "load: " << failed.what() << "; --help shows examples\n";
        return 2;
    }
}
