#pragma once

// A store whose commits wait until a test lets them go, loses them or refuses them, and a loop to
// wait for them on.

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <deque>
#include <memory>
#include <utility>

#include "base/env.h"
#include "base/id_source.h"
#include "store/memory/memory_store.h"
#include "testing/forwarding_store.h"
#include "testing/manual_clock.h"
#include "testing/seeded_random.h"

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

class SlowStoreTest : public ::testing::Test {
 protected:
    // As far as it goes without the disk.
    void work() {
        loop_.restart();
        loop_.poll();
    }
    void let_go() {
        store_->let_go();
        work();
    }

    ManualClock clock_;
    SeededRandom random_{7};
    RealFs fs_;
    Logger log_{LogLevel::off};
    Env env_{clock_, random_, fs_, log_};
    IdSource ids_{clock_, random_};
    BootId boot_ = ids_.make<BootId>();
    MemoryStore inner_{clock_};
    std::shared_ptr<SlowStore> store_ = std::make_shared<SlowStore>(inner_);
    boost::asio::io_context loop_{1};
};

}  // namespace rouse::testing
