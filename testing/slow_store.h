#pragma once

// A store whose commits wait until a test lets them go, loses them or refuses them.

#include <deque>
#include <utility>

#include "testing/forwarding_store.h"

namespace rouse::testing {

class SlowStore final : public ForwardingStore {
 public:
    using ForwardingStore::ForwardingStore;
    void commit(Commit commit, CommitDone done) override {
        if (++commits_ == refused_at) return done(refusal);
        waiting_.emplace_back(std::move(commit), std::move(done));
    }
    std::size_t refused_at = 0;  // which commit, counted from 1
    Error refusal{ErrorKind::conflict, "log_moved", "somebody else wrote"};
    std::size_t waiting() const { return waiting_.size(); }
    void let_go() {
        auto [commit, done] = std::move(waiting_.front());
        waiting_.pop_front();
        inner_.commit(std::move(commit), std::move(done));
    }
    void lose() {
        CommitDone done = std::move(waiting_.front().second);
        waiting_.pop_front();
        done(Error(ErrorKind::unavailable, "store_failed", "the disk is gone"));
    }

 private:
    std::size_t commits_ = 0;
    std::deque<std::pair<Commit, CommitDone>> waiting_;
};

}  // namespace rouse::testing
