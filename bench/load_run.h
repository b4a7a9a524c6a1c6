#pragma once

// One run of the load generator: what was asked for, what was seen, and when to stop.

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <random>
#include <string>

#include "bench/load_api.h"

namespace rouse::bench {

enum class Mode { cycle, ceiling, park, answer, turns, idle, mail, sse, health, reads };

struct LoadOptions {
    Mode mode = Mode::cycle;
    Target target;
    Work work;
    std::size_t connections = 1;
    double seconds = 0;        // 0: no limit
    std::uint64_t cycles = 0;  // 0: no limit
    std::string ids_file;      // park, answer
    std::string session_id;    // turns, reads
    std::chrono::milliseconds pause{10};
    std::chrono::seconds patience{60};  // with no answer at all, then it is over
    std::uint64_t seed = 1;
    bool keep_going = false;
};

class Run {
 public:
    explicit Run(LoadOptions asked) : options(std::move(asked)), random(options.seed) {}

    const LoadOptions options;
    asio::io_context loop{1};
    Report report;
    std::mt19937_64 random;

    Api make_api() { return Api(options.target, options.work, report); }

    // The figures count from here.
    void start_clock();
    // True: there is one more to do, and it is the caller's.
    bool take();
    // Counts it. Unless it is asked to keep going, nothing more is taken.
    void failed(const Unexpected& what);
    // A failure that cannot be counted as an answer; nothing more is taken.
    void failed(const std::string& what);
    // The end of a coroutine of this run, with what it threw, if it did.
    void ended(const std::exception_ptr& thrown);
    bool is_stopped() const { return stopped_; }

 private:
    std::optional<SteadyClock::time_point> deadline_;
    std::uint64_t taken_ = 0;
    bool stopped_ = false;
};

// The modes. Each returns when it is done or the run has failed.
Task<void> run_cycles(Run& run);  // cycle, ceiling
Task<void> run_park(Run& run);
Task<void> run_answers(Run& run);
Task<void> run_turns(Run& run);
Task<void> run_idle(Run& run);
Task<void> run_mail(Run& run);
Task<void> run_probes(Run& run);  // health, reads
Task<void> run_sse(Run& run);

// Runs one worker for each connection and waits for all of them.
Task<void> run_workers(Run& run, std::function<Task<void>()> make_worker);

Task<void> pause_for(std::chrono::milliseconds time);

}  // namespace rouse::bench
