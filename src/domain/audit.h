#pragma once

// Does a log keep the promises that the rules make? An auditor reads every record of one log and
// says what is wrong, from the log alone: it would find a mistake in the rules as well as in the
// bytes.

#include <map>
#include <optional>
#include <string>

#include "domain/record.h"
#include "domain/state.h"

namespace rouse {

class LogAudit {
 public:
    explicit LogAudit(SessionId log) : log_(std::move(log)) {}

    // What is wrong with this record where it stands; nothing when all is well.
    std::optional<std::string> check(const Record& record);

    const SessionState& state() const { return state_; }

 private:
    std::optional<std::string> check_resume(const RunResumed& resumed) const;
    std::optional<std::string> check_turn_is_closed(std::string_view at) const;

    SessionId log_;
    SessionState state_;
    std::map<WaitId, int> consumed_;       // how often each wait was
    std::optional<WaitId> consumed_last_;  // by the record just before
    std::map<RunId, int> ended_;
};

}  // namespace rouse
