#include "server/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <map>
#include <mutex>

namespace rouse::server {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;

struct Metrics::Families {
    prometheus::Registry registry;
    prometheus::Family<prometheus::Counter>& runs = BuildCounter()
                                                        .Name("rouse_runs_total")
                                                        .Help("Runs by what became of them")
                                                        .Register(registry);
    prometheus::Family<prometheus::Counter>& calls = BuildCounter()
                                                         .Name("rouse_pending_calls_total")
                                                         .Help("Pending calls by their end")
                                                         .Register(registry);
    prometheus::Family<prometheus::Counter>& recovery =
        BuildCounter()
            .Name("rouse_recovery_sessions_total")
            .Help("Sessions that the last boot found, by what it did")
            .Register(registry);
    prometheus::Counter& duplicates = BuildCounter()
                                          .Name("rouse_duplicates_refused_total")
                                          .Help("Results that came again or too late")
                                          .Register(registry)
                                          .Add({});
    prometheus::Family<prometheus::Counter>& requests = BuildCounter()
                                                            .Name("rouse_http_requests_total")
                                                            .Help("Requests by method and status")
                                                            .Register(registry);
    prometheus::Histogram& latency =
        BuildHistogram()
            .Name("rouse_http_request_seconds")
            .Help("From the whole request to the whole answer")
            .Register(registry)
            .Add({}, prometheus::Histogram::BucketBoundaries{0.0005, 0.001, 0.0025, 0.005, 0.01,
                                                             0.025, 0.05, 0.1, 0.25, 1, 5, 30});
    prometheus::Histogram& commit_latency =
        BuildHistogram()
            .Name("rouse_commit_seconds")
            .Help("From the first commit of a group until all of them are on disk")
            .Register(registry)
            .Add({}, prometheus::Histogram::BucketBoundaries{0.0001, 0.00025, 0.0005, 0.001, 0.0025,
                                                             0.005, 0.01, 0.025, 0.05, 0.1, 0.5});
    prometheus::Histogram& group_size =
        BuildHistogram()
            .Name("rouse_commit_group_size")
            .Help("Commits that one sync made durable")
            .Register(registry)
            .Add({}, prometheus::Histogram::BucketBoundaries{1, 2, 4, 8, 16, 32, 64, 128, 256});
    prometheus::Family<prometheus::Gauge>& waits =
        BuildGauge().Name("rouse_waits").Help("Open waits by kind").Register(registry);
    prometheus::Family<prometheus::Gauge>& oldest = BuildGauge()
                                                        .Name("rouse_oldest_wait_seconds")
                                                        .Help("Age of the oldest open wait")
                                                        .Register(registry);
    prometheus::Gauge& in_flight = BuildGauge()
                                       .Name("rouse_runs_in_flight")
                                       .Help("Runs that work now")
                                       .Register(registry)
                                       .Add({});
    prometheus::Gauge& queued = BuildGauge()
                                    .Name("rouse_runs_queued")
                                    .Help("Runs that wait for room")
                                    .Register(registry)
                                    .Add({});
    prometheus::Gauge& streams = BuildGauge()
                                     .Name("rouse_event_streams")
                                     .Help("Readers of event streams")
                                     .Register(registry)
                                     .Add({});
    prometheus::Gauge& damaged = BuildGauge()
                                     .Name("rouse_damaged_sessions")
                                     .Help("Sessions set aside")
                                     .Register(registry)
                                     .Add({});
    prometheus::Gauge& accepting = BuildGauge()
                                       .Name("rouse_store_accepting")
                                       .Help("1 while commits are taken")
                                       .Register(registry)
                                       .Add({});

    // By the index of the record that tells of it.
    std::map<std::size_t, prometheus::Counter*> by_record;
    std::map<std::pair<std::string, int>, prometheus::Counter*> by_answer;
    std::mutex answers_mutex;

    Families() {
        watch<RunStarted>(runs, "started");
        watch<RunWaiting>(runs, "waiting");
        watch<RunResumed>(runs, "resumed");
        watch<RunCompleted>(runs, "completed");
        watch<RunFailed>(runs, "failed");
        watch<RunCancelled>(runs, "cancelled");
        watch<RunInterrupted>(runs, "interrupted");
        watch<PendingCreated>(calls, "created");
        watch<PendingCompleted>(calls, "completed");
        watch<PendingFailed>(calls, "failed");
        watch<PendingExpired>(calls, "expired");
        watch<PendingCancelled>(calls, "cancelled");
    }

    template <class Kind>
    void watch(prometheus::Family<prometheus::Counter>& family, const char* event) {
        by_record[RecordBody(Kind{}).index()] = &family.Add({{"event", event}});
    }
};

Metrics::Metrics() : families_(std::make_unique<Families>()) {}
Metrics::~Metrics() = default;

void Metrics::count(const std::vector<std::size_t>& kinds) {
    for (const std::size_t kind : kinds) {
        const auto counter = families_->by_record.find(kind);
        if (counter != families_->by_record.end()) counter->second->Increment();
    }
}

void Metrics::request(std::string_view method, int status, std::chrono::nanoseconds took) {
    families_->latency.Observe(std::chrono::duration<double>(took).count());
    const std::lock_guard lock(families_->answers_mutex);
    prometheus::Counter*& counter = families_->by_answer[{std::string(method), status}];
    if (counter == nullptr) {
        counter = &families_->requests.Add(
            {{"method", std::string(method)}, {"status", std::to_string(status)}});
    }
    counter->Increment();
}

void Metrics::group(std::size_t commits, std::chrono::nanoseconds took) {
    families_->commit_latency.Observe(std::chrono::duration<double>(took).count());
    families_->group_size.Observe(static_cast<double>(commits));
}

void Metrics::duplicate_refused() {
    families_->duplicates.Increment();
}

void Metrics::recovered(std::uint64_t waiting, std::uint64_t expired, std::uint64_t interrupted,
                        std::uint64_t redriven) {
    const auto set = [&](const char* what, std::uint64_t number) {
        families_->recovery.Add({{"action", what}}).Increment(static_cast<double>(number));
    };
    set("waiting", waiting);
    set("expired", expired);
    set("interrupted", interrupted);
    set("redriven", redriven);
}

std::string Metrics::render(const Gauges& gauges) {
    families_->in_flight.Set(static_cast<double>(gauges.runs_in_flight));
    families_->queued.Set(static_cast<double>(gauges.runs_queued));
    families_->streams.Set(static_cast<double>(gauges.streams));
    families_->damaged.Set(static_cast<double>(gauges.damaged));
    families_->accepting.Set(gauges.accepting ? 1 : 0);
    for (const std::string_view kind : kEnumNames<WaitKind>) {
        const std::string name(kind);
        const auto count = gauges.waits.find(name);
        const auto age = gauges.oldest_wait_seconds.find(name);
        families_->waits.Add({{"kind", name}})
            .Set(count == gauges.waits.end() ? 0 : static_cast<double>(count->second));
        families_->oldest.Add({{"kind", name}})
            .Set(age == gauges.oldest_wait_seconds.end() ? 0 : age->second);
    }
    return prometheus::TextSerializer().Serialize(families_->registry.Collect());
}

}  // namespace rouse::server
