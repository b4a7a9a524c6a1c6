#pragma once

// The log of what belongs to no session, and what it folds to. For any thread.

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "domain/system_state.h"
#include "rouse/tool.h"
#include "store/store.h"

namespace rouse {

class SystemLog final {
 public:
    SystemLog(Env env, std::shared_ptr<Store> store) : env_(env), store_(std::move(store)) {}

    // Reads the log from its latest snapshot on, and writes another one when that is far back.
    Result<void> open();

    // Records that go along with a session's commit. Once it is durable, fold() them.
    static void add(Commit& commit, RecordBody record);
    void fold(const Commit& commit);  // and forgets, now and then, what is too old

    // Commits and folds.
    Task<Result<void>> append(RecordBody record);
    Task<Result<void>> append_all(Records records);

    // A copy of a part of the state, or a question to it, under the lock.
    template <class Ask>
    auto ask(Ask&& ask) const {
        const std::lock_guard lock(mutex_);
        return ask(static_cast<const SystemState&>(state_));
    }

 private:
    void forget_old();

    Env env_;
    std::shared_ptr<Store> store_;
    mutable std::mutex mutex_;
    SystemState state_;
    std::uint64_t folded_ = 0;
};

}  // namespace rouse
