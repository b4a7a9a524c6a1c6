#include "domain/audit.h"

#include <algorithm>

#include "domain/fold.h"

namespace rouse {
namespace {

const RunId* run_that_ends(const RecordBody& body) {
    if (const auto* r = std::get_if<RunCompleted>(&body)) return &r->run_id;
    if (const auto* r = std::get_if<RunFailed>(&body)) return &r->run_id;
    if (const auto* r = std::get_if<RunCancelled>(&body)) return &r->run_id;
    if (const auto* r = std::get_if<RunInterrupted>(&body)) return &r->run_id;
    return nullptr;
}

}  // namespace

std::optional<std::string> LogAudit::check_resume(const RunResumed& resumed) const {
    const auto consumed = consumed_.find(resumed.wait_id);
    if (consumed == consumed_.end() || consumed_last_ != resumed.wait_id) {
        return "wait " + resumed.wait_id.text() + " is resumed without its token being consumed";
    }
    return std::nullopt;
}

std::optional<std::string> LogAudit::check_turn_is_closed(std::string_view at) const {
    for (const TurnCall& call : state_.calls) {
        if (call.phase == CallPhase::settled) continue;
        return "tool call " + call.call_id.text + " has no result at " + std::string(at);
    }
    for (const PendingCall& call : state_.pending) {
        if (!is_open(call.status)) continue;
        return "pending call " + call.pending_id.text() + " is open at " + std::string(at);
    }
    return std::nullopt;
}

std::optional<std::string> LogAudit::check(const Record& record) {
    std::optional<std::string> problem;
    if (record.seq == 1 && log_ != system_log()) {
        const auto* created = std::get_if<SessionCreated>(&record.body);
        if (created == nullptr || created->id != log_) problem = "the log is another session's";
    }
    if (const auto* consumed = std::get_if<TokenConsumed>(&record.body)) {
        if (++consumed_[consumed->wait_id] > 1) {
            problem = "wait " + consumed->wait_id.text() + " is consumed a second time";
        }
    }
    if (const auto* resumed = std::get_if<RunResumed>(&record.body)) {
        problem = check_resume(*resumed);
    }
    if (const RunId* run = run_that_ends(record.body)) {
        if (++ended_[*run] > 1) problem = "run " + run->text() + " ends a second time";
    }
    const auto* started = std::get_if<RunStarted>(&record.body);
    const bool new_turn = started != nullptr && started->continues.empty();
    // An interrupted turn may still go on; every other end, and every new turn, leaves nothing
    // open.
    const bool finishes = run_that_ends(record.body) != nullptr &&
                          !std::holds_alternative<RunInterrupted>(record.body);
    // The model was asked with a call that had no result.
    const bool speaks = std::holds_alternative<MessageAssistant>(record.body);
    if (!problem && (new_turn || finishes || speaks))
        problem = check_turn_is_closed(kind_of(record.body));

    const auto* consumed = std::get_if<TokenConsumed>(&record.body);
    consumed_last_ = consumed == nullptr ? std::nullopt : std::optional(consumed->wait_id);
    fold(state_, record);
    return problem;
}

}  // namespace rouse
