#pragma once

// The records of the system log that belong to no session: tasks, API tokens, answers to requests
// that may come again, webhooks on their way. In a commit they travel as records of unknown kind,
// since no session folds them.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "domain/mail.h"
#include "domain/record.h"

namespace rouse {

enum class TaskState : std::uint8_t { todo, in_progress, review, done };
template <>
inline constexpr std::string_view kEnumNames<TaskState>[] = {"TODO", "IN_PROGRESS", "REVIEW",
                                                             "DONE"};

// What a person wants done; groups sessions. The record carries the task as it is from now on.
struct TaskSaved {
    static constexpr std::string_view kKind = "task.saved";
    std::string task_id;
    std::string title;
    TaskState state = TaskState::todo;
    friend bool operator==(const TaskSaved&, const TaskSaved&) = default;
    static constexpr auto fields() {
        using S = TaskSaved;
        return std::tuple(required("task_id", &S::task_id), field("title", &S::title),
                          required("state", &S::state));
    }
};

// Only what is different from now on: two changes at the same moment undo nothing of each other.
struct TaskChanged {
    static constexpr std::string_view kKind = "task.changed";
    std::string task_id;
    std::optional<std::string> title;
    std::optional<TaskState> state;
    friend bool operator==(const TaskChanged&, const TaskChanged&) = default;
    static constexpr auto fields() {
        using S = TaskChanged;
        return std::tuple(required("task_id", &S::task_id), field("title", &S::title),
                          field("state", &S::state));
    }
};

// What a caller may do; each includes the ones before.
enum class Scope : std::uint8_t { read, submit, operate, admin };
template <>
inline constexpr std::string_view kEnumNames<Scope>[] = {"read", "submit", "operate", "admin"};

struct ApiTokenCreated {
    static constexpr std::string_view kKind = "apitoken.created";
    std::string token_id;
    std::string hash;  // of the secret
    std::string name;
    Scope scope = Scope::read;
    std::vector<std::string> tasks;  // only sessions of these; empty: all
    friend bool operator==(const ApiTokenCreated&, const ApiTokenCreated&) = default;
    static constexpr auto fields() {
        using S = ApiTokenCreated;
        return std::tuple(required("token_id", &S::token_id), required("hash", &S::hash),
                          field("name", &S::name), required("scope", &S::scope),
                          field("tasks", &S::tasks));
    }
};
struct ApiTokenRevoked {
    static constexpr std::string_view kKind = "apitoken.revoked";
    std::string token_id;
    friend bool operator==(const ApiTokenRevoked&, const ApiTokenRevoked&) = default;
    static constexpr auto fields() {
        return std::tuple(required("token_id", &ApiTokenRevoked::token_id));
    }
};

// In the commit that the answer tells of.
struct RequestAnswered {
    static constexpr std::string_view kKind = "request.answered";
    std::string key;  // a digest of who asked, what, and the key they chose
    std::string body_digest;
    std::int32_t status = 0;
    std::string location;
    RawJson answer;
    SessionId session_id = {};  // with run_id: whose outcome can be waited for
    RunId run_id = {};
    Seq last_seq = 0;     // of the change
    bool queued = false;  // a message that the run does not read, but a later one
    friend bool operator==(const RequestAnswered&, const RequestAnswered&) = default;
    static constexpr auto fields() {
        using S = RequestAnswered;
        return std::tuple(required("key", &S::key), required("body_digest", &S::body_digest),
                          required("status", &S::status), field("location", &S::location),
                          required("answer", &S::answer), field("session_id", &S::session_id),
                          field("run_id", &S::run_id), field("last_seq", &S::last_seq),
                          field("queued", &S::queued));
    }
};

// In the commit that it tells of.
struct WebhookQueued {
    static constexpr std::string_view kKind = "webhook.queued";
    std::string delivery_id;
    std::string url;
    std::string secret_env;
    std::string type;
    SessionId session_id;
    RawJson data;
    Timestamp queued_at{};
    friend bool operator==(const WebhookQueued&, const WebhookQueued&) = default;
    static constexpr auto fields() {
        using S = WebhookQueued;
        return std::tuple(required("delivery_id", &S::delivery_id), required("url", &S::url),
                          field("secret_env", &S::secret_env), required("type", &S::type),
                          field("session_id", &S::session_id), required("data", &S::data),
                          field("queued_at", &S::queued_at));
    }
};
// An attempt failed. Without a next time, it was the last.
struct WebhookFailed {
    static constexpr std::string_view kKind = "webhook.failed";
    std::string delivery_id;
    std::uint32_t attempts = 0;
    std::string error;
    std::optional<Timestamp> next_at;
    friend bool operator==(const WebhookFailed&, const WebhookFailed&) = default;
    static constexpr auto fields() {
        using S = WebhookFailed;
        return std::tuple(required("delivery_id", &S::delivery_id),
                          required("attempts", &S::attempts), field("error", &S::error),
                          field("next_at", &S::next_at));
    }
};
// ---- mail: letters to more sessions than one commit takes, and the chains of causes ----------

struct MailQueued {
    static constexpr std::string_view kKind = "mail.queued";
    Letter letter;
    friend bool operator==(const MailQueued&, const MailQueued&) = default;
    static constexpr auto fields() { return std::tuple(required("letter", &MailQueued::letter)); }
};
struct MailDone {
    static constexpr std::string_view kKind = "mail.done";
    MessageId message_id;
    friend bool operator==(const MailDone&, const MailDone&) = default;
    static constexpr auto fields() {
        return std::tuple(required("message_id", &MailDone::message_id));
    }
};
// In the commit of the wake.
struct ChainWoke {
    static constexpr std::string_view kKind = "chain.woke";
    std::string chain_id;
    friend bool operator==(const ChainWoke&, const ChainWoke&) = default;
    static constexpr auto fields() {
        return std::tuple(required("chain_id", &ChainWoke::chain_id));
    }
};
// A letter was stored and woke nobody, since agents had caused too much.
struct ChainStopped {
    static constexpr std::string_view kKind = "chain.stopped";
    std::string chain_id;
    SessionId session_id;
    std::string reason;  // hops, wakes
    friend bool operator==(const ChainStopped&, const ChainStopped&) = default;
    static constexpr auto fields() {
        using S = ChainStopped;
        return std::tuple(required("chain_id", &S::chain_id),
                          required("session_id", &S::session_id), required("reason", &S::reason));
    }
};
// A person lets it go on: so many more.
struct ChainContinued {
    static constexpr std::string_view kKind = "chain.continued";
    std::string chain_id;
    std::uint32_t hops = 0;
    std::uint32_t wakes = 0;
    friend bool operator==(const ChainContinued&, const ChainContinued&) = default;
    static constexpr auto fields() {
        using S = ChainContinued;
        return std::tuple(required("chain_id", &S::chain_id), required("hops", &S::hops),
                          required("wakes", &S::wakes));
    }
};

struct WebhookDelivered {
    static constexpr std::string_view kKind = "webhook.delivered";
    std::string delivery_id;
    friend bool operator==(const WebhookDelivered&, const WebhookDelivered&) = default;
    static constexpr auto fields() {
        return std::tuple(required("delivery_id", &WebhookDelivered::delivery_id));
    }
};
// A person wants a dead one tried again, from the start.
struct WebhookRevived {
    static constexpr std::string_view kKind = "webhook.revived";
    std::string delivery_id;
    friend bool operator==(const WebhookRevived&, const WebhookRevived&) = default;
    static constexpr auto fields() {
        return std::tuple(required("delivery_id", &WebhookRevived::delivery_id));
    }
};

// This boot has gone through all runs that it found interrupted.
struct BootContinued {
    static constexpr std::string_view kKind = "boot.continued";
    BootId boot_id;
    friend bool operator==(const BootContinued&, const BootContinued&) = default;
    static constexpr auto fields() {
        return std::tuple(required("boot_id", &BootContinued::boot_id));
    }
};

// Nobody waits any longer for what a run asked children for, and its log does not say so to a boot
// that looks for them: its session was deleted, or it goes on without them.
struct ChildrenLeft {
    static constexpr std::string_view kKind = "children.left";
    SessionId parent;
    RunId run_id;
    // Of one that goes on without them: these runs of children, and those that only read what these
    // calls asked for. None: all that the run asked for.
    std::vector<RunId> only = {};
    std::vector<CallId> calls = {};
    friend bool operator==(const ChildrenLeft&, const ChildrenLeft&) = default;
    static constexpr auto fields() {
        return std::tuple(required("parent", &ChildrenLeft::parent),
                          required("run_id", &ChildrenLeft::run_id),
                          field("only", &ChildrenLeft::only), field("calls", &ChildrenLeft::calls));
    }
};

template <class SystemRecord>
RecordBody to_record(const SystemRecord& record) {
    UnknownRecord unknown{std::string(SystemRecord::kKind), {}};
    std::string members;
    codec::write_members(members, record);
    if (!members.empty()) unknown.extra.text = "," + members;
    return unknown;
}

// Nothing when the record is of another kind, or malformed.
template <class SystemRecord>
std::optional<SystemRecord> read_system_record(const RecordBody& body) {
    const auto* unknown = std::get_if<UnknownRecord>(&body);
    if (unknown == nullptr || unknown->kind != SystemRecord::kKind) return std::nullopt;
    const std::string_view members = unknown->extra.text;
    const std::string object = "{" + std::string(members.substr(members.empty() ? 0 : 1)) + "}";
    SystemRecord record{};
    if (!codec::read(std::string_view(object), record)) return std::nullopt;
    return record;
}

}  // namespace rouse
