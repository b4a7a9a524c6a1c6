#pragma once

// A day in the life of a files store, the same in every run: sessions are made, run, wait, resume,
// expire, are forked and deleted, the journal goes round several times, and in the middle the
// process stops and starts again. All of it by the rules of the domain, on a store without threads,
// so that the operations of a simulated file system have the same numbers each time and a test can
// cut or fail every one of them.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/recovery_manager.h"
#include "base/env.h"
#include "base/id_source.h"
#include "domain/run_rules.h"
#include "domain/wait_rules.h"
#include "store/files/file_store.h"
#include "testing/commit_ledger.h"
#include "testing/manual_clock.h"
#include "testing/seeded_random.h"

namespace rouse::testing {

inline const std::string kStoreDirectory = "/data";

// No threads and everything tiny: a handful of commits fills a segment, a few more make a
// checkpoint.
FileStoreOptions tiny_store_options();

// What outlives a process and its disk: the time, and what callers were told.
class StoreWorld final {
 public:
    StoreWorld() = default;

    // Another future from here on, with ids of its own.
    StoreWorld fork() { return StoreWorld(*this); }

    Timestamp now() { return clock.now(); }
    Env env(Fs& fs) { return {clock, random, fs, log}; }

    ManualClock clock;
    SeededRandom random{1};
    Logger log{LogLevel::off};
    CommitLedger ledger;

 private:
    explicit StoreWorld(StoreWorld& other)
        : clock(other.now()), random(other.random.next()), ledger(other.ledger) {}
};

// One process: a store that is open, and everything through which sessions are driven.
class StoreProcess final {
 public:
    StoreProcess(StoreWorld& world, Fs& fs, BootId boot, RecordingStore::Observer observer = {});

    // Each may be called after the one before it.
    Result<void> open();
    Result<BootReport> recover();
    Result<void> close();

    bool is_open() const { return files_ != nullptr; }
    FileStore& files() { return *files_; }
    Store& store() { return *recording_; }
    const BootId& boot() const { return boot_; }

    // Commands: planned on the latest state, committed on top of it.
    Result<Committed> create(const SessionId& id);
    Result<Committed> message(const SessionId& id, std::string text,
                              OnWaiting on_waiting = OnWaiting::supersede);
    Result<Committed> say(const SessionId& id, std::string text, std::size_t calls);
    Result<Committed> run_tool(const SessionId& id, std::size_t call);
    Result<Committed> park(const SessionId& id, std::optional<Milliseconds> timeout);
    Result<Committed> claim(const SessionId& id, std::size_t call);
    Result<Committed> settle(const SessionId& id, std::size_t call, std::string text);
    Result<Committed> resume_by_token(const SessionId& id, std::string text);
    Result<Committed> expire(const SessionId& id);
    Result<Committed> cancel(const SessionId& id);
    Result<Committed> go_on(const SessionId& id);
    Result<Committed> complete(const SessionId& id);
    Result<Committed> update(const SessionId& id, std::string title);
    Result<Committed> fork(const SessionId& from, const SessionId& to);
    Result<Committed> mail(const SessionId& from, const SessionId& to, std::string text);
    Result<Committed> remove(const SessionId& id);

    Result<Committed> commit(const SessionId& id, Seq expected, Records records,
                             Urgency urgency = Urgency::normal);

 private:
    template <class Plan>
    Result<Committed> plan_and_commit(const SessionId& id, Plan plan);

    StoreWorld& world_;
    Fs& fs_;
    BootId boot_;
    RecordingStore::Observer observer_;
    IdSource ids_;
    std::vector<std::pair<SessionId, PresentedToken>> tokens_;  // made by park()
    std::unique_ptr<FileStore> files_;
    std::unique_ptr<RecordingStore> recording_;
};

// The script. At the first thing that goes wrong it stops, or it goes on as a stubborn client
// would, to the end of the day or over the restart.
enum class IfRefused : std::uint8_t { stop, go_on_for_the_day, go_on };

struct WorkloadEnd {
    bool whole = true;          // every step was taken
    std::string first_refusal;  // the first step that was not, and why
    Problems problems;          // what an opening had lost
    std::size_t packs = 0;      // that were there when sessions had come and gone
};

class StoreWorkload final {
 public:
    StoreWorkload(StoreWorld& world, Fs& fs, IfRefused if_refused = IfRefused::stop,
                  RecordingStore::Observer observer = {})
        : world_(world), fs_(fs), if_refused_(if_refused), observer_(std::move(observer)) {}

    WorkloadEnd run();

    // How many stores it has opened so far.
    int openings() const { return openings_; }

 private:
    template <class T>
    void note(std::string_view step, const Result<T>& done);
    template <class Step>
    void step(std::string_view name, Step take);
    void boot(std::string_view name);
    void stop();

    void first_day();
    void come_and_go(std::string_view name);
    void short_lives();
    void second_day();
    void third_day();

    StoreWorld& world_;
    Fs& fs_;
    IfRefused if_refused_;
    RecordingStore::Observer observer_;
    int openings_ = 0;
    std::unique_ptr<StoreProcess> process_;
    WorkloadEnd end_;
};

}  // namespace rouse::testing
