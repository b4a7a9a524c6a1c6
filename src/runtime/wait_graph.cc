#include "runtime/wait_graph.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "domain/mail.h"

namespace rouse {

bool WaitGraph::leads(const SessionId& from, const SessionId& to) {
    std::set<SessionId> seen;
    std::vector<SessionId> next{from};
    while (!next.empty()) {
        const SessionId id = next.back();
        next.pop_back();
        if (id == to) return true;
        if (!seen.insert(id).second) continue;
        const Result<std::shared_ptr<const SessionState>> state = store_.load(id);
        if (state) {
            std::ranges::move(awaited_sessions(**state), std::back_inserter(next));
            if ((*state)->last_seq > 0) durable(id, (*state)->last_seq - 1);
        }
        const auto edges = under_way_.find(id);
        if (edges == under_way_.end()) continue;
        std::ranges::transform(edges->second, std::back_inserter(next), &Edge::awaited);
    }
    return false;
}

void WaitGraph::begin(const SessionId& waiter, Seq last, const SessionId& awaited) {
    under_way_[waiter].push_back({last, awaited});
}

void WaitGraph::durable(const SessionId& waiter, Seq last) {
    const auto edges = under_way_.find(waiter);
    if (edges == under_way_.end()) return;
    std::erase_if(edges->second, [&](const Edge& edge) { return edge.last <= last; });
    if (edges->second.empty()) under_way_.erase(edges);
}

}  // namespace rouse
