#pragma once

// A store whose process dies at its n-th commit: that one is lost, or is durable without anybody
// hearing of it, and none comes after it.

#include <utility>

#include "testing/forwarding_store.h"

namespace rouse::testing {

class DyingStore final : public ForwardingStore {
 public:
    enum class Death : std::uint8_t { before_commit, after_commit };

    DyingStore(Store& store, std::size_t at, Death death)
        : ForwardingStore(store), at_(at), death_(death) {}

    std::size_t commits() const { return commits_; }
    bool died() const { return commits_ >= at_; }

    void commit(Commit commit, CommitDone done) override {
        if (++commits_ == at_ && death_ == Death::after_commit) {
            inner_.commit(std::move(commit), [](const auto&) {});
        }
        if (commits_ < at_) return ForwardingStore::commit(std::move(commit), std::move(done));
        done(Error(ErrorKind::unavailable, "store_failed", "the process is dead"));
    }

 private:
    std::size_t at_;
    Death death_;
    std::size_t commits_ = 0;
};

}  // namespace rouse::testing
