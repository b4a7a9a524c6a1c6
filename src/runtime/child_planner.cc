#include "runtime/child_planner.h"

#include "base/limits.h"

namespace rouse {

Result<void> ChildPlanner::check_depth(SessionId session) const {
    for (std::size_t depth = 1;; ++depth) {
        if (depth > limits::kChildDepth) {
            return Error(ErrorKind::precondition, "too_deep",
                         "sessions start one another at most " +
                             std::to_string(limits::kChildDepth) + " deep; do it here");
        }
        const Result<std::shared_ptr<const SessionState>> state = store_.load(session);
        if (!state || !(*state)->parent) return {};
        session = (*state)->parent->session_id;
    }
}

Result<ChildWish> ChildPlanner::plan(const SessionId& parent, const std::string& agent,
                                     const std::string& message,
                                     const std::optional<SessionId>& known) {
    ChildWish wish;
    wish.message = message;
    wish.agent = agent;
    if (known && parse_session_id(known->text())) {
        const Result<std::shared_ptr<const SessionState>> child = store_.load(*known);
        const bool ours = child && (*child)->parent && (*child)->parent->session_id == parent;
        if (ours) {
            wish.session_id = *known;
            wish.continues = true;
            return wish;
        }
    }
    const std::shared_ptr<const Catalogue> catalogue = registry_.catalogue();
    if (wish.agent.empty()) {
        const Result<std::shared_ptr<const SessionState>> state = store_.load(parent);
        if (state) wish.agent = (*state)->agent;
    }
    if (catalogue->find_agent(wish.agent) == nullptr) {
        std::string names;
        for (const auto& [name, definition] : catalogue->agents)
            names += (names.empty() ? "" : ", ") + name;
        return Error(ErrorKind::invalid, "unknown_agent",
                     "there is no agent " + wish.agent + "; there are: " + names);
    }
    if (Result<void> fits = check_depth(parent); !fits) return fits.error();
    wish.session_id = ids_.make<SessionId>();
    return wish;
}

}  // namespace rouse
