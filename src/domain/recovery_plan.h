#pragma once

// What a boot must write into a session's log before anything else happens to it. Same bytes, same
// plan; once its records are in the log, the plan is empty.

#include "domain/rules.h"
#include "domain/token_rules.h"

namespace rouse {

struct BootFacts {
    BootId boot;
    Timestamp now{};
    // For a run that died between the start of an async call and its park: it parks now.
    WaitId spare_wait;
    NewToken spare_token;
};

enum class RecoveryAction : std::uint8_t {
    none,
    interrupted,  // a run died; somebody may let it go on
    redriven,     // a result was accepted and must still be applied: drive it now
    parked,       // a run that died over a started async call waits for it
    repaired,     // a parked run stays parked: leases came back, calls expired
    resumed       // the last open call expired: drive it now
};

struct RecoveryPlan {
    RecoveryAction action = RecoveryAction::none;
    Records records;
};

RecoveryPlan plan_recovery(const SessionState& state, const BootFacts& facts);

// For the person who is asked about a call that may or may not have done its work.
std::string lost_call_question(const std::string& tool);

// A clean shutdown: what computes is marked as left, what is parked stays.
Records plan_shutdown(const SessionState& state);

}  // namespace rouse
