#include "rouse/durable_sessions.h"

#include <mutex>
#include <unordered_map>

#include "agent/durable_session.h"
#include "agent/recovery_manager.h"
#include "base/check.h"
#include "domain/fold.h"
#include "domain/session_rules.h"
#include "store/files/file_store.h"
#include "store/memory/memory_store.h"

namespace rouse {
namespace {

// The real world, for those who bring none.
struct OwnWorld {
    SystemClock clock;
    SystemRandom random;
    RealFs fs;
    Logger log{LogLevel::warn};
    Env env() { return {clock, random, fs, log}; }
};

Error session_exists(const SessionId& id) {
    return {ErrorKind::conflict, "session_exists",
            "there is a session " + id.text() + "; get() it, or choose another id"};
}

}  // namespace

class DurableSessions::Shared {
 public:
    Shared(std::shared_ptr<OwnWorld> world, Env env, std::shared_ptr<Store> store)
        : world_(std::move(world)),
          env_(env),
          store_(std::move(store)),
          ids_(env.clock, env.random),
          boot_(ids_.make<BootId>()) {}

    static Result<std::unique_ptr<DurableSessions>> recovered(std::shared_ptr<OwnWorld> world,
                                                              Env env,
                                                              std::shared_ptr<Store> store) {
        auto shared = std::make_shared<Shared>(std::move(world), env, std::move(store));
        const Result<BootReport> report =
            RecoveryManager(env, shared->store()).recover(shared->boot_);
        if (!report) return report.error();
        return std::unique_ptr<DurableSessions>(new DurableSessions(std::move(shared)));
    }

    Result<std::shared_ptr<Session>> get(const SessionId& id) {
        const std::lock_guard lock(mutex_);
        std::shared_ptr<DurableSession> session = open_[id].lock();
        if (!session) session = std::make_shared<DurableSession>(world_, env_, store_, boot_, id);
        if (Result<void> read = session->refresh(); !read) {
            open_.erase(id);
            return read.error();
        }
        open_[id] = session;
        return std::shared_ptr<Session>(std::move(session));
    }

    Result<std::shared_ptr<Session>> add(const SessionId& id, Records records) {
        const Result<Committed> made =
            store_->commit_and_wait(make_commit(id, Seq{0}, std::move(records)));
        if (!made && made.error().reason == "log_moved") return session_exists(id);
        if (!made) return made.error();
        return get(id);
    }

    SessionId new_id() {
        const std::lock_guard lock(mutex_);
        return ids_.make<SessionId>();
    }

    Store& store() { return *store_; }

 private:
    std::shared_ptr<OwnWorld> world_;
    Env env_;
    std::shared_ptr<Store> store_;
    std::mutex mutex_;
    IdSource ids_;
    BootId boot_;
    std::unordered_map<SessionId, std::weak_ptr<DurableSession>> open_;
};

Result<std::unique_ptr<DurableSessions>> DurableSessions::open(const std::string& directory) {
    auto world = std::make_shared<OwnWorld>();
    const Env env = world->env();
    Result<std::unique_ptr<FileStore>> store = FileStore::open(env, directory);
    if (!store) return store.error();
    return Shared::recovered(std::move(world), env, *std::move(store));
}

Result<std::unique_ptr<DurableSessions>> DurableSessions::in_memory() {
    auto world = std::make_shared<OwnWorld>();
    auto store = std::make_shared<MemoryStore>(world->clock);
    const Env env = world->env();
    return Shared::recovered(std::move(world), env, std::move(store));
}

Result<std::unique_ptr<DurableSessions>> DurableSessions::open(Env env,
                                                               std::shared_ptr<Store> store) {
    return Shared::recovered(nullptr, env, std::move(store));
}

DurableSessions::~DurableSessions() = default;

Result<std::shared_ptr<Session>> DurableSessions::create(const std::string& title, SessionId id) {
    if (id.empty()) {
        id = shared_->new_id();
    } else if (const Result<SessionId> parsed = parse_session_id(id.text()); !parsed) {
        return Error(ErrorKind::invalid, "invalid_session_id", parsed.error().message);
    }
    SessionCreated created;
    created.id = id;
    created.title = title;
    return shared_->add(id, {std::move(created)});
}

Result<std::shared_ptr<Session>> DurableSessions::get(const SessionId& id) {
    return shared_->get(id);
}

std::vector<SessionInfo> DurableSessions::list(const SessionQuery& query) {
    SessionFilter filter;
    filter.limit = std::numeric_limits<std::size_t>::max();
    std::vector<SessionInfo> found;
    for (const SessionSummary& row : shared_->store().list(filter)) {
        SessionInfo info{row.id, row.title, row.created_at, row.updated_at, row.last_seq};
        info.suspended = row.run.phase == RunPhase::parked;
        info.interrupted = row.run.phase == RunPhase::interrupted || row.redrive;
        if (query.suspended && *query.suspended != info.suspended) continue;
        found.push_back(std::move(info));
        if (found.size() == query.limit) break;
    }
    return found;
}

Result<std::shared_ptr<Session>> DurableSessions::fork(const SessionId& id,
                                                       std::optional<Seq> at_seq) {
    const Result<std::vector<Record>> records = read_records(shared_->store(), id);
    if (!records) return records.error();
    const Seq last = records->back().seq;
    if (at_seq && (*at_seq == 0 || *at_seq > last)) {
        return Error(ErrorKind::invalid, "invalid_seq",
                     "the session's log has records 1 to " + std::to_string(last));
    }
    Transcript transcript;
    SessionCreated fork;
    SessionState source;
    for (const Record& record : *records) {
        if (record.seq > at_seq.value_or(last)) break;
        if (const auto* created = std::get_if<SessionCreated>(&record.body)) fork = *created;
        fold(source, record);
        transcript.fold(record);
    }
    fork.title = source.title;
    fork.metadata = source.metadata;
    fork.id = shared_->new_id();
    const ForkOrigin origin{id, at_seq.value_or(last), {}};
    return shared_->add(fork.id, plan_fork(fork, origin, transcript));
}

Result<void> DurableSessions::compact(const SessionId& id, std::size_t keep_last,
                                      const std::string& summary) {
    for (;;) {
        const auto state = shared_->store().load(id);
        if (!state) return state.error();
        const Result<std::vector<Record>> records = read_records(shared_->store(), id);
        if (!records) return records.error();
        Transcript transcript;
        for (const Record& record : *records)
            transcript.fold(record);
        Result<Records> plan = plan_compact(**state, transcript, keep_last, summary);
        if (!plan) return plan.error();
        const Result<Committed> done =
            shared_->store().commit_and_wait(make_commit(id, (*state)->last_seq, *std::move(plan)));
        if (done) return {};
        if (done.error().reason != "log_moved") return done.error();
    }
}

Result<void> DurableSessions::remove(const SessionId& id) {
    const auto state = shared_->store().load(id);
    if (!state) return state.error();
    Result<DeletePlan> plan = plan_delete(**state);
    if (!plan) return plan.error();
    Commit commit = make_commit(id, (*state)->last_seq, std::move(plan->session));
    commit.appends.push_back({system_log(), std::nullopt, std::move(plan->system)});
    const Result<Committed> done = shared_->store().commit_and_wait(std::move(commit));
    if (!done) return done.error();
    return {};
}

Result<void> DurableSessions::close() {
    auto* files = dynamic_cast<FileStore*>(&shared_->store());
    return files == nullptr ? Result<void>() : files->close();
}

}  // namespace rouse
