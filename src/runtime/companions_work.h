#pragma once

// What SessionCompanions works on while it looks at one commit.

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "runtime/commit_draft.h"
#include "runtime/session_companions.h"

namespace rouse {

struct SessionCompanions::Work {
    Work(const SessionState& state, Commit& the_commit, Store& store, Clock& clock)
        : after(state), commit(the_commit), draft(the_commit, store, clock) {}

    // What another tool says in its metadata is somebody else's word; what a fork copied was done
    // by the session that it was copied from.
    bool is_result_of(const ToolCompleted& done, std::string_view tool) const {
        if (!after.run) return false;
        const auto call = std::ranges::find(after.calls, done.call_id, &TurnCall::call_id);
        return call != after.calls.end() && call->tool == tool;
    }

    // Where the session's log ends before the commit.
    Seq last_before() const { return after.last_seq - records.size(); }

    const SessionState& after;
    Commit& commit;
    CommitDraft draft;                            // of the other logs
    std::vector<const RecordBody*> records = {};  // of the session, as they came
    Records more = {};                            // that follow in the same log
    std::vector<SessionId> to_drive = {};
    std::map<std::string, std::uint32_t> wakes = {};  // that this commit adds, by chain
    struct Woken {
        SessionId session;
        std::size_t message_bytes;
    };
    std::vector<Woken> woken = {};
    std::vector<Letter> mail_queued = {};
    RunId given_up = {};  // whose children have nobody to answer
    bool webhook = false;
    bool begins_wait = false;  // for another session
};

}  // namespace rouse
