#pragma once

// A session's state that readers may keep: whoever was lent it goes on seeing what they saw, and
// the next change is made to a copy. Guarded by its owner's mutex; what was lent needs none.

#include <memory>
#include <utility>

#include "domain/state.h"

namespace rouse {

class LentState {
 public:
    LentState() : LentState(SessionState{}) {}
    explicit LentState(SessionState state)
        : state_(std::make_shared<SessionState>(std::move(state))) {}

    const SessionState& operator*() const { return *state_; }
    const SessionState* operator->() const { return state_.get(); }

    std::shared_ptr<const SessionState> lend() {
        lent_ = true;
        return state_;
    }
    SessionState& change() {
        if (std::exchange(lent_, false)) state_ = std::make_shared<SessionState>(*state_);
        return *state_;
    }

 private:
    std::shared_ptr<SessionState> state_;
    bool lent_ = false;
};

}  // namespace rouse
