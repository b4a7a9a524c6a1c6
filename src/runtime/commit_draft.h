#pragma once

// A commit in the making that reaches into several logs: what is planned for one of them is planned
// on a state that has what was planned before.

#include <map>

#include "base/clock.h"
#include "domain/state.h"
#include "store/store.h"

namespace rouse {

class CommitDraft final {
 public:
    CommitDraft(Commit& commit, Store& store, Clock& clock)
        : commit_(commit), store_(store), clock_(clock) {}

    // With what the draft adds to it. not_found, corrupt: as Store::load.
    Result<const SessionState*> state_of(const SessionId& id);
    // The session is known from state_of().
    void add(const SessionId& id, Records records);

 private:
    Commit& commit_;
    Store& store_;
    Clock& clock_;
    std::map<SessionId, SessionState> states_;
};

}  // namespace rouse
