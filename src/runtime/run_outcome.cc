#include "runtime/run_outcome.h"

#include <algorithm>

namespace rouse {
namespace {

using Steady = std::chrono::steady_clock;

Milliseconds until(Steady::time_point end) {
    const auto left = std::chrono::ceil<Milliseconds>(end - Steady::now());
    return std::max(left, Milliseconds(0));
}

// The first run behind `seq` that is wanted; none yet.
template <class Wanted>
Result<RunId> find_run(Store& store, const SessionId& session, Seq seq, const Wanted& wanted) {
    const Result<std::vector<Record>> records = read_records(store, session, seq + 1);
    if (!records) return records.error();
    for (const Record& record : *records) {
        const auto* started = std::get_if<RunStarted>(&record.body);
        if (started != nullptr && wanted(*started)) return started->run_id;
    }
    return RunId();
}

// Which run reads what was queued at `seq`: the next one that begins a turn of its own.
Result<RunId> find_reader(Store& store, const SessionId& session, Seq seq) {
    return find_run(store, session, seq,
                    [](const RunStarted& started) { return started.continues.empty(); });
}

Result<RunId> find_successor(Store& store, const SessionId& session, Seq seq, const RunId& run) {
    return find_run(store, session, seq,
                    [&](const RunStarted& started) { return started.continues == run; });
}

// Empty: nobody is about to read it.
Task<Result<RunId>> wait_for_reader(RunDriver& driver, Store& store, AskedRun asked,
                                    Steady::time_point end, std::stop_token gone) {
    for (;;) {
        // In this order: a run that begins in between is found.
        const Result<std::shared_ptr<const SessionState>> state = store.load(asked.session);
        if (!state) co_return state.error();
        const Result<RunId> reader = find_reader(store, asked.session, asked.seq);
        if (!reader || !reader->empty()) co_return reader;
        if (!(*state)->run_is_open()) {
            const bool begun = co_await driver.until_begun(asked.session, until(end), gone);
            if (!begun) co_return RunId();
            continue;
        }
        const RunId busy = (*state)->run->run_id;
        const Result<SharedReport> ended = co_await driver.wait(
            asked.session, busy, asked.seq, until(end), gone, RunDriver::Until::ends);
        if (!ended) co_return ended.error();
        if (!*ended) co_return RunId();
    }
}

}  // namespace

Task<Result<SharedReport>> wait_for_outcome(RunDriver& driver, Store& store, AskedRun asked,
                                            Milliseconds time, std::stop_token gone) {
    const Steady::time_point end = Steady::now() + time;
    if (asked.queued) {
        const Result<RunId> reader = co_await wait_for_reader(driver, store, asked, end, gone);
        if (!reader) co_return reader.error();
        if (reader->empty()) co_return SharedReport();
        asked.run = *reader;
    }
    for (;;) {
        Result<SharedReport> report =
            co_await driver.wait(asked.session, asked.run, asked.seq, until(end), gone);
        if (!report || !*report || (*report)->status != ReportStatus::interrupted) co_return report;
        const Result<RunId> next = find_successor(store, asked.session, asked.seq, asked.run);
        if (!next) co_return next.error();
        if (!next->empty()) {
            asked.run = *next;
            continue;
        }
        const bool begun = co_await driver.until_begun(asked.session, until(end), gone);
        if (!begun) co_return report;
    }
}

}  // namespace rouse
