#pragma once

// What is true of a session now: the fold of its log (fold.h). It stays small however long the log
// grows; the transcript is a fold of its own (transcript.h), and what was settled in earlier waits
// is looked up in the log (history.h).
//
// The fields in their JSON form are the snapshot view of the session on disk.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/time.h"
#include "domain/codec.h"
#include "domain/ids.h"
#include "domain/record.h"

namespace rouse {

enum class PendingStatus : std::uint8_t {
    waiting,
    processing,
    completed,
    failed,
    expired,
    cancelled
};
template <>
inline constexpr std::string_view kEnumNames<PendingStatus>[] = {
    "waiting", "processing", "completed", "failed", "expired", "cancelled"};

constexpr bool is_open(PendingStatus status) {
    return status == PendingStatus::waiting || status == PendingStatus::processing;
}

struct PendingCall {
    PendingId pending_id;
    RunId run_id;
    CallId call_id;
    MessageId message_id;
    std::string part_id;
    std::string tool;
    PendingStatus status = PendingStatus::waiting;
    WaitsFor waits_for = WaitsFor::external;
    std::string reason;
    std::string prompt;
    RawJson metadata;
    std::string input_digest;
    Timestamp created_at{};
    std::optional<Timestamp> started_at;
    std::optional<Timestamp> settled_at;
    std::optional<Timestamp> expires_at;
    std::string external_ref;
    std::optional<std::int64_t> estimated_ms;
    std::string worker;
    std::optional<Timestamp> lease_until;
    Progress progress;
    bool by_id = false;
    std::string webhook_url;
    std::string webhook_secret_env;
    BootId local_boot;
    bool ask_if_unknown = false;
    bool repeat_if_unknown = false;
    bool warned = false;  // that its time is nearly over
    std::string digest;   // of what settled it
    bool approved = false;
    friend bool operator==(const PendingCall&, const PendingCall&) = default;
    static constexpr auto fields() {
        using S = PendingCall;
        return std::tuple(
            required("pending_id", &S::pending_id), field("run_id", &S::run_id),
            required("call_id", &S::call_id), field("message_id", &S::message_id),
            field("part_id", &S::part_id), field("tool", &S::tool), required("status", &S::status),
            required("waits_for", &S::waits_for), field("reason", &S::reason),
            field("prompt", &S::prompt), field("metadata", &S::metadata),
            field("input_digest", &S::input_digest), required("created_at", &S::created_at),
            field("started_at", &S::started_at), field("settled_at", &S::settled_at),
            field("expires_at", &S::expires_at), field("external_ref", &S::external_ref),
            field("estimated_ms", &S::estimated_ms), field("worker", &S::worker),
            field("lease_until", &S::lease_until), field("progress", &S::progress),
            field("by_id", &S::by_id), field("webhook_url", &S::webhook_url),
            field("webhook_secret_env", &S::webhook_secret_env),
            field("local_boot", &S::local_boot), field("ask_if_unknown", &S::ask_if_unknown),
            field("repeat_if_unknown", &S::repeat_if_unknown), field("warned", &S::warned),
            field("digest", &S::digest), field("approved", &S::approved));
    }
};

// When most of a call's time is over.
inline std::optional<Timestamp> warning_time(Timestamp created,
                                             const std::optional<Timestamp>& expires) {
    if (!expires) return std::nullopt;
    return created + (*expires - created) * 4 / 5;
}

enum class TokenStatus : std::uint8_t { active, consumed, revoked, expired };
template <>
inline constexpr std::string_view kEnumNames<TokenStatus>[] = {"active", "consumed", "revoked",
                                                               "expired"};

struct Token {
    TokenId token_id;
    std::string hash;
    RunId run_id;
    WaitId wait_id;
    WaitKind wait_kind = WaitKind::tool_result;
    std::optional<Timestamp> expires_at;
    TokenStatus status = TokenStatus::active;
    std::string digest;  // of the results that consumed it
    friend bool operator==(const Token&, const Token&) = default;
    static constexpr auto fields() {
        using S = Token;
        return std::tuple(required("token_id", &S::token_id), required("hash", &S::hash),
                          required("run_id", &S::run_id), required("wait_id", &S::wait_id),
                          required("wait_kind", &S::wait_kind), field("expires_at", &S::expires_at),
                          required("status", &S::status), field("digest", &S::digest));
    }
};

// Why a run is parked.
struct Wait {
    WaitId wait_id;
    WaitKind kind = WaitKind::tool_result;
    Seq since_seq = 0;
    TokenId resume_token_id;
    std::optional<Timestamp> deadline_at;
    std::string prompt = {};  // of a wait without calls
    friend bool operator==(const Wait&, const Wait&) = default;
    static constexpr auto fields() {
        using S = Wait;
        return std::tuple(required("wait_id", &S::wait_id), required("kind", &S::kind),
                          required("since_seq", &S::since_seq),
                          required("resume_token_id", &S::resume_token_id),
                          nullable("deadline_at", &S::deadline_at), field("prompt", &S::prompt));
    }
};

struct Retry {
    std::uint32_t attempt = 0;
    std::string message;
    std::optional<Timestamp> next;
    friend bool operator==(const Retry&, const Retry&) = default;
    static constexpr auto fields() {
        return std::tuple(required("attempt", &Retry::attempt), field("message", &Retry::message),
                          field("next", &Retry::next));
    }
};

enum class RunOutcome : std::uint8_t { completed, failed, cancelled, interrupted };
template <>
inline constexpr std::string_view kEnumNames<RunOutcome>[] = {"completed", "failed", "cancelled",
                                                              "interrupted"};

struct Run {
    RunId run_id;
    BootId boot_id;  // of the latest record that says which process drives it
    Timestamp started_at{};
    std::optional<Timestamp> ended_at;
    std::optional<RunOutcome> outcome;
    RunId continues;
    std::string error;
    std::string
        chain_id;  // of causes: the mail or the parent that started it, or that it was shown
    std::uint32_t hops = 0;
    RunId parent_run;  // the run of the parent that asked for it; empty: a person did, or mail
    // A resume was accepted and no step of the turn has followed yet.
    bool resume_unapplied = false;
    std::optional<Retry> retry;
    std::optional<Wait> wait;
    // Tokens paid since it began, or since a person last let it go on.
    std::int64_t unapproved_tokens = 0;
    friend bool operator==(const Run&, const Run&) = default;
    static constexpr auto fields() {
        using S = Run;
        return std::tuple(
            required("run_id", &S::run_id), required("boot_id", &S::boot_id),
            required("started_at", &S::started_at), nullable("ended_at", &S::ended_at),
            field("outcome", &S::outcome), field("continues", &S::continues),
            field("error", &S::error), field("chain_id", &S::chain_id), field("hops", &S::hops),
            field("parent_run", &S::parent_run), field("resume_unapplied", &S::resume_unapplied),
            field("retry", &S::retry), nullable("wait", &S::wait),
            field("unapproved_tokens", &S::unapproved_tokens));
    }
};

enum class WasDoing : std::uint8_t { running, waiting };
template <>
inline constexpr std::string_view kEnumNames<WasDoing>[] = {"running", "waiting"};

struct Interruption {
    RunId run_id;
    InterruptReason reason = InterruptReason::process_restart;
    Timestamp at{};
    WasDoing was_doing = WasDoing::running;
    bool exhausted = false;
    friend bool operator==(const Interruption&, const Interruption&) = default;
    static constexpr auto fields() {
        using S = Interruption;
        return std::tuple(required("run_id", &S::run_id), required("reason", &S::reason),
                          required("at", &S::at), required("while", &S::was_doing),
                          required("exhausted", &S::exhausted));
    }
};

struct Recovery {
    BootId last_boot_seen;
    std::optional<Interruption> interruption;  // until a new run starts
    std::uint32_t in_a_row = 0;                // interruptions since the last model step
    friend bool operator==(const Recovery&, const Recovery&) = default;
    static constexpr auto fields() {
        using S = Recovery;
        return std::tuple(field("last_boot_seen", &S::last_boot_seen),
                          nullable("interruption", &S::interruption),
                          field("in_a_row", &S::in_a_row));
    }
};

// How far a tool call of the latest model step has come.
enum class CallPhase : std::uint8_t { requested, started, pending, approved, settled };
template <>
inline constexpr std::string_view kEnumNames<CallPhase>[] = {"requested", "started", "pending",
                                                             "approved", "settled"};

struct TurnCall {
    CallId call_id;
    std::string tool;
    CallPhase phase = CallPhase::requested;
    std::uint32_t repeats = 0;  // as processes died under it
    friend bool operator==(const TurnCall&, const TurnCall&) = default;
    static constexpr auto fields() {
        using S = TurnCall;
        return std::tuple(required("call_id", &S::call_id), field("tool", &S::tool),
                          required("phase", &S::phase), field("repeats", &S::repeats));
    }
};

// A letter that the agent has not seen, or whose sender waits for its answer. The text is in the
// log.
struct MailRow {
    MessageId message_id;
    SessionId from;
    std::string chain_id;
    std::uint32_t hops = 0;
    bool asks = false;
    bool wakes = false;  // starts a run if there is none
    bool presented = false;
    bool offered = false;  // a run has started since it came
    bool stopped = false;  // beyond a limit of its chain: for the next run, not for one in progress
    bool may_be_shown() const { return !presented && (!stopped || offered); }
    friend bool operator==(const MailRow&, const MailRow&) = default;
    static constexpr auto fields() {
        using S = MailRow;
        return std::tuple(required("message_id", &S::message_id), field("from", &S::from),
                          field("chain_id", &S::chain_id), field("hops", &S::hops),
                          field("asks", &S::asks), field("wakes", &S::wakes),
                          field("presented", &S::presented), field("offered", &S::offered),
                          field("stopped", &S::stopped));
    }
};

struct SessionState {
    SessionId id;
    std::string title;
    std::string working_dir;
    Provider provider;
    Timestamp created_at{};
    Timestamp updated_at{};
    Seq last_seq = 0;
    std::optional<Run> run;  // the latest
    Recovery recovery;
    std::string agent;
    std::string task_id;
    std::string alias;
    std::string external_id;
    std::optional<ParentRef> parent;
    std::optional<ForkOrigin> forked_from;
    RawJson metadata;
    Usage usage;
    // Tokens paid by all runs since a person last let one of them go on.
    std::int64_t unapproved_tokens = 0;
    std::vector<TurnCall> calls;       // of the latest assistant message
    std::vector<PendingCall> pending;  // open ones, and those that the latest wait settled
    std::vector<Token> tokens;         // of the latest wait, the newest last
    std::uint32_t queued = 0;          // messages that no run has read yet
    std::vector<AskedBy> queued_asks;  // those of them that came from the parent
    std::vector<MailRow> mail;
    bool deleted = false;
    friend bool operator==(const SessionState&, const SessionState&) = default;
    static constexpr auto fields() {
        using S = SessionState;
        return std::tuple(
            required("id", &S::id), required("title", &S::title),
            required("working_dir", &S::working_dir), required("provider", &S::provider),
            required("created_at", &S::created_at), required("updated_at", &S::updated_at),
            required("last_seq", &S::last_seq), nullable("run", &S::run),
            required("recovery", &S::recovery), field("agent", &S::agent),
            field("task_id", &S::task_id), field("alias", &S::alias),
            field("external_id", &S::external_id), field("parent", &S::parent),
            field("forked_from", &S::forked_from), field("metadata", &S::metadata),
            field("usage", &S::usage), field("unapproved_tokens", &S::unapproved_tokens),
            field("calls", &S::calls), field("pending", &S::pending), field("tokens", &S::tokens),
            field("queued", &S::queued), field("queued_asks", &S::queued_asks),
            field("mail", &S::mail), field("deleted", &S::deleted));
    }

    bool run_is_open() const { return run && !run->outcome; }
    bool is_parked() const { return run_is_open() && run->wait; }
    const PendingCall* find_pending(const PendingId& pending_id) const;
    const Token* find_token(const TokenId& token_id) const;
    std::size_t open_calls() const;
};

// A clock that went back does not undo what the log has seen: rules never use an earlier time than
// that of the last record.
inline Timestamp clamped(const SessionState& state, Timestamp now) {
    return now < state.updated_at ? state.updated_at : now;
}

}  // namespace rouse
