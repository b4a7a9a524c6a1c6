#pragma once

// The log of what belongs to no session, and what it folds to. For any thread.

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/env.h"
#include "domain/system_state.h"
#include "rouse/tool.h"
#include "store/store.h"

namespace rouse {

class SystemLog final {
 public:
    SystemLog(Env env, std::shared_ptr<Store> store) : env_(env), store_(std::move(store)) {}
    SystemLog(const SystemLog&) = delete;
    SystemLog& operator=(const SystemLog&) = delete;
    ~SystemLog() { close(); }

    // Reads the view of the log, and the records behind it.
    Result<void> open();
    // Writes no more views: waits for the one that is being written.
    void close();

    // Records that go along with a session's commit. Once it is durable, fold() them.
    static void add(Commit& commit, RecordBody record);
    void fold(const Commit& commit);  // and forgets, now and then, what is too old

    // Commits and folds.
    Task<Result<void>> append(RecordBody record);
    Task<Result<void>> append_all(Records records, Urgency urgency = Urgency::normal);

    // A copy of a part of the state, or a question to it, under the lock.
    template <class Ask>
    auto ask(Ask&& ask) const {
        const std::lock_guard lock(mutex_);
        return ask(static_cast<const SystemState&>(state_));
    }

 private:
    struct Folded {
        SystemState state;
        Seq last = 0;
        std::size_t behind_view = 0;  // records
    };
    Result<Folded> read_log() const;
    Result<std::vector<Record>> read_from_snapshot() const;
    void forget_old(SystemState& state) const;
    // A thread of its own computes the view anew, from the log alone: what is on its way to the log
    // or not folded yet makes no difference.
    bool is_view_due();  // under the lock; true for one caller
    void start_view();
    void write_view();
    Result<void> save_view();

    Env env_;
    std::shared_ptr<Store> store_;
    mutable std::mutex mutex_;  // for all below
    SystemState state_;
    std::uint64_t folded_ = 0;
    std::size_t behind_view_ = 0;
    bool closed_ = false;
    bool writing_view_ = false;
    std::thread view_writer_;
};

}  // namespace rouse
