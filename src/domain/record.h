#pragma once

// The records of a session's log, as typed values. A record is written once and never changed;
// everything else the product knows is computed from them (fold.h).
//
// The order of the fields here is the order on disk. docs/log_format.md describes them for readers
// outside this program.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "base/time.h"
#include "domain/codec.h"
#include "domain/ids.h"
#include "domain/message.h"

namespace rouse {

// ---- words that are stored ------------------------------------------------------------------

// Whom a pending call waits for.
enum class WaitsFor : std::uint8_t { external, person, timer, child, message };
template <>
inline constexpr std::string_view kEnumNames<WaitsFor>[] = {"external", "person", "timer", "child",
                                                            "message"};

// What a parked run waits for: the kind of its calls if they agree, else tool_result; a wait
// without calls is user_input.
enum class WaitKind : std::uint8_t {
    external,
    person,
    timer,
    child,
    message,
    tool_result,
    user_input
};
template <>
inline constexpr std::string_view kEnumNames<WaitKind>[] = {
    "external", "person", "timer", "child", "message", "tool_result", "user_input"};

enum class InterruptReason : std::uint8_t { process_restart, process_exit, wait_timeout };
template <>
inline constexpr std::string_view kEnumNames<InterruptReason>[] = {"process_restart",
                                                                   "process_exit", "wait_timeout"};

// Why a wait ended in a resume.
enum class ResumeReason : std::uint8_t { result, expired, cancelled, input };
template <>
inline constexpr std::string_view kEnumNames<ResumeReason>[] = {"result", "expired", "cancelled",
                                                                "input"};

enum class SessionStatus : std::uint8_t {
    idle,
    running,
    waiting,
    interrupted_waiting,
    interrupted_startup
};
template <>
inline constexpr std::string_view kEnumNames<SessionStatus>[] = {
    "idle", "running", "waiting", "interrupted_waiting", "interrupted_startup"};

struct Provider {
    std::string type;
    std::string model;
    bool chosen = false;  // for this session; else it is what the agent had when it was made
    Extra extra = {};
    friend bool operator==(const Provider&, const Provider&) = default;
    static constexpr auto fields() {
        return std::tuple(field("type", &Provider::type), field("model", &Provider::model),
                          field("chosen", &Provider::chosen));
    }
};

// The call of another session that this session is the answer to.
struct ParentRef {
    SessionId session_id;
    RunId run_id;
    CallId call_id;
    Extra extra = {};
    friend bool operator==(const ParentRef&, const ParentRef&) = default;
    static constexpr auto fields() {
        return std::tuple(required("session_id", &ParentRef::session_id),
                          field("run_id", &ParentRef::run_id),
                          field("call_id", &ParentRef::call_id));
    }
};

// The call of a session's parent that goes on with it.
struct AskedBy {
    RunId run_id;
    CallId call_id;
    std::string chain_id;  // of causes
    std::uint32_t hops = 0;
    Extra extra = {};
    friend bool operator==(const AskedBy&, const AskedBy&) = default;
    static constexpr auto fields() {
        using S = AskedBy;
        return std::tuple(required("run_id", &S::run_id), field("call_id", &S::call_id),
                          field("chain_id", &S::chain_id), field("hops", &S::hops));
    }
};

struct ForkOrigin {
    SessionId session_id;
    Seq at_seq = 0;
    Extra extra = {};
    friend bool operator==(const ForkOrigin&, const ForkOrigin&) = default;
    static constexpr auto fields() {
        return std::tuple(required("session_id", &ForkOrigin::session_id),
                          required("at_seq", &ForkOrigin::at_seq));
    }
};

struct Progress {
    std::optional<std::int32_t> percent;
    std::string message;
    Extra extra = {};
    friend bool operator==(const Progress&, const Progress&) = default;
    static constexpr auto fields() {
        return std::tuple(field("percent", &Progress::percent),
                          field("message", &Progress::message));
    }
};

// Every record type below has a kKind, its fields, and what it did not understand.
#define ROUSE_RECORD(Type, kind)                    \
    static constexpr std::string_view kKind = kind; \
    Extra extra = {};                               \
    friend bool operator==(const Type&, const Type&) = default

// ---- the session itself ---------------------------------------------------------------------

struct SessionCreated {
    SessionId id;
    std::string title;
    std::string agent;
    std::string working_dir;
    Provider provider;
    std::string task_id;
    std::string alias;
    std::string external_id;
    std::optional<ParentRef> parent;
    RawJson metadata;
    ROUSE_RECORD(SessionCreated, "session.created");
    static constexpr auto fields() {
        using S = SessionCreated;
        return std::tuple(required("id", &S::id), field("title", &S::title),
                          field("agent", &S::agent), field("working_dir", &S::working_dir),
                          field("provider", &S::provider), field("task_id", &S::task_id),
                          field("alias", &S::alias), field("external_id", &S::external_id),
                          field("parent", &S::parent), field("metadata", &S::metadata));
    }
};

// Carries the new value of each field that changed.
struct SessionUpdated {
    std::optional<std::string> title;
    std::optional<std::string> alias;
    RawJson metadata;
    ROUSE_RECORD(SessionUpdated, "session.updated");
    static constexpr auto fields() {
        return std::tuple(field("title", &SessionUpdated::title),
                          field("alias", &SessionUpdated::alias),
                          field("metadata", &SessionUpdated::metadata));
    }
};

// In the fork's own log; the messages that it took over follow as records of their own.
struct SessionForked {
    ForkOrigin from;
    std::uint64_t copied = 0;  // how many records follow that were taken over
    ROUSE_RECORD(SessionForked, "session.forked");
    static constexpr auto fields() {
        return std::tuple(required("from", &SessionForked::from),
                          field("copied", &SessionForked::copied));
    }
};

// Tells the context builder to show `summary` for everything up to `upto_seq`. Removes nothing.
struct SessionCompacted {
    Seq upto_seq = 0;
    std::string summary;
    ROUSE_RECORD(SessionCompacted, "session.compacted");
    static constexpr auto fields() {
        return std::tuple(required("upto_seq", &SessionCompacted::upto_seq),
                          required("summary", &SessionCompacted::summary));
    }
};

// The last record of a session's log, and, with session_id, its tombstone in the system log.
struct SessionDeleted {
    SessionId session_id;
    ROUSE_RECORD(SessionDeleted, "session.deleted");
    static constexpr auto fields() {
        return std::tuple(field("session_id", &SessionDeleted::session_id));
    }
};

// ---- messages -------------------------------------------------------------------------------

struct MessageUser {
    MessageId message_id;
    Content content;
    bool queued = false;  // arrived while a run was busy: read by its next context or the next run
    std::optional<AskedBy> asked_by = {};  // absent: a person, or the first message of a child
    ROUSE_RECORD(MessageUser, "message.user");
    static constexpr auto fields() {
        using S = MessageUser;
        return std::tuple(required("message_id", &S::message_id), required("content", &S::content),
                          field("queued", &S::queued), field("asked_by", &S::asked_by));
    }
};

struct MessageAssistant {
    MessageId message_id;
    RunId run_id;
    Content content;
    std::string model;
    std::string stop_reason;
    Usage usage;
    ROUSE_RECORD(MessageAssistant, "message.assistant");
    static constexpr auto fields() {
        using S = MessageAssistant;
        return std::tuple(required("message_id", &S::message_id), field("run_id", &S::run_id),
                          required("content", &S::content), field("model", &S::model),
                          field("stop_reason", &S::stop_reason), field("usage", &S::usage));
    }
};

struct MessageSystem {
    MessageId message_id;
    Content content;
    ROUSE_RECORD(MessageSystem, "message.system");
    static constexpr auto fields() {
        return std::tuple(required("message_id", &MessageSystem::message_id),
                          required("content", &MessageSystem::content));
    }
};

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

// ---- tool calls made by us ------------------------------------------------------------------

struct ToolStarted {
    RunId run_id;
    CallId call_id;
    std::string tool;
    ROUSE_RECORD(ToolStarted, "tool.started");
    static constexpr auto fields() {
        using S = ToolStarted;
        return std::tuple(field("run_id", &S::run_id), required("call_id", &S::call_id),
                          field("tool", &S::tool));
    }
};

struct ToolCompleted {
    CallId call_id;
    ToolResult result;
    ROUSE_RECORD(ToolCompleted, "tool.completed");
    static constexpr auto fields() {
        return std::tuple(required("call_id", &ToolCompleted::call_id),
                          required("result", &ToolCompleted::result));
    }
};

struct ToolFailed {
    CallId call_id;
    std::string error;
    std::string reason;
    ROUSE_RECORD(ToolFailed, "tool.failed");
    static constexpr auto fields() {
        using S = ToolFailed;
        return std::tuple(required("call_id", &S::call_id), required("error", &S::error),
                          field("reason", &S::reason));
    }
};

// ---- tool calls whose result comes later ----------------------------------------------------

struct PendingCreated {
    PendingId pending_id;
    RunId run_id;
    CallId call_id;
    MessageId message_id;
    std::string part_id;
    std::string tool;
    WaitsFor waits_for = WaitsFor::external;
    std::string reason;  // input_required, auth_required, approval_required
    std::string prompt;
    RawJson metadata;
    std::string input_digest;
    RawJson input;                        // only when it is not what the model wrote
    std::optional<Timestamp> expires_at;  // absent: never
    bool by_id = false;                   // whoever was told the id may settle the call with it
    std::string webhook_url;              // told when somebody else does
    std::string webhook_secret_env;       // the name of the variable, never the secret
    BootId local_boot;                    // set while the call runs inside this very process
    bool ask_if_unknown = false;          // a person says how it went if that process dies
    bool repeat_if_unknown = false;       // it runs again if that process dies
    ROUSE_RECORD(PendingCreated, "pending.created");
    static constexpr auto fields() {
        using S = PendingCreated;
        return std::tuple(required("pending_id", &S::pending_id), field("run_id", &S::run_id),
                          required("call_id", &S::call_id), field("message_id", &S::message_id),
                          field("part_id", &S::part_id), field("tool", &S::tool),
                          required("waits_for", &S::waits_for), field("reason", &S::reason),
                          field("prompt", &S::prompt), field("metadata", &S::metadata),
                          field("input_digest", &S::input_digest), field("input", &S::input),
                          field("expires_at", &S::expires_at), field("by_id", &S::by_id),
                          field("webhook_url", &S::webhook_url),
                          field("webhook_secret_env", &S::webhook_secret_env),
                          field("local_boot", &S::local_boot),
                          field("ask_if_unknown", &S::ask_if_unknown),
                          field("repeat_if_unknown", &S::repeat_if_unknown));
    }
};

// The call waits (again): the outside confirmed the start, a lease ended, or its time was moved.
struct PendingWaiting {
    PendingId pending_id;
    // started, released, lease_expired, process_restart, extended, outcome_unknown
    std::string reason;
    std::string external_ref;
    std::optional<std::int64_t> estimated_ms;
    std::optional<Timestamp> expires_at;
    std::string prompt = {};  // what the tool said when it had started
    RawJson metadata = {};
    ROUSE_RECORD(PendingWaiting, "pending.waiting");
    static constexpr auto fields() {
        using S = PendingWaiting;
        return std::tuple(required("pending_id", &S::pending_id), field("reason", &S::reason),
                          field("external_ref", &S::external_ref),
                          field("estimated_ms", &S::estimated_ms),
                          field("expires_at", &S::expires_at), field("prompt", &S::prompt),
                          field("metadata", &S::metadata));
    }
};

struct PendingProcessing {
    PendingId pending_id;
    std::string worker;
    Timestamp lease_until{};
    ROUSE_RECORD(PendingProcessing, "pending.processing");
    static constexpr auto fields() {
        using S = PendingProcessing;
        return std::tuple(required("pending_id", &S::pending_id), required("worker", &S::worker),
                          required("lease_until", &S::lease_until));
    }
};

struct PendingProgress {
    PendingId pending_id;
    Progress progress;
    ROUSE_RECORD(PendingProgress, "pending.progress");
    static constexpr auto fields() {
        return std::tuple(required("pending_id", &PendingProgress::pending_id),
                          required("progress", &PendingProgress::progress));
    }
};

// Most of its time is over; written where somebody wants to be told.
struct PendingExpiring {
    PendingId pending_id;
    Timestamp expires_at{};
    ROUSE_RECORD(PendingExpiring, "pending.expiring");
    static constexpr auto fields() {
        return std::tuple(required("pending_id", &PendingExpiring::pending_id),
                          required("expires_at", &PendingExpiring::expires_at));
    }
};

struct PendingCompleted {
    PendingId pending_id;
    CallId call_id;
    ToolResult result;
    std::string digest;
    ROUSE_RECORD(PendingCompleted, "pending.completed");
    static constexpr auto fields() {
        using S = PendingCompleted;
        return std::tuple(required("pending_id", &S::pending_id), required("call_id", &S::call_id),
                          required("result", &S::result), required("digest", &S::digest));
    }
};

struct PendingFailed {
    PendingId pending_id;
    CallId call_id;
    std::string error;
    std::string digest;
    ROUSE_RECORD(PendingFailed, "pending.failed");
    static constexpr auto fields() {
        using S = PendingFailed;
        return std::tuple(required("pending_id", &S::pending_id), required("call_id", &S::call_id),
                          required("error", &S::error), required("digest", &S::digest));
    }
};

struct PendingExpired {
    PendingId pending_id;
    CallId call_id;
    std::string error;
    ROUSE_RECORD(PendingExpired, "pending.expired");
    static constexpr auto fields() {
        using S = PendingExpired;
        return std::tuple(required("pending_id", &S::pending_id), required("call_id", &S::call_id),
                          required("error", &S::error));
    }
};

struct PendingCancelled {
    PendingId pending_id;
    CallId call_id;
    std::string reason;  // cancelled, superseded, vetoed, deleted, interrupted
    std::string error;   // what the model is told
    ROUSE_RECORD(PendingCancelled, "pending.cancelled");
    static constexpr auto fields() {
        using S = PendingCancelled;
        return std::tuple(required("pending_id", &S::pending_id), required("call_id", &S::call_id),
                          required("reason", &S::reason), required("error", &S::error));
    }
};

// The call runs when the turn goes on: a person let it, with the edited input if there is one, or
// the process died under it and it may run again.
struct PendingApproved {
    PendingId pending_id;
    CallId call_id;
    std::string input_digest;
    RawJson input;       // only when the person changed it
    std::string reason;  // process_restart; absent: a person said so
    ROUSE_RECORD(PendingApproved, "pending.approved");
    static constexpr auto fields() {
        using S = PendingApproved;
        return std::tuple(required("pending_id", &S::pending_id), required("call_id", &S::call_id),
                          required("input_digest", &S::input_digest), field("input", &S::input),
                          field("reason", &S::reason));
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

// ---- mail between agents --------------------------------------------------------------------

struct InboxReceived {
    MessageId message_id;
    std::string from;
    std::string text;
    MessageId reply_to;
    std::string chain_id;
    std::uint32_t hops = 0;
    SessionId from_session = {};  // empty: a person
    std::string quote = {};       // the beginning of what it answers
    bool asks = false;            // the sender's turn waits for the answer
    bool quiet = false;           // wakes nobody
    std::string stopped = {};     // why its chain wakes nobody any more: hops, wakes
    ROUSE_RECORD(InboxReceived, "inbox.received");
    static constexpr auto fields() {
        using S = InboxReceived;
        return std::tuple(required("message_id", &S::message_id), required("from", &S::from),
                          required("text", &S::text), field("reply_to", &S::reply_to),
                          field("chain_id", &S::chain_id), field("hops", &S::hops),
                          field("from_session", &S::from_session), field("quote", &S::quote),
                          field("asks", &S::asks), field("quiet", &S::quiet),
                          field("stopped", &S::stopped));
    }
};

// Holds the rendered text: it is the transcript entry.
struct InboxPresented {
    std::vector<MessageId> message_ids;
    RunId run_id;
    std::string text;
    ROUSE_RECORD(InboxPresented, "inbox.presented");
    static constexpr auto fields() {
        using S = InboxPresented;
        return std::tuple(required("message_ids", &S::message_ids), field("run_id", &S::run_id),
                          required("text", &S::text));
    }
};

struct InboxHandled {
    MessageId message_id;
    MessageId by;  // the reply
    ROUSE_RECORD(InboxHandled, "inbox.handled");
    static constexpr auto fields() {
        return std::tuple(required("message_id", &InboxHandled::message_id),
                          field("by", &InboxHandled::by));
    }
};

struct InboxDropped {
    MessageId message_id;
    std::string reason;
    ROUSE_RECORD(InboxDropped, "inbox.dropped");
    static constexpr auto fields() {
        return std::tuple(required("message_id", &InboxDropped::message_id),
                          field("reason", &InboxDropped::reason));
    }
};

struct OutboxSent {
    MessageId message_id;
    std::vector<std::string> to;
    std::string text;
    MessageId reply_to;
    std::string chain_id;
    std::uint32_t hops = 0;
    ROUSE_RECORD(OutboxSent, "outbox.sent");
    static constexpr auto fields() {
        using S = OutboxSent;
        return std::tuple(required("message_id", &S::message_id), required("to", &S::to),
                          required("text", &S::text), field("reply_to", &S::reply_to),
                          field("chain_id", &S::chain_id), field("hops", &S::hops));
    }
};

// ---- the process ----------------------------------------------------------------------------

struct BootStarted {
    BootId boot_id;
    std::string version;
    ROUSE_RECORD(BootStarted, "boot.started");
    static constexpr auto fields() {
        return std::tuple(required("boot_id", &BootStarted::boot_id),
                          field("version", &BootStarted::version));
    }
};

struct BootRecovered {
    BootId boot_id;
    std::uint64_t waiting = 0;
    std::uint64_t expired = 0;
    std::uint64_t interrupted = 0;
    std::uint64_t redriven = 0;
    std::vector<SessionId> set_aside;
    ROUSE_RECORD(BootRecovered, "boot.recovered");
    static constexpr auto fields() {
        using S = BootRecovered;
        return std::tuple(required("boot_id", &S::boot_id), field("waiting", &S::waiting),
                          field("expired", &S::expired), field("interrupted", &S::interrupted),
                          field("redriven", &S::redriven), field("set_aside", &S::set_aside));
    }
};

struct BootStopped {
    BootId boot_id;
    ROUSE_RECORD(BootStopped, "boot.stopped");
    static constexpr auto fields() {
        return std::tuple(required("boot_id", &BootStopped::boot_id));
    }
};

// Information for readers of the log; never read back as truth.
struct StatusDerived {
    SessionStatus status = SessionStatus::idle;
    ROUSE_RECORD(StatusDerived, "status.derived");
    static constexpr auto fields() {
        return std::tuple(required("status", &StatusDerived::status));
    }
};

// A kind of a later version, or of a part that keeps its own records (executors, webhooks, tasks).
struct UnknownRecord {
    std::string kind;
    Extra extra;
    friend bool operator==(const UnknownRecord&, const UnknownRecord&) = default;
};

#undef ROUSE_RECORD

using RecordBody =
    std::variant<SessionCreated, SessionUpdated, SessionForked, SessionCompacted, SessionDeleted,
                 MessageUser, MessageAssistant, MessageSystem, RunStarted, RunWaiting, RunResumed,
                 RunRedriven, RunRetrying, ContextRepaired, RunCompleted, RunFailed, RunCancelled,
                 RunInterrupted, ToolStarted, ToolCompleted, ToolFailed, PendingCreated,
                 PendingWaiting, PendingProcessing, PendingProgress, PendingExpiring,
                 PendingCompleted, PendingFailed, PendingExpired, PendingCancelled, PendingApproved,
                 TokenMinted, TokenConsumed, TokenRevoked, TokenExpired, InboxReceived,
                 InboxPresented, InboxHandled, InboxDropped, OutboxSent, BootStarted, BootRecovered,
                 BootStopped, StatusDerived, UnknownRecord>;

struct Record {
    Seq seq = 0;
    Timestamp at{};  // the writer's wall clock: for people, never for order
    RecordBody body;
    friend bool operator==(const Record&, const Record&) = default;
};

// A record for whoever only looks: one that is about to be written need not be copied for a fold.
struct RecordView {
    Seq seq;
    Timestamp at;
    const RecordBody& body;

    RecordView(Seq seq_of, Timestamp time, const RecordBody& of)
        : seq(seq_of), at(time), body(of) {}
    RecordView(const Record& record)  // NOLINT(google-explicit-constructor)
        : RecordView(record.seq, record.at, record.body) {}
};

std::string_view kind_of(const RecordBody& body);

// The body as it stands in a line: "kind":"run.started","run_id":…
std::string render_body(const RecordBody& body);
void append_body(std::string& out, const RecordBody& body);

// One line without its newline and with or without its chain. corrupt, with what is wrong.
Result<Record> parse_record(std::string_view line);
// The same into a record that is used again and again; after an error it is worth nothing.
Result<void> read_record(std::string_view line, Record& record);

}  // namespace rouse
