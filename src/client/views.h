#pragma once

// What the server says of things, as far as the command line shows it. Words that later versions
// may add to (a status, a kind) are text here.

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "domain/codec.h"
#include "domain/ids.h"
#include "domain/message.h"
#include "domain/record.h"

namespace rouse::client {

struct PendingView {
    std::string pending_id;  // cut short for those who may only read
    CallId call_id;
    std::string tool;
    RawJson input;
    std::string input_digest;
    std::string status;
    std::string waits_for;
    std::string prompt;
    std::string reason;
    Timestamp created_at{};
    std::optional<Timestamp> expires_at;
    std::optional<Progress> progress;
    std::optional<std::string> worker;
    static constexpr auto fields() {
        using S = PendingView;
        return std::tuple(required("pending_id", &S::pending_id), required("call_id", &S::call_id),
                          required("tool", &S::tool), field("input", &S::input),
                          field("input_digest", &S::input_digest), required("status", &S::status),
                          required("waits_for", &S::waits_for), field("prompt", &S::prompt),
                          field("reason", &S::reason), required("created_at", &S::created_at),
                          field("expires_at", &S::expires_at), field("progress", &S::progress),
                          field("worker", &S::worker));
    }
    bool asks_approval() const { return reason == "approval_required"; }
};

struct WaitView {
    std::string kind;
    std::optional<Timestamp> deadline_at;
    std::string prompt;  // of a wait without calls
    // Not within a session, which says these itself.
    SessionId session_id;
    std::string title;
    std::string agent;
    std::vector<PendingView> pending;
    static constexpr auto fields() {
        using S = WaitView;
        return std::tuple(required("kind", &S::kind), field("deadline_at", &S::deadline_at),
                          field("prompt", &S::prompt), field("session_id", &S::session_id),
                          field("title", &S::title), field("agent", &S::agent),
                          field("pending", &S::pending));
    }
};

struct WaitList {
    std::vector<WaitView> items;
    std::optional<std::string> next_cursor;
    static constexpr auto fields() {
        return std::tuple(required("items", &WaitList::items),
                          field("next_cursor", &WaitList::next_cursor));
    }
};

// A session in a list.
struct SessionRow {
    SessionId id;
    std::string title;
    std::string agent;
    std::optional<std::string> task_id;
    std::string status;
    std::optional<std::string> wait_kind;
    std::uint64_t pending_count = 0;
    Timestamp updated_at{};
    static constexpr auto fields() {
        using S = SessionRow;
        return std::tuple(required("id", &S::id), field("title", &S::title),
                          field("agent", &S::agent), field("task_id", &S::task_id),
                          required("status", &S::status), field("wait_kind", &S::wait_kind),
                          field("pending_count", &S::pending_count),
                          required("updated_at", &S::updated_at));
    }
};

struct SessionList {
    std::vector<SessionRow> items;
    std::optional<std::string> next_cursor;
    static constexpr auto fields() {
        return std::tuple(required("items", &SessionList::items),
                          field("next_cursor", &SessionList::next_cursor));
    }
};

struct RunView {
    RunId run_id;
    Timestamp started_at{};
    std::optional<Timestamp> ended_at;
    std::optional<std::string> outcome;
    std::string error;
    std::optional<WaitView> wait;
    static constexpr auto fields() {
        using S = RunView;
        return std::tuple(required("run_id", &S::run_id), required("started_at", &S::started_at),
                          field("ended_at", &S::ended_at), field("outcome", &S::outcome),
                          field("error", &S::error), field("wait", &S::wait));
    }
};

struct InterruptionView {
    std::string reason;
    std::optional<Timestamp> at;
    bool exhausted = false;
    static constexpr auto fields() {
        using S = InterruptionView;
        return std::tuple(required("reason", &S::reason), field("at", &S::at),
                          field("exhausted", &S::exhausted));
    }
};

struct DamageView {
    std::string file;
    std::uint64_t offset = 0;
    std::string reason;
    static constexpr auto fields() {
        using S = DamageView;
        return std::tuple(required("file", &S::file), field("offset", &S::offset),
                          required("reason", &S::reason));
    }
};

struct SessionView {
    SessionId id;
    std::string title;
    std::string agent;
    std::optional<std::string> task_id;
    std::optional<std::string> alias;
    std::optional<ParentRef> parent;
    Provider provider;
    std::string status;
    Timestamp created_at{};
    Timestamp updated_at{};
    Seq last_seq = 0;
    std::optional<RunView> run;
    std::vector<PendingView> pending;
    Usage usage;
    std::optional<ForkOrigin> forked_from;
    std::uint64_t queued = 0;
    std::optional<DamageView> damaged;
    static constexpr auto fields() {
        using S = SessionView;
        return std::tuple(
            required("id", &S::id), field("title", &S::title), field("agent", &S::agent),
            field("task_id", &S::task_id), field("alias", &S::alias), field("parent", &S::parent),
            field("provider", &S::provider), required("status", &S::status),
            required("created_at", &S::created_at), required("updated_at", &S::updated_at),
            required("last_seq", &S::last_seq), field("run", &S::run),
            field("pending", &S::pending), field("usage", &S::usage),
            field("forked_from", &S::forked_from), field("queued", &S::queued),
            field("damaged", &S::damaged));
    }
};

// One entry of a conversation; tool calls are in its content, their outcomes in its parts.
struct ToolStateView {
    std::string status;
    std::optional<std::string> output;
    static constexpr auto fields() {
        using S = ToolStateView;
        return std::tuple(required("status", &S::status), field("output", &S::output));
    }
};

struct ToolPartView {
    CallId call_id;
    ToolStateView state;
    static constexpr auto fields() {
        using S = ToolPartView;
        return std::tuple(required("call_id", &S::call_id), required("state", &S::state));
    }
};

struct MessageView {
    Timestamp at{};
    std::string role;
    Content content;
    std::vector<ToolPartView> parts;
    bool queued = false;
    static constexpr auto fields() {
        using S = MessageView;
        return std::tuple(required("at", &S::at), required("role", &S::role),
                          required("content", &S::content), field("parts", &S::parts),
                          field("queued", &S::queued));
    }
};

struct Conversation {
    std::vector<MessageView> items;
    static constexpr auto fields() { return std::tuple(required("items", &Conversation::items)); }
};

struct LogPage {
    std::vector<RawJson> items;  // records as they are stored
    std::optional<Seq> next_seq;
    static constexpr auto fields() {
        return std::tuple(required("items", &LogPage::items),
                          field("next_seq", &LogPage::next_seq));
    }
};

struct WakeView {
    Seq seq = 0;
    Timestamp at{};
    std::string reason;
    static constexpr auto fields() {
        using S = WakeView;
        return std::tuple(required("seq", &S::seq), required("at", &S::at),
                          required("reason", &S::reason));
    }
};

struct DeadlineView {
    Timestamp at{};
    std::string what;
    static constexpr auto fields() {
        return std::tuple(required("at", &DeadlineView::at), required("what", &DeadlineView::what));
    }
};

struct Explanation {
    SessionId session_id;
    std::string status;
    std::string reason;
    std::optional<WaitView> wait;
    std::optional<WakeView> last_wake;
    std::vector<DeadlineView> deadlines;
    std::vector<std::string> concerns;
    std::optional<InterruptionView> interruption;
    static constexpr auto fields() {
        using S = Explanation;
        return std::tuple(required("session_id", &S::session_id), required("status", &S::status),
                          required("reason", &S::reason), field("wait", &S::wait),
                          field("last_wake", &S::last_wake), field("deadlines", &S::deadlines),
                          field("concerns", &S::concerns), field("interruption", &S::interruption));
    }
};

// A call in the words of /async-tool, with times in milliseconds.
struct CallTimes {
    std::int64_t created = 0;
    std::optional<std::int64_t> completed;
    static constexpr auto fields() {
        return std::tuple(required("created", &CallTimes::created),
                          field("completed", &CallTimes::completed));
    }
};

struct CallOutput {
    std::string title;
    std::string output;
    static constexpr auto fields() {
        return std::tuple(field("title", &CallOutput::title),
                          required("output", &CallOutput::output));
    }
};

struct CallView {
    std::string id;
    SessionId session_id;
    CallId call_id;
    std::string tool;
    RawJson input;
    std::string status;
    std::string waits_for;
    std::string prompt;
    std::string worker;
    std::string external_ref;
    std::optional<std::int64_t> timeout;
    std::optional<Progress> progress;
    CallTimes time;
    std::optional<CallOutput> result;
    std::string error;
    static constexpr auto fields() {
        using S = CallView;
        return std::tuple(required("id", &S::id), required("sessionID", &S::session_id),
                          required("callID", &S::call_id), required("tool", &S::tool),
                          field("input", &S::input), required("status", &S::status),
                          required("waitsFor", &S::waits_for), field("prompt", &S::prompt),
                          field("worker", &S::worker), field("externalRef", &S::external_ref),
                          field("timeout", &S::timeout), field("progress", &S::progress),
                          required("time", &S::time), field("result", &S::result),
                          field("error", &S::error));
    }
};

struct CallList {
    std::vector<CallView> pending;
    std::optional<std::string> next_cursor;
    static constexpr auto fields() {
        return std::tuple(required("pending", &CallList::pending),
                          field("next_cursor", &CallList::next_cursor));
    }
};

struct OneCall {
    CallView pending;
    static constexpr auto fields() { return std::tuple(required("pending", &OneCall::pending)); }
};

// A question of the tool ask_user to a person, and the answer as its result's text.
struct Question {
    std::string question;
    std::string type;  // confirm, select or text
    std::vector<std::string> options;
    static constexpr auto fields() {
        using S = Question;
        return std::tuple(required("question", &S::question), required("type", &S::type),
                          field("options", &S::options));
    }
};

struct QuestionAnswer {
    std::string answer;
    bool confirmed = false;
    static constexpr auto fields() {
        return std::tuple(required("answer", &QuestionAnswer::answer),
                          field("confirmed", &QuestionAnswer::confirmed));
    }
};

// The answer to whatever moves a session on; each command gives some of it.
struct Moved {
    SessionId session_id;
    RunId run_id;
    Seq seq = 0;
    bool queued = false;
    bool duplicate = false;
    std::vector<CallId> remaining;
    static constexpr auto fields() {
        using S = Moved;
        return std::tuple(field("session_id", &S::session_id), field("run_id", &S::run_id),
                          field("seq", &S::seq), field("queued", &S::queued),
                          field("duplicate", &S::duplicate), field("remaining", &S::remaining));
    }
};

struct Settled {
    SessionId session_id;
    bool duplicate = false;
    static constexpr auto fields() {
        return std::tuple(required("sessionID", &Settled::session_id),
                          field("duplicate", &Settled::duplicate));
    }
};

struct TokenView {
    std::string id;
    std::string name;
    std::string scope;
    std::vector<std::string> tasks;
    std::optional<Timestamp> created_at;
    std::string token;  // when it was just made
    static constexpr auto fields() {
        using S = TokenView;
        return std::tuple(required("id", &S::id), field("name", &S::name),
                          required("scope", &S::scope), field("tasks", &S::tasks),
                          field("created_at", &S::created_at), field("token", &S::token));
    }
};

struct MailStopView {
    std::string alias;
    SessionId session_id;
    std::string action;
    std::string reason;
    static constexpr auto fields() {
        using S = MailStopView;
        return std::tuple(required("alias", &S::alias), required("session_id", &S::session_id),
                          required("action", &S::action), field("reason", &S::reason));
    }
};
struct MailSent {
    std::string message_id;
    std::vector<MailStopView> delivered;
    static constexpr auto fields() {
        return std::tuple(required("message_id", &MailSent::message_id),
                          required("delivered", &MailSent::delivered));
    }
};

struct LetterView {
    std::string message_id;
    std::string from;
    std::string text;
    std::optional<Timestamp> received_at;
    bool presented = false;
    bool handled = false;
    static constexpr auto fields() {
        using S = LetterView;
        return std::tuple(required("message_id", &S::message_id), required("from", &S::from),
                          required("text", &S::text), field("received_at", &S::received_at),
                          field("presented", &S::presented), field("handled", &S::handled));
    }
};
struct LetterList {
    std::vector<LetterView> items;
    std::optional<std::string> next_cursor;
    static constexpr auto fields() {
        return std::tuple(required("items", &LetterList::items),
                          field("next_cursor", &LetterList::next_cursor));
    }
};

struct TokenList {
    std::vector<TokenView> items;
    std::optional<std::string> next_cursor;
    static constexpr auto fields() {
        return std::tuple(required("items", &TokenList::items),
                          field("next_cursor", &TokenList::next_cursor));
    }
};

// Told with each change of a session.
struct StatusView {
    std::string status;
    Seq seq = 0;
    static constexpr auto fields() {
        return std::tuple(required("status", &StatusView::status),
                          required("seq", &StatusView::seq));
    }
};

struct DeltaView {
    RunId run_id;
    MessageId message_id;  // that the whole message will have in the log
    std::uint64_t at = 0;  // bytes of the message that came before
    std::string text;
    static constexpr auto fields() {
        using S = DeltaView;
        return std::tuple(required("run_id", &S::run_id), required("message_id", &S::message_id),
                          required("at", &S::at), required("text", &S::text));
    }
};

}  // namespace rouse::client
