#pragma once

// What the server counts, for Prometheus. For any thread.

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "domain/rules.h"

namespace rouse::server {

class Metrics final {
 public:
    Metrics();
    ~Metrics();

    // The records of a commit of one session, as indexes of RecordBody.
    void count(const std::vector<std::size_t>& kinds);
    void request(std::string_view method, int status, std::chrono::nanoseconds took);
    // A sync that made so many commits durable, and how long the first of them waited for it.
    void group(std::size_t commits, std::chrono::nanoseconds took);
    void duplicate_refused();
    void recovered(std::uint64_t waiting, std::uint64_t expired, std::uint64_t interrupted,
                   std::uint64_t redriven);

    // What is not counted but looked at.
    struct Gauges {
        std::size_t runs_in_flight = 0;
        std::size_t runs_queued = 0;
        std::size_t streams = 0;
        std::size_t damaged = 0;
        std::map<std::string, std::size_t> waits;  // by kind
        std::map<std::string, double> oldest_wait_seconds;
        bool accepting = true;
    };
    std::string render(const Gauges& gauges);

 private:
    struct Families;
    std::unique_ptr<Families> families_;
};

}  // namespace rouse::server
