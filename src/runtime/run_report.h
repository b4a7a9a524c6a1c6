#pragma once

// How a run came out, as its callers see it: when it ends, and each time it parks.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rouse/agent.h"
#include "store/store.h"

namespace rouse {

enum class ReportStatus : std::uint8_t { completed, suspended, failed, cancelled, interrupted };
template <>
inline constexpr std::string_view kEnumNames<ReportStatus>[] = {"completed", "suspended", "failed",
                                                                "cancelled", "interrupted"};

struct ReportError {
    std::string code;
    std::string message;
    friend bool operator==(const ReportError&, const ReportError&) = default;
    static constexpr auto fields() {
        return std::tuple(field("code", &ReportError::code),
                          required("message", &ReportError::message));
    }
};

struct RunReport {
    RunId run_id;
    ReportStatus status = ReportStatus::completed;
    std::vector<Message> output_messages;
    Usage usage;
    std::optional<ReportError> error;
    std::optional<Suspension> suspension;
    friend bool operator==(const RunReport&, const RunReport&) = default;
    static constexpr auto fields() {
        using S = RunReport;
        return std::tuple(required("run_id", &S::run_id), required("status", &S::status),
                          required("output_messages", &S::output_messages),
                          required("usage", &S::usage), field("error", &S::error),
                          field("suspension", &S::suspension));
    }
};

// One for all who wait for the run; null where there is none.
using SharedReport = std::shared_ptr<const RunReport>;

SharedReport make_report(const RunId& run, Response response);
SharedReport make_report(const RunId& run, const TurnError& error);

// From the log, for a run that nobody in this process drove to where it is. Nothing while it is
// under way; not_found "unknown_run".
Result<SharedReport> read_report(Store& store, const SessionId& session, const RunId& run);

}  // namespace rouse
