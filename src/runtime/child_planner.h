#pragma once

// Whether a session may start another one.

#include "base/id_source.h"
#include "domain/child.h"
#include "runtime/registry.h"
#include "store/store.h"

namespace rouse {

class ChildPlanner final {
 public:
    ChildPlanner(Clock& clock, Random& random, Store& store, Registry& registry)
        : ids_(clock, random), store_(store), registry_(registry) {}

    // A child of `parent` that is known is continued; any other id means a new session.
    //   invalid       unknown_agent, with those that there are
    //   precondition  too_deep
    Result<ChildWish> plan(const SessionId& parent, const std::string& agent,
                           const std::string& message, const std::optional<SessionId>& known);

 private:
    Result<void> check_depth(SessionId session) const;

    IdSource ids_;
    Store& store_;
    Registry& registry_;
};

}  // namespace rouse
