#pragma once

// A store that hands everything on to another one: the base of those that change one thing.

#include <utility>

#include "store/store.h"

namespace rouse::testing {

class ForwardingStore : public Store {
 public:
    explicit ForwardingStore(Store& inner) : inner_(inner) {}

    void commit(Commit commit, CommitDone done) override {
        inner_.commit(std::move(commit), std::move(done));
    }
    Result<std::shared_ptr<const SessionState>> load(const SessionId& log) override {
        return inner_.load(log);
    }
    bool loads_slowly(const SessionId& log) override { return inner_.loads_slowly(log); }
    Result<Seq> last_seq(const SessionId& log) override { return inner_.last_seq(log); }
    std::uint64_t log_bytes(const SessionId& log) override { return inner_.log_bytes(log); }
    std::string task_of(const SessionId& log) override { return inner_.task_of(log); }
    Result<std::vector<std::string>> read(const SessionId& log, Seq from,
                                          ReadLimit limit) override {
        return inner_.read(log, from, limit);
    }
    std::vector<SessionSummary> list(const SessionFilter& filter) override {
        return inner_.list(filter);
    }
    std::vector<OpenPending> pending(const PendingFilter& filter) override {
        return inner_.pending(filter);
    }
    std::vector<SessionSummary> waits(const WaitFilter& filter) override {
        return inner_.waits(filter);
    }
    std::map<WaitKind, WaitCount> count_waits() override { return inner_.count_waits(); }
    void visit_active(const std::function<void(const SessionSummary&)>& visit) override {
        inner_.visit_active(visit);
    }
    Result<std::vector<CommittedLines>> read_commits(Cursor after, ReadLimit limit) override {
        return inner_.read_commits(after, limit);
    }
    void listen(Listener listener) override { inner_.listen(std::move(listener)); }
    StoreHealth health() override { return inner_.health(); }

 protected:
    Store& inner_;
};

}  // namespace rouse::testing
