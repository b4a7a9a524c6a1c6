#pragma once

// What happens between opening the store and opening the port: every session that a dead process
// left behind is put right, exactly once, however often the boot itself is cut short.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "agent/companions.h"
#include "base/env.h"
#include "base/id_source.h"
#include "store/store.h"

namespace rouse {

struct BootReport {
    BootId boot;
    Timestamp started_at{};
    Milliseconds took{};
    std::uint64_t waiting = 0;           // parked runs that stay parked
    std::uint64_t expired = 0;           // runs that a timeout resumed, or waits that ended by it
    std::uint64_t interrupted = 0;       // runs that died computing
    std::vector<SessionId> to_drive;     // results accepted but not applied, by whatever boot
    std::vector<SessionId> to_continue;  // interrupted now: resumed by policy
    std::vector<SessionId> set_aside;
};

class RecoveryManager final {
 public:
    // `companions` adds to each commit what belongs to it; none without.
    RecoveryManager(Env env, Store& store, Companions* companions = nullptr)
        : env_(env), store_(store), companions_(companions) {}

    // Plans and commits only; no network. Fails when the store does, never because of one session.
    // `meet` sees each session with an open run, as the last process left it.
    using Meet = std::function<void(const SessionSummary&)>;
    Result<BootReport> recover(const BootId& boot, const Meet& meet = {});

 private:
    bool needs_attention(const SessionSummary& session, const BootId& boot, Timestamp now) const;
    Result<void> recover_session(const SessionId& id, BootReport& report);

    Env env_;
    Store& store_;
    Companions* companions_;
};

}  // namespace rouse
