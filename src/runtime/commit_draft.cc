#include "runtime/commit_draft.h"

#include <algorithm>
#include <iterator>

#include "domain/fold.h"

namespace rouse {

Result<const SessionState*> CommitDraft::state_of(const SessionId& id) {
    if (const auto known = states_.find(id); known != states_.end()) return &known->second;
    const Result<std::shared_ptr<const SessionState>> state = store_.load(id);
    if (!state) return state.error();
    return &states_.emplace(id, **state).first->second;
}

void CommitDraft::add(const SessionId& id, Records records) {
    SessionState& state = states_.at(id);
    auto append = std::ranges::find(commit_.appends, id, &LogAppend::log);
    if (append == commit_.appends.end()) {
        commit_.appends.push_back({id, state.last_seq, {}});
        append = std::prev(commit_.appends.end());
    }
    for (const RecordBody& record : records)
        fold(state, RecordView(state.last_seq + 1, clamped(state, clock_.now()), record));
    std::ranges::move(records, std::back_inserter(append->records));
}

}  // namespace rouse
