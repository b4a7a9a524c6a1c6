#pragma once

// What workers say of their calls more often than the log has to know: leases that they renew and
// progress that they report. Kept in memory alone, laid over the state that the log gives, and gone
// with the process: at a boot every call that a worker held waits again, whatever was said of it.
//
// From any thread.

#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "base/time.h"
#include "domain/state.h"

namespace rouse {

class CallNotes final {
 public:
    // A lease is renewed here while half of it is left by the log, and in the log after that.
    // `recorded` is the lease as the log has it; with another one there, the note says nothing.
    void renew(const PendingId& call, Timestamp recorded, Timestamp until);

    // True when the log got a report of this call so lately that it does not need the next one.
    bool was_recorded_lately(const PendingId& call, Timestamp now) const;
    void recorded(const PendingId& call, Timestamp at);
    // `before` is the progress as the log has it; with another one there, the note says nothing.
    void report(const PendingId& call, Progress before, Progress now);

    // What the log does not have of an open call.
    std::optional<Progress> unrecorded(const PendingCall& call) const;

    void forget_lease(const PendingId& call);  // the log has another one, or none
    void forget(const PendingId& call);

    // Adds what was said since to a state that the log gave.
    void apply_to(SessionState& state) const;
    // The same; this very object where that is nothing.
    std::shared_ptr<const SessionState> over(std::shared_ptr<const SessionState> state) const;

    std::size_t size() const;

 private:
    struct Note {
        std::optional<Timestamp> recorded_lease;
        Timestamp lease_until{};
        std::optional<Timestamp> recorded_at;  // the latest progress in the log
        Progress recorded_progress;
        std::optional<Progress> progress;
    };
    const Note* find(const PendingCall& call) const;  // of an open call

    mutable std::mutex mutex_;
    std::unordered_map<PendingId, Note> notes_;
};

}  // namespace rouse
