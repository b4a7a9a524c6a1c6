#pragma once

// Records of runs, and of the tokens that resume them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/time.h"
#include "domain/record_words.h"

namespace rouse {

// ---- runs -----------------------------------------------------------------------------------

struct RunStarted {
    RunId run_id;
    BootId boot_id;
    RunId continues;            // the interrupted run that this one goes on from
    std::string chain_id = {};  // of the mail or the parent that caused it; empty: nobody's
    std::uint32_t hops = 0;
    RunId parent_run = {};  // that goes on with this session; of a first run session.created has it
    ROUSE_RECORD(RunStarted, "run.started");
    static constexpr auto fields() {
        using S = RunStarted;
        return std::tuple(required("run_id", &S::run_id), required("boot_id", &S::boot_id),
                          field("continues", &S::continues), field("chain_id", &S::chain_id),
                          field("hops", &S::hops), field("parent_run", &S::parent_run));
    }
};

// Again with the same wait_id, it moves the deadline (and with it the token's) or names a new
// token.
struct RunWaiting {
    RunId run_id;
    WaitId wait_id;
    WaitKind wait_kind = WaitKind::tool_result;
    TokenId resume_token_id;
    std::optional<Timestamp> deadline_at;
    std::string prompt = {};  // of a wait without calls: why, and what would let it go on
    ROUSE_RECORD(RunWaiting, "run.waiting");
    static constexpr auto fields() {
        using S = RunWaiting;
        return std::tuple(required("run_id", &S::run_id), required("wait_id", &S::wait_id),
                          required("wait_kind", &S::wait_kind),
                          required("resume_token_id", &S::resume_token_id),
                          field("deadline_at", &S::deadline_at), field("prompt", &S::prompt));
    }
};

struct RunResumed {
    RunId run_id;
    BootId boot_id;
    WaitId wait_id;
    ResumeReason reason = ResumeReason::result;
    ROUSE_RECORD(RunResumed, "run.resumed");
    static constexpr auto fields() {
        using S = RunResumed;
        return std::tuple(required("run_id", &S::run_id), required("boot_id", &S::boot_id),
                          required("wait_id", &S::wait_id), required("reason", &S::reason));
    }
};

// A resume was accepted by an earlier boot and nothing came of it: this boot drives it.
struct RunRedriven {
    RunId run_id;
    BootId boot_id;
    ROUSE_RECORD(RunRedriven, "run.redriven");
    static constexpr auto fields() {
        return std::tuple(required("run_id", &RunRedriven::run_id),
                          required("boot_id", &RunRedriven::boot_id));
    }
};

struct RunRetrying {
    RunId run_id;
    std::uint32_t attempt = 0;
    std::string message;
    std::optional<Timestamp> next;
    ROUSE_RECORD(RunRetrying, "run.retrying");
    static constexpr auto fields() {
        using S = RunRetrying;
        return std::tuple(required("run_id", &S::run_id), required("attempt", &S::attempt),
                          field("message", &S::message), field("next", &S::next));
    }
};

// The conversation was not as the model's provider wants it, and was sent with these changes. The
// log itself stays as it is.
struct ContextRepaired {
    RunId run_id;
    std::vector<std::string> changes;
    ROUSE_RECORD(ContextRepaired, "context.repaired");
    static constexpr auto fields() {
        return std::tuple(required("run_id", &ContextRepaired::run_id),
                          required("changes", &ContextRepaired::changes));
    }
};

struct RunCompleted {
    RunId run_id;
    ROUSE_RECORD(RunCompleted, "run.completed");
    static constexpr auto fields() { return std::tuple(required("run_id", &RunCompleted::run_id)); }
};

// The reason of a run that a hook vetoed: its turn is not part of the conversation.
inline constexpr std::string_view kHookAbort = "hook_abort";

struct RunFailed {
    RunId run_id;
    std::string reason;  // a code for programs
    std::string error;   // for people
    ROUSE_RECORD(RunFailed, "run.failed");
    static constexpr auto fields() {
        return std::tuple(required("run_id", &RunFailed::run_id),
                          field("reason", &RunFailed::reason), field("error", &RunFailed::error));
    }
};

struct RunCancelled {
    RunId run_id;
    std::string reason;
    ROUSE_RECORD(RunCancelled, "run.cancelled");
    static constexpr auto fields() {
        return std::tuple(required("run_id", &RunCancelled::run_id),
                          field("reason", &RunCancelled::reason));
    }
};

struct RunInterrupted {
    RunId run_id;
    InterruptReason reason = InterruptReason::process_restart;
    bool exhausted = false;  // too many in a row: nobody goes on by itself
    ROUSE_RECORD(RunInterrupted, "run.interrupted");
    static constexpr auto fields() {
        using S = RunInterrupted;
        return std::tuple(required("run_id", &S::run_id), required("reason", &S::reason),
                          field("exhausted", &S::exhausted));
    }
};

// ---- resume tokens --------------------------------------------------------------------------

struct TokenMinted {
    TokenId token_id;
    std::string hash;
    RunId run_id;
    WaitId wait_id;
    WaitKind wait_kind = WaitKind::tool_result;
    std::optional<Timestamp> expires_at;
    ROUSE_RECORD(TokenMinted, "token.minted");
    static constexpr auto fields() {
        using S = TokenMinted;
        return std::tuple(required("token_id", &S::token_id), required("hash", &S::hash),
                          required("run_id", &S::run_id), required("wait_id", &S::wait_id),
                          required("wait_kind", &S::wait_kind),
                          field("expires_at", &S::expires_at));
    }
};

struct TokenConsumed {
    TokenId token_id;
    WaitId wait_id;
    ResumeReason reason = ResumeReason::result;
    std::string digest;  // of the results that came with the token, if any did
    ROUSE_RECORD(TokenConsumed, "token.consumed");
    static constexpr auto fields() {
        using S = TokenConsumed;
        return std::tuple(required("token_id", &S::token_id), required("wait_id", &S::wait_id),
                          required("reason", &S::reason), field("digest", &S::digest));
    }
};

struct TokenRevoked {
    TokenId token_id;
    std::string reason;  // rotated, cancelled, superseded, interrupted, deleted, failed
    ROUSE_RECORD(TokenRevoked, "token.revoked");
    static constexpr auto fields() {
        return std::tuple(required("token_id", &TokenRevoked::token_id),
                          required("reason", &TokenRevoked::reason));
    }
};

struct TokenExpired {
    TokenId token_id;
    ROUSE_RECORD(TokenExpired, "token.expired");
    static constexpr auto fields() {
        return std::tuple(required("token_id", &TokenExpired::token_id));
    }
};

}  // namespace rouse
