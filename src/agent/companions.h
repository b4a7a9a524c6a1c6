#pragma once

// What has to be committed together with a session's records: the end of a child and the answer to
// its parent, an event and the webhook that tells of it. Whoever runs sessions brings the rule.

#include <functional>

#include "domain/state.h"
#include "store/store.h"

namespace rouse {

class Companions {
 public:
    virtual ~Companions() = default;

    // Adds to a commit what belongs to it: records behind those of its first log, and appends to
    // other logs. `after` is the session's state with these records. Called again when a log moved.
    // Gives back what is to be done once the commit is durable.
    using Then = std::function<void()>;
    virtual Result<Then> join(const SessionState& after, Commit& commit) = 0;
};

}  // namespace rouse
