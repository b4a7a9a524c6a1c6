#pragma once

// Records of the session itself, and of what was said in it.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "domain/message.h"
#include "domain/record_words.h"

namespace rouse {

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

}  // namespace rouse
