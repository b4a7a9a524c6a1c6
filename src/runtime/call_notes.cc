#include "runtime/call_notes.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"

namespace rouse {

void CallNotes::renew(const PendingId& call, Timestamp recorded, Timestamp until) {
    const std::lock_guard lock(mutex_);
    Note& note = notes_[call];
    note.recorded_lease = recorded;
    note.lease_until = until;
}

bool CallNotes::was_recorded_lately(const PendingId& call, Timestamp now) const {
    const std::lock_guard lock(mutex_);
    const auto note = notes_.find(call);
    if (note == notes_.end() || !note->second.recorded_at) return false;
    const Timestamp at = *note->second.recorded_at;
    return now >= at && now - at < limits::kProgressRecordedEvery;
}

void CallNotes::recorded(const PendingId& call, Timestamp at) {
    const std::lock_guard lock(mutex_);
    Note& note = notes_[call];
    note.recorded_at = at;
    note.progress.reset();
}

void CallNotes::report(const PendingId& call, Progress before, Progress now) {
    const std::lock_guard lock(mutex_);
    Note& note = notes_[call];
    note.recorded_progress = std::move(before);
    note.progress = std::move(now);
}

std::optional<Progress> CallNotes::unrecorded(const PendingCall& call) const {
    const std::lock_guard lock(mutex_);
    const Note* note = find(call);
    if (note == nullptr || call.progress != note->recorded_progress) return std::nullopt;
    return note->progress;
}

void CallNotes::forget_lease(const PendingId& call) {
    const std::lock_guard lock(mutex_);
    const auto note = notes_.find(call);
    if (note != notes_.end()) note->second.recorded_lease.reset();
}

void CallNotes::forget(const PendingId& call) {
    const std::lock_guard lock(mutex_);
    notes_.erase(call);
}

void CallNotes::apply_to(SessionState& state) const {
    const std::lock_guard lock(mutex_);
    for (PendingCall& call : state.pending) {
        const Note* note = find(call);
        if (note == nullptr) continue;
        if (note->recorded_lease && call.lease_until == note->recorded_lease) {
            call.lease_until = note->lease_until;
        }
        if (note->progress && call.progress == note->recorded_progress) {
            call.progress = *note->progress;
        }
    }
}

std::shared_ptr<const SessionState> CallNotes::over(
    std::shared_ptr<const SessionState> state) const {
    {
        const std::lock_guard lock(mutex_);
        const auto is_noted = [this](const PendingCall& call) { return find(call) != nullptr; };
        if (std::ranges::none_of(state->pending, is_noted)) return state;
    }
    auto noted = std::make_shared<SessionState>(*state);
    apply_to(*noted);
    return noted;
}

std::size_t CallNotes::size() const {
    const std::lock_guard lock(mutex_);
    return notes_.size();
}

const CallNotes::Note* CallNotes::find(const PendingCall& call) const {
    if (notes_.empty() || !is_open(call.status)) return nullptr;
    const auto found = notes_.find(call.pending_id);
    return found == notes_.end() ? nullptr : &found->second;
}

}  // namespace rouse
