#include "testing/store_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <limits>
#include <map>
#include <set>

#include "domain/fold.h"
#include "domain/status.h"
#include "store/files/verify.h"

namespace rouse::testing {
namespace {

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

SessionFilter every_session() {
    SessionFilter filter;
    filter.limit = kAll;
    return filter;
}

SessionState fold_of(const SessionLog& log) {
    SessionState state;
    for (const Record& record : log.records) {
        fold(state, record);
    }
    return state;
}

void check_session(Store& store, const SessionLog& log, const SessionState& folded,
                   Problems& problems) {
    const Result<std::shared_ptr<const SessionState>> loaded = store.load(log.id);
    if (!loaded) {
        problems.push_back("cannot load " + log.id.text() + ": " + loaded.error().message);
    } else if (**loaded != folded) {
        problems.push_back("the state of " + log.id.text() + " is not the fold of its log");
    }
    PendingFilter filter;
    filter.session = log.id;
    filter.limit = kAll;
    std::vector<PendingSummary> calls;
    for (const OpenPending& call : store.pending(filter)) {
        calls.push_back(call.call);
    }
    std::vector<PendingSummary> expected = summarize(folded).pending;
    std::ranges::sort(expected, {}, &PendingSummary::pending_id);
    if (calls != expected) {
        problems.push_back("the pending calls of " + log.id.text() + " are not those of its log");
    }
}

// How often each run and wait ended, over all records of a log.
struct Tally {
    std::map<RunId, int> ends;
    std::map<WaitId, int> consumed;
    std::map<WaitId, int> resumed;

    void operator()(const RunCompleted& r) { ++ends[r.run_id]; }
    void operator()(const RunFailed& r) { ++ends[r.run_id]; }
    void operator()(const RunCancelled& r) { ++ends[r.run_id]; }
    void operator()(const RunInterrupted& r) { ++ends[r.run_id]; }
    void operator()(const TokenConsumed& r) { ++consumed[r.wait_id]; }
    void operator()(const RunResumed& r) { ++resumed[r.wait_id]; }
    template <class Other>
    void operator()(const Other&) {}
};

void add(Problems& problems, std::string_view when, const Problems& more) {
    for (const std::string& problem : more) {
        problems.push_back(std::string(when) + ": " + problem);
    }
}

template <class T>
bool went_well(Problems& problems, std::string_view what, const Result<T>& done) {
    if (!done) problems.push_back(std::string(what) + " failed: " + done.error().message);
    return done.has_value();
}

bool is_redriven(const Record& record) {
    return std::holds_alternative<RunRedriven>(record.body);
}

// A boot of its own drives again what was accepted and not applied, and does nothing else.
void check_only_redriven(const std::vector<SessionLog>& before,
                         const std::vector<SessionLog>& after, Problems& problems) {
    if (before.size() != after.size()) {
        problems.emplace_back("another boot changed the number of sessions");
        return;
    }
    for (std::size_t i = 0; i < before.size(); ++i) {
        const std::vector<std::string>& lines = after[i].lines;
        const auto same = std::ranges::mismatch(before[i].lines, lines).in1;
        const bool kept = same == before[i].lines.end();
        const std::size_t known = before[i].lines.size();
        const bool again =
            kept && (lines.size() == known ||
                     (lines.size() == known + 1 && is_redriven(after[i].records.back())));
        if (!again) problems.push_back("another boot changed " + before[i].id.text());
    }
}

struct Booted {
    std::unique_ptr<StoreProcess> process;
    std::vector<SessionLog> logs;  // after recovery
};

// Reads every log and checks it against everything else that the store says.
Problems check_all(StoreProcess& process, Timestamp now, std::vector<SessionLog>& logs) {
    Result<std::vector<SessionLog>> read = read_sessions(process.store());
    if (!read) return {"cannot read: " + read.error().message};
    logs = *std::move(read);
    return check_views_agree(process.store(), logs, process.boot(), now);
}

// One process on the disk: opens it, compares and recovers.
Booted boot_and_check(StoreWorld& world, Fs& fs, std::string_view boot, Problems& problems) {
    Booted booted{std::make_unique<StoreProcess>(world, fs, BootId(std::string(boot))), {}};
    StoreProcess& process = *booted.process;
    if (!went_well(problems, "opening", process.open())) return booted;
    add(problems, "after opening", world.ledger.compare(process.store()));
    add(problems, "after opening", check_all(process, world.now(), booted.logs));
    if (!problems.empty() || !went_well(problems, "recovering", process.recover())) return booted;
    add(problems, "after recovery", check_all(process, world.now(), booted.logs));
    add(problems, "after recovery", check_recovered(booted.logs, process.boot()));
    return booted;
}

Problems open_and_compare(StoreWorld& world, Fs& fs) {
    Problems problems;
    StoreProcess process(world, fs, BootId("boot_reader"));
    if (!went_well(problems, "opening", process.open())) return problems;
    add(problems, "after opening", world.ledger.compare(process.store()));
    return problems;
}

// A crash leaves what the next opening puts right, and nothing that cannot be put right.
void verify_no_damage(StoreWorld& world, CrashingFs& fs, Problems& problems) {
    const Result<VerifyReport> report = verify(world.env(fs), kStoreDirectory, VerifyMode::look);
    if (!report && report.error().kind == ErrorKind::not_found) return;  // cut before there was one
    if (!went_well(problems, "verifying the dead disk", report)) return;
    for (const Finding& finding : report->findings) {
        if (finding.kind != FindingKind::damage) continue;
        problems.push_back("verify of the dead disk: " + finding.file + ":" +
                           std::to_string(finding.line) + ": " + finding.what);
    }
}

void close_and_verify(StoreWorld& world, Fs& fs, StoreProcess& process, Problems& problems) {
    if (!went_well(problems, "closing", process.close())) return;
    const Result<VerifyReport> report = verify(world.env(fs), kStoreDirectory, VerifyMode::look);
    if (!went_well(problems, "verifying", report)) return;
    for (const Finding& finding : report->findings) {
        if (finding.kind == FindingKind::note) continue;
        problems.push_back("verify: " + finding.file + ":" + std::to_string(finding.line) + ": " +
                           finding.what);
    }
}

// Enough for the journal to reach every segment that there is, so that one which the crash left
// with two names, or with none that lasts, shows.
void write_the_journal_round(StoreProcess& process, Problems& problems) {
    const SessionId id("sess_after");
    if (!went_well(problems, "creating", process.create(id))) return;
    for (int i = 0; i < 12; ++i) {
        const std::string text(1600, static_cast<char>('a' + i));
        if (!went_well(problems, "writing on", process.update(id, text))) return;
    }
}

}  // namespace

Result<std::vector<SessionLog>> read_sessions(Store& store) {
    std::vector<SessionLog> logs;
    for (const SessionSummary& row : store.list(every_session())) {
        Result<std::vector<std::string>> lines = store.read(row.id, 1, kAll);
        if (!lines) return lines.error();
        SessionLog log{row.id, *std::move(lines), {}};
        for (const std::string& line : log.lines) {
            Result<Record> record = parse_record(line);
            if (!record) return record.error();
            log.records.push_back(*std::move(record));
        }
        logs.push_back(std::move(log));
    }
    return logs;
}

Problems check_views_agree(Store& store, const std::vector<SessionLog>& logs, const BootId& boot,
                           Timestamp now) {
    Problems problems;
    std::map<SessionId, SessionSummary> rows;
    std::set<SessionId> active;
    std::size_t calls = 0;
    for (const SessionLog& log : logs) {
        const SessionState state = fold_of(log);
        check_session(store, log, state, problems);
        const SessionSummary& row = rows[log.id] = summarize(state);
        if (row.is_active()) active.insert(log.id);
        calls += row.pending.size();
        SessionFilter same = every_session();
        same.status = project(state, boot, now).status;
        same.boot = boot;
        same.now = now;
        const std::vector<SessionSummary> listed = store.list(same);
        if (std::ranges::find(listed, log.id, &SessionSummary::id) == listed.end()) {
            problems.push_back(log.id.text() + " is not listed under its status");
        }
    }
    for (const SessionSummary& row : store.list(every_session())) {
        if (rows[row.id] != row) problems.push_back("the row of " + row.id.text() + " is stale");
    }
    std::set<SessionId> visited;
    store.visit_active([&](const SessionSummary& row) { visited.insert(row.id); });
    if (visited != active) problems.emplace_back("visit_active does not visit what is active");
    PendingFilter every_call;
    every_call.limit = kAll;
    if (store.pending(every_call).size() != calls) {
        problems.emplace_back("pending() has other calls than the logs");
    }
    return problems;
}

Problems check_recovered(const std::vector<SessionLog>& logs, const BootId& boot) {
    Problems problems;
    for (const SessionLog& log : logs) {
        Tally tally;
        for (const Record& record : log.records) {
            std::visit(tally, record.body);
        }
        for (const auto& [run, times] : tally.ends) {
            if (times != 1) problems.push_back(run.text() + " ends more than once");  // P9
        }
        for (const auto& [wait, times] : tally.consumed) {
            if (times != 1) problems.push_back(wait.text() + " is consumed twice");  // P3
        }
        if (tally.resumed != tally.consumed) {
            problems.push_back(log.id.text() + " was resumed without a consumed token, or twice");
        }
        // So a run that died computing has ended, and the tally says that it did so once.
        const SessionState state = fold_of(log);
        if (state.run_is_open() && !state.is_parked() && state.run->boot_id != boot) {
            problems.push_back("a dead run was left: " + state.run->run_id.text());
        }
    }
    return problems;
}

Problems check_disk(StoreWorld& world, CrashingFs& fs, Depth depth) {
    if (depth == Depth::compare) return open_and_compare(world, fs);
    Problems problems;
    if (depth == Depth::go_round) verify_no_damage(world, fs, problems);
    Booted first = boot_and_check(world, fs, "boot_check", problems);
    if (!problems.empty()) return problems;
    close_and_verify(world, fs, *first.process, problems);
    first.process.reset();
    if (depth == Depth::recover || !problems.empty()) return problems;

    // The same boot once more, as if nothing had been told of the first; then another one.
    Booted second = boot_and_check(world, fs, "boot_check", problems);
    if (!problems.empty()) return problems;
    if (second.logs != first.logs) problems.emplace_back("a second recovery changed a log");
    second.process.reset();
    const Booted third = boot_and_check(world, fs, "boot_other", problems);
    if (!problems.empty()) return problems;
    check_only_redriven(first.logs, third.logs, problems);
    write_the_journal_round(*third.process, problems);

    // The store stays open while the power goes: what it would still write must not matter.
    const std::unique_ptr<CrashingFs> cut = fs.copy();
    cut->restart(DiskModel::lose_unsynced);
    StoreWorld later = world.fork();
    add(problems, "after the journal went round", open_and_compare(later, *cut));
    return problems;
}

// ---- sweeps ---------------------------------------------------------------------------------

const std::vector<CutOutcome>& cut_outcomes() {
    static const std::vector<CutOutcome> kOutcomes = [] {
        const char* wanted = std::getenv("ROUSE_CRASH_SEEDS");
        const std::uint64_t seeds = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 2;
        std::vector<CutOutcome> all{{"unsynced lost", DiskModel::lose_unsynced, 1},
                                    {"last write torn", DiskModel::tear_last_write, 1}};
        for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
            all.push_back({"any subset kept (" + std::to_string(seed) + ")",
                           DiskModel::keep_any_subset, seed});
        }
        return all;
    }();
    return kOutcomes;
}

std::unique_ptr<CrashingFs> cut_power(const CrashingFs& fs, const CutOutcome& outcome,
                                      std::int64_t salt) {
    std::unique_ptr<CrashingFs> disk = fs.copy();
    disk->restart(outcome.model, outcome.seed * 1'000'003 + static_cast<std::uint64_t>(salt));
    return disk;
}

CaseCount::~CaseCount() {
    std::cout << cases_ << " " << what_ << ", " << failures_ << " failed\n";
}

void CaseCount::add(const Problems& problems, const std::string& label, const CrashingFs& fs) {
    constexpr std::uint64_t kToldInFull = 3;
    ++cases_;
    if (problems.empty()) return;
    if (++failures_ > kToldInFull) {
        ADD_FAILURE() << label << ": " << problems.front();
        return;
    }
    std::string text = label + "\n";
    for (const std::string& problem : problems) {
        text += "  " + problem + "\n";
    }
    ADD_FAILURE() << text << "the latest operations:\n" << fs.trace();
}

}  // namespace rouse::testing
