#pragma once

// The records of a session's log, as typed values. A record is written once and never changed;
// everything else the product knows is computed from them (fold.h).
//
// The order of the fields is the order on disk. docs/log_format.md describes them for readers
// outside this program.

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "base/time.h"
#include "domain/call_records.h"
#include "domain/mail_records.h"
#include "domain/run_records.h"
#include "domain/session_records.h"

namespace rouse {

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
