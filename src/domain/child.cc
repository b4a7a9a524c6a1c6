#include "domain/child.h"

#include <algorithm>
#include <ranges>

namespace rouse {
namespace {

std::string closing_line(const SessionId& child) {
    return "\n<task_metadata>session_id: " + child.text() + "</task_metadata>";
}

}  // namespace

RawJson wish_metadata(const ChildWish& wish) {
    return RawJson::trusted("{\"" + std::string(kChildWish) + "\":" + to_json(wish) + "}");
}

std::optional<ChildWish> read_wish(const RawJson& metadata) {
    std::vector<JsonMember> members;
    if (metadata.absent() || !split_object(metadata.text(), members)) return std::nullopt;
    const auto found = std::ranges::find(members, kChildWish, &JsonMember::key);
    if (found == members.end()) return std::nullopt;
    Result<ChildWish> wish = from_json<ChildWish>(found->value, kChildWish);
    if (!wish) return std::nullopt;
    return *std::move(wish);
}

ToolResult child_result(const SessionId& child, std::string_view text) {
    return text_result(std::string(text) + closing_line(child));
}

std::string child_error(const SessionId& child, std::string_view what) {
    return std::string(what) + closing_line(child);
}

const RunId* given_up_run(const RecordBody& record) {
    if (const auto* failed = std::get_if<RunFailed>(&record)) return &failed->run_id;
    if (const auto* cancelled = std::get_if<RunCancelled>(&record)) return &cancelled->run_id;
    const auto* left = std::get_if<RunInterrupted>(&record);
    if (left == nullptr) return nullptr;
    const bool for_good = left->exhausted || left->reason == InterruptReason::wait_timeout;
    return for_good ? &left->run_id : nullptr;
}

std::set<RunId> with_those_it_continues(const std::vector<Record>& log, const RunId& run) {
    std::set<RunId> runs = {run};
    RunId next = run;
    for (const Record& record : std::views::reverse(log)) {
        const auto* started = std::get_if<RunStarted>(&record.body);
        if (started == nullptr || started->run_id != next) continue;
        if (started->continues.empty()) break;
        next = started->continues;
        runs.insert(next);
    }
    return runs;
}

std::vector<PendingId> find_answered_calls(const SessionState& parent, const SessionState& child) {
    // Nothing is read any more in a session that is gone, or that nobody goes on with.
    const bool reads_on = !child.deleted && child.run->outcome != RunOutcome::interrupted;
    std::vector<PendingId> answered;
    for (const PendingCall& call : parent.pending) {
        if (!is_open(call.status) || call.waits_for != WaitsFor::child) continue;
        const std::optional<ChildWish> wish = read_wish(call.metadata);
        if (!wish || wish->session_id != child.id) continue;
        const bool unread = std::ranges::any_of(child.queued_asks, [&](const AskedBy& asked) {
            return asked.run_id == call.run_id && asked.call_id == call.call_id;
        });
        if (!unread || !reads_on) answered.push_back(call.pending_id);
    }
    return answered;
}

}  // namespace rouse
