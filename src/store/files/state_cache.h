#pragma once

// States of sessions that nothing is being written to, the most recently used ones. Each remembers
// where its log ended, so that it can be trusted without reading the log again.

#include <list>
#include <unordered_map>

#include "store/files/log_reader.h"
#include "store/lent_state.h"

namespace rouse::files {

class StateCache {
 public:
    explicit StateCache(std::size_t max_bytes) : max_bytes_(max_bytes) {}

    struct Entry {
        LentState state;
        LogTip tip;
    };

    void put(const SessionId& id, Entry entry);
    // Null when it is not there.
    Entry* find(const SessionId& id);
    void erase(const SessionId& id);
    void clear();

 private:
    struct Node {
        SessionId id;
        Entry entry;
        std::size_t bytes;
    };

    std::size_t max_bytes_;
    std::size_t bytes_ = 0;
    std::list<Node> nodes_;  // the most recently used one first
    std::unordered_map<SessionId, std::list<Node>::iterator> by_id_;
};

}  // namespace rouse::files
