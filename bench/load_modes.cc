#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <fstream>
#include <utility>
#include <vector>

#include "bench/load_run.h"

namespace rouse::bench {
namespace {

namespace json = boost::json;

// On standard error, so that what is printed stays JSON: rewritten in place on a terminal, else a
// line for each tenth.
class Progress {
 public:
    Progress(std::string what, std::uint64_t total) : what_(std::move(what)), total_(total) {}

    void at(std::uint64_t done) {
        const bool terminal = ::isatty(STDERR_FILENO) == 1;
        const std::uint64_t steps = terminal ? 100 : 10;
        const std::uint64_t step = total_ == 0 ? 0 : done * steps / total_;
        if (step == shown_) return;
        shown_ = step;
        std::fprintf(stderr, "%s%s: %llu of %llu%s", terminal ? "\r" : "", what_.c_str(),
                     static_cast<unsigned long long>(done), static_cast<unsigned long long>(total_),
                     terminal && done < total_ ? "" : "\n");
    }

 private:
    std::string what_;
    std::uint64_t total_;
    std::uint64_t shown_ = 0;
};

Task<void> cycle(Api& api) {
    const Waiting waiting = co_await api.create();
    co_await api.result(waiting.pending_id);
}

// Until there is nothing more to take. A failed one is counted and, if asked so, passed over.
Task<void> cycle_worker(Run& run) {
    Api api = run.make_api();
    while (run.take()) {
        try {
            if (run.options.mode == Mode::ceiling) {
                co_await api.ceiling_cycle();
            } else {
                co_await cycle(api);
            }
            ++run.report.cycles;
        } catch (const Unexpected& what) {
            run.failed(what);
        }
    }
}

// The file of parked sessions: a line for each, session id and pending id.
std::vector<Waiting> read_ids(const std::string& path) {
    std::ifstream file(path);
    std::vector<Waiting> all;
    Waiting one;
    while (file >> one.session_id >> one.pending_id)
        all.push_back(one);
    return all;
}

void write_ids(const std::string& path, const std::vector<Waiting>& all) {
    std::ofstream file(path, std::ios::trunc);
    for (const Waiting& one : all)
        file << one.session_id << ' ' << one.pending_id << '\n';
    file.close();
    if (!file) throw std::runtime_error("cannot write " + path);
}

Task<void> park_worker(Run& run, std::vector<Waiting>& parked, Progress& progress) {
    Api api = run.make_api();
    while (run.take()) {
        Waiting waiting = co_await api.create();
        parked.push_back(std::move(waiting));
        ++run.report.cycles;
        progress.at(run.report.cycles);
    }
}

std::string alias_of(std::uint64_t number) {
    return "a" + std::to_string(number);
}

Task<void> idle_worker(Run& run, std::uint64_t& next) {
    Api api = run.make_api();
    while (run.take()) {
        co_await api.create_idle(alias_of(next++));
        ++run.report.cycles;
    }
}

Task<void> mail_worker(Run& run, std::uint64_t& next) {
    Api api = run.make_api();
    while (run.take()) {
        co_await api.letter(alias_of(next++));
        ++run.report.cycles;
    }
}

// Both requests of a turn.
Task<double> timed_turn(Api& api, std::string session_id) {
    const SteadyClock::time_point start = SteadyClock::now();
    const Waiting waiting = co_await api.message(std::move(session_id));
    co_await api.result(waiting.pending_id);
    co_return Microseconds(SteadyClock::now() - start).count();
}

Task<std::string> finished_session(Api& api) {
    const Waiting waiting = co_await api.create();
    co_await api.result(waiting.pending_id);
    co_return waiting.session_id;
}

// Turns 6 to 15 of one session after the other: what a turn costs when the session is short. They
// alternate with the last turns of the long one, because a disk is not as fast in one minute as in
// the next.
class YoungTurns {
 public:
    explicit YoungTurns(Api& api) : api_(api) {}

    Task<double> next() {
        if (turn_ == kLast) turn_ = 0;
        if (turn_ == 0) {
            session_id_ = co_await finished_session(api_);
            for (turn_ = 1; turn_ < kFirst; ++turn_)
                (void)co_await timed_turn(api_, session_id_);
        }
        ++turn_;
        co_return co_await timed_turn(api_, session_id_);
    }

 private:
    static constexpr int kFirst = 5;
    static constexpr int kLast = 15;

    Api& api_;
    std::string session_id_;
    int turn_ = 0;
};

double median_of(const std::vector<double>& times, std::size_t from, std::size_t to) {
    const auto at = [&](std::size_t i) {
        return times.begin() + static_cast<std::ptrdiff_t>(std::min(i, times.size()));
    };
    return median({at(from), at(to)});
}

}  // namespace

Task<void> run_cycles(Run& run) {
    run.start_clock();
    return run_workers(run, [&run] { return cycle_worker(run); });
}

Task<void> run_park(Run& run) {
    std::vector<Waiting> parked;
    Progress progress("parked", run.options.cycles);
    run.start_clock();
    const auto make_worker = [&] { return park_worker(run, parked, progress); };
    co_await run_workers(run, make_worker);
    write_ids(run.options.ids_file, parked);
}

// A result for a random one of the parked sessions, one at a time. For each one answered another is
// parked, so that their number stays; that is not on the clock.
Task<void> run_answers(Run& run) {
    std::vector<Waiting> parked = read_ids(run.options.ids_file);
    if (parked.empty()) throw std::runtime_error("no ids in " + run.options.ids_file);
    run.report.more["parked"] = parked.size();
    Api api = run.make_api();
    run.start_clock();
    while (run.take()) {
        std::uniform_int_distribution<std::size_t> any(0, parked.size() - 1);
        const std::size_t chosen = any(run.random);
        co_await api.result(parked[chosen].pending_id);
        parked[chosen] = co_await api.create();
        ++run.report.cycles;
    }
    write_ids(run.options.ids_file, parked);
}

Task<void> run_idle(Run& run) {
    std::uint64_t next = 0;
    run.start_clock();
    const auto make_worker = [&] { return idle_worker(run, next); };
    co_await run_workers(run, make_worker);
}

// A letter to each of the idle sessions; the clock stops when the last that one woke is done.
Task<void> run_mail(Run& run) {
    std::uint64_t next = 0;
    run.start_clock();
    const auto make_worker = [&] { return mail_worker(run, next); };
    co_await run_workers(run, make_worker);
    Api api = run.make_api();
    while (co_await api.runs() > 0)
        co_await pause_for(std::chrono::milliseconds(2));
}

Task<void> run_turns(Run& run) {
    Api api = run.make_api();
    std::string session_id = run.options.session_id;
    if (session_id.empty()) session_id = co_await finished_session(api);
    YoungTurns young(api);
    const std::size_t turns = run.options.cycles;
    const std::size_t window = std::min<std::size_t>(turns / 4, 100);
    std::vector<double> times;
    std::vector<double> young_times;
    Progress progress("turns", turns);
    run.start_clock();
    while (run.take()) {
        if (times.size() + window >= turns) {
            const double beside = co_await young.next();
            young_times.push_back(beside);
        }
        const double took = co_await timed_turn(api, session_id);
        times.push_back(took);
        progress.at(++run.report.cycles);
    }
    json::object found;
    found["session_id"] = session_id;
    found["turns"] = times.size();
    found["window"] = window;
    found["early_median_us"] = median_of(times, 9, 9 + window);
    found["late_median_us"] = median_of(times, times.size() - window, times.size());
    found["young_beside_late_median_us"] = median(young_times);
    run.report.more["turns"] = std::move(found);
}

Task<void> run_probes(Run& run) {
    Api api = run.make_api();
    std::string session_id = run.options.session_id;
    if (run.options.mode == Mode::reads && session_id.empty()) {
        const Waiting waiting = co_await api.create();
        session_id = waiting.session_id;
    }
    run.start_clock();
    while (run.take()) {
        if (run.options.mode == Mode::reads) {
            co_await api.read_session(session_id);
        } else {
            co_await api.read_health();
        }
        ++run.report.cycles;
        co_await pause_for(run.options.pause);
    }
}

}  // namespace rouse::bench
