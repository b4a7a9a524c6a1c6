#include "bench/load_report.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

namespace rouse::bench {
namespace {

namespace json = boost::json;

double cpu_seconds() {
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
    };
    return seconds(used.ru_utime) + seconds(used.ru_stime);
}

}  // namespace

std::size_t Latencies::bucket_of(double microseconds) {
    const double steps = std::log2(std::max(microseconds, 1.0)) * kSteps;
    return std::min(static_cast<std::size_t>(steps), kSteps * kDoublings - 1);
}

double Latencies::middle_of(std::size_t bucket) {
    return std::exp2((static_cast<double>(bucket) + 0.5) / kSteps);
}

void Latencies::add(Microseconds took) {
    ++buckets_[bucket_of(took.count())];
    ++count_;
    sum_ += took.count();
    max_ = std::max(max_, took.count());
}

Microseconds Latencies::percentile(double share) const {
    const auto wanted = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count_)));
    std::uint64_t seen = 0;
    for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
        seen += buckets_[bucket];
        if (seen >= wanted && seen > 0) return Microseconds(std::min(middle_of(bucket), max_));
    }
    return Microseconds(0);
}

json::object Latencies::to_json() const {
    json::object object;
    object["count"] = count_;
    object["mean"] = count_ == 0 ? 0 : sum_ / static_cast<double>(count_);
    object["p50"] = percentile(0.5).count();
    object["p90"] = percentile(0.9).count();
    object["p99"] = percentile(0.99).count();
    object["max"] = max_;
    return object;
}

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    return *middle;
}

void Report::start_clock() {
    kinds.clear();
    cycles = 0;
    requests = 0;
    begin = SteadyClock::now();
}

json::object Report::to_json() const {
    json::object object;
    object["seconds"] = seconds();
    object["cycles"] = cycles;
    object["cycles_per_second"] = static_cast<double>(cycles) / seconds();
    object["requests"] = requests;
    object["requests_per_second"] = static_cast<double>(requests) / seconds();
    json::object latency;
    json::object bytes;
    for (const auto& [name, kind] : kinds) {
        latency[name] = kind.latencies.to_json();
        const std::uint64_t count = std::max<std::uint64_t>(kind.latencies.count(), 1);
        bytes[name] = json::object{{"request", kind.request_bytes / count},
                                   {"answer", kind.answer_bytes / count}};
    }
    object["latency_us"] = latency;
    object["mean_body_bytes"] = bytes;
    for (const auto& member : more)
        object.insert(member);
    object["generator_cpu_seconds"] = cpu_seconds();
    json::object by_status;
    for (const auto& [status, count] : errors)
        by_status[status] = count;
    object["errors"] = by_status;
    return object;
}

std::string to_text(const json::value& value) {
    if (value.is_double()) return fmt::format("{:.2f}", value.get_double());
    if (!value.is_object()) return json::serialize(value);
    std::string text = "{";
    for (const auto& [name, member] : value.get_object()) {
        if (text.size() > 1) text += ',';
        text += json::serialize(json::string(name)) + ':' + to_text(member);
    }
    return text + '}';
}

}  // namespace rouse::bench
