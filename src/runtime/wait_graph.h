#pragma once

// Which session waits for which: for the answer to a question, or for the end of a session that it
// started. What a commit on its way to the disk adds counts too, so that several sessions that ask
// one another at the same moment see the circle that they make.
//
// Belongs to the loop that changes sessions.

#include <unordered_map>
#include <vector>

#include "store/store.h"

namespace rouse {

class WaitGraph final {
 public:
    explicit WaitGraph(Store& store) : store_(store) {}

    // True when `from` waits for `to`, itself or by others.
    bool leads(const SessionId& from, const SessionId& to);

    // A commit behind `last` of its log lets `waiter` wait for `awaited`. It counts until that log
    // goes on, by this commit or another.
    void begin(const SessionId& waiter, Seq last, const SessionId& awaited);
    // The store knows now what the commits behind `last` and before made it wait for.
    void durable(const SessionId& waiter, Seq last);

 private:
    struct Edge {
        Seq last = 0;
        SessionId awaited;
    };

    Store& store_;
    std::unordered_map<SessionId, std::vector<Edge>> under_way_;
};

}  // namespace rouse
