#pragma once

// A store that forgets with its process: for sessions that need not last, and for tests. It keeps
// the contract of Store in everything but durability.

#include <map>
#include <mutex>

#include "base/clock.h"
#include "domain/chain.h"
#include "store/lent_state.h"
#include "store/store.h"

namespace rouse {

class MemoryStore final : public Store {
 public:
    explicit MemoryStore(Clock& clock) : clock_(clock) {}

    void commit(Commit commit, CommitDone done) override;
    Result<std::shared_ptr<const SessionState>> load(const SessionId& log) override;
    bool loads_slowly(const SessionId&) override { return false; }
    Result<Seq> last_seq(const SessionId& log) override;
    std::uint64_t log_bytes(const SessionId& log) override;
    std::string task_of(const SessionId& log) override;
    Result<std::vector<std::string>> read(const SessionId& log, Seq from, ReadLimit limit) override;
    std::vector<SessionSummary> list(const SessionFilter& filter) override;
    std::vector<OpenPending> pending(const PendingFilter& filter) override;
    std::vector<SessionSummary> waits(const WaitFilter& filter) override;
    std::map<WaitKind, WaitCount> count_waits() override;
    void visit_active(const std::function<void(const SessionSummary&)>& visit) override;
    Result<std::vector<CommittedLines>> read_commits(Cursor after, ReadLimit limit) override;
    void listen(Listener listener) override;
    StoreHealth health() override;

 private:
    struct Log {
        std::vector<std::string> lines;
        Chain chain;
        LentState state;
    };

    Result<void> check(const Commit& commit) const;
    Result<Log*> find(const SessionId& id);
    CommittedLines append(Commit& commit);

    Clock& clock_;
    std::mutex mutex_;
    std::map<SessionId, Log> logs_;
    std::map<SessionId, std::string> deleted_;  // with their tasks
    std::vector<CommittedLines> commits_;
    Listener listener_;
};

}  // namespace rouse
