#pragma once

// What a run of the load generator saw.

#include <array>
#include <boost/json/value.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rouse::bench {

using SteadyClock = std::chrono::steady_clock;
using Microseconds = std::chrono::duration<double, std::micro>;

// Times of any number of requests in a few kilobytes: counted in buckets that are exact to 1 %.
class Latencies {
 public:
    void add(Microseconds took);
    std::uint64_t count() const { return count_; }
    // The time that `share` of them did not exceed.
    Microseconds percentile(double share) const;
    boost::json::object to_json() const;

 private:
    static constexpr std::size_t kSteps = 128;     // in each doubling
    static constexpr std::size_t kDoublings = 32;  // from 1 us to an hour
    static std::size_t bucket_of(double microseconds);
    static double middle_of(std::size_t bucket);

    std::array<std::uint32_t, kSteps * kDoublings> buckets_{};
    std::uint64_t count_ = 0;
    double sum_ = 0;
    double max_ = 0;
};

double median(std::vector<double> values);

// Of one kind of request.
struct RequestKind {
    Latencies latencies;
    std::uint64_t request_bytes = 0;  // of bodies
    std::uint64_t answer_bytes = 0;
};

struct Report {
    SteadyClock::time_point begin = SteadyClock::now();
    std::optional<SteadyClock::time_point> end;  // none yet: now
    std::uint64_t cycles = 0;
    std::uint64_t requests = 0;
    std::map<std::string, RequestKind, std::less<>> kinds;
    std::map<std::string, std::uint64_t> errors;  // by status
    std::string first_error;
    boost::json::object more;  // what only one mode has to say

    double seconds() const {
        return std::chrono::duration<double>(end.value_or(SteadyClock::now()) - begin).count();
    }
    // Forgets what came before: preparations are not part of the figures.
    void start_clock();
    boost::json::object to_json() const;
};

// As JSON, with numbers as people write them: 0.25 and 12345.6, not 2.5E-1.
std::string to_text(const boost::json::value& value);

}  // namespace rouse::bench
