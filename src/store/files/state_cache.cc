#include "store/files/state_cache.h"

namespace rouse::files {
namespace {

// Good enough to bound memory: the fixed part, and a generous guess for each variable one.
std::size_t size_of(const SessionState& state) {
    return sizeof(SessionState) + 1024 + state.metadata.text().size() +
           state.pending.size() * (sizeof(PendingCall) + 512) + state.tokens.size() * 512 +
           state.calls.size() * 256;
}

}  // namespace

void StateCache::put(const SessionId& id, Entry entry) {
    erase(id);
    const std::size_t bytes = size_of(*entry.state);
    nodes_.push_front({id, std::move(entry), bytes});
    by_id_[id] = nodes_.begin();
    bytes_ += bytes;
    while (bytes_ > max_bytes_ && !nodes_.empty())
        erase(SessionId(nodes_.back().id));
}

StateCache::Entry* StateCache::find(const SessionId& id) {
    const auto found = by_id_.find(id);
    if (found == by_id_.end()) return nullptr;
    nodes_.splice(nodes_.begin(), nodes_, found->second);
    return &found->second->entry;
}

void StateCache::erase(const SessionId& id) {
    const auto found = by_id_.find(id);
    if (found == by_id_.end()) return;
    bytes_ -= found->second->bytes;
    nodes_.erase(found->second);
    by_id_.erase(found);
}

void StateCache::clear() {
    by_id_.clear();
    nodes_.clear();
    bytes_ = 0;
}

}  // namespace rouse::files
