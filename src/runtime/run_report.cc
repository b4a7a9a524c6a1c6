#include "runtime/run_report.h"

#include <algorithm>

#include "domain/fold.h"
#include "domain/transcript.h"

namespace rouse {
namespace {

// The latest run that is not behind `run`, with what was said in it.
struct RunReader {
    SessionState state;
    Transcript transcript;
    Usage usage;
    std::size_t first_entry = 0;
    bool first_was_said = false;  // before the wait that was resumed
    bool resumed = false;
    std::size_t turn_start = 0;
    bool found = false;
    std::optional<RunReport> ended;

    void read(const Record& record, const RunId& run) {
        if (const auto* started = std::get_if<RunStarted>(&record.body)) {
            if (started->run_id == run) {
                found = true;
                first_entry = transcript.entries().size();
            }
        }
        fold(state, record);
        transcript.fold(record);
        if (!found || ended) return;
        if (std::holds_alternative<RunResumed>(record.body)) {
            const auto& entries = transcript.entries();
            const auto waited = std::ranges::find(entries.rbegin(), entries.rend(), Role::assistant,
                                                  &TranscriptEntry::role);
            const auto behind = static_cast<std::size_t>(entries.rend() - waited);
            turn_start = transcript.turn_start();
            // Nothing was said yet if the run waited before it asked its model.
            first_was_said = behind > std::max(turn_start, first_entry);
            first_entry = first_was_said ? behind - 1 : entries.size();
            resumed = true;
        }
        if (const auto* said = std::get_if<MessageAssistant>(&record.body)) usage += said->usage;
        if (state.run && state.run->run_id == run && state.run->outcome) {
            ended = report(run, *state.run->outcome);
            if (const auto* failed = std::get_if<RunFailed>(&record.body)) {
                ended->error = ReportError{failed->reason, failed->error};
            }
        }
    }

    RunReport report(const RunId& run, RunOutcome outcome) const {
        RunReport report;
        report.run_id = run;
        report.usage = usage;
        report.output_messages = said();
        switch (outcome) {
            case RunOutcome::completed:
                report.status = ReportStatus::completed;
                if (resumed) report.suspension = resumed_turn();
                break;
            case RunOutcome::failed: report.status = ReportStatus::failed; break;
            case RunOutcome::cancelled: report.status = ReportStatus::cancelled; break;
            case RunOutcome::interrupted: report.status = ReportStatus::interrupted; break;
        }
        return report;
    }

    // Entries as a conversation, from one on: with the results of its calls, but without itself if
    // it was said before.
    enum class Begin : std::uint8_t { with_it, behind_it };
    std::vector<Message> messages_from(std::size_t first, Begin begin) const {
        std::vector<Message> messages;
        const std::vector<TranscriptEntry>& entries = transcript.entries();
        for (std::size_t i = first; i < entries.size(); ++i) {
            if (i > first || begin == Begin::with_it) {
                messages.push_back({entries[i].role, entries[i].content, {}});
            }
            std::vector<ToolPart> done = entries[i].parts;
            std::erase_if(done, [](const ToolPart& part) { return !part.result; });
            if (!done.empty()) messages.push_back(results_message(done, ToolResult{}));
        }
        return messages;
    }

    // What the run said since it was last waited for.
    std::vector<Message> said() const {
        if (first_was_said) return messages_from(first_entry, Begin::behind_it);
        const std::vector<TranscriptEntry>& entries = transcript.entries();
        std::size_t first = first_entry;
        while (first < entries.size() && entries[first].role != Role::assistant)
            ++first;
        return messages_from(first, Begin::with_it);
    }

    RunReport suspended(const RunId& run) const {
        RunReport report;
        report.run_id = run;
        report.status = ReportStatus::suspended;
        report.usage = usage;
        report.output_messages = said();
        report.suspension = suspension();
        return report;
    }

    // The turn as a whole, since it was suspended on the way.
    Suspension resumed_turn() const {
        Suspension turn;
        turn.usage = usage;
        turn.turn_messages = messages_from(turn_start, Begin::with_it);
        return turn;
    }

    Suspension suspension() const {
        Suspension waits;
        waits.usage = usage;
        for (std::size_t i = transcript.turn_start(); i < transcript.entries().size(); ++i) {
            const TranscriptEntry& entry = transcript.entries()[i];
            waits.turn_messages.push_back({entry.role, entry.content, {}});
            for (const ToolPart& part : entry.parts) {
                if (part.result) {
                    waits.completed_tool_calls.push_back(
                        {part.call_id, part.tool, part.input, *part.result, {}});
                    continue;
                }
                const PendingCall* call = state.find_pending(part.pending_id);
                if (call == nullptr || !is_open(call->status)) continue;
                PendingToolCall pending;
                pending.id = part.call_id;
                pending.name = part.tool;
                pending.input = part.input;
                pending.prompt = call->prompt;
                pending.metadata = call->metadata;
                pending.reason =
                    parse_enum<SuspendReason>(call->reason).value_or(SuspendReason::input_required);
                pending.pending_id = part.pending_id;
                pending.waits_for = call->waits_for;
                waits.pending_tool_calls.push_back(std::move(pending));
            }
        }
        return waits;
    }
};

}  // namespace

SharedReport make_report(const RunId& run, Response response) {
    auto report = std::make_shared<RunReport>();
    report->run_id = run;
    report->status = response.status == ResponseStatus::suspended ? ReportStatus::suspended
                                                                  : ReportStatus::completed;
    report->output_messages = std::move(response.output_messages);
    report->usage = response.usage;
    report->suspension = std::move(response.suspension);
    return report;
}

SharedReport make_report(const RunId& run, const TurnError& error) {
    auto report = std::make_shared<RunReport>();
    report->run_id = run;
    report->status =
        error.kind == ErrorKind::cancelled ? ReportStatus::interrupted : ReportStatus::failed;
    report->output_messages = error.output_messages;
    report->usage = error.usage;
    report->error = ReportError{std::string(error.reason), error.message};
    return report;
}

Result<SharedReport> read_report(Store& store, const SessionId& session, const RunId& run) {
    const Result<std::vector<Record>> records = read_records(store, session);
    if (!records) return records.error();
    RunReader reader;
    for (const Record& record : *records)
        reader.read(record, run);
    if (!reader.found) {
        return Error(ErrorKind::not_found, "unknown_run", "the session has no run " + run.text());
    }
    if (reader.ended) return std::make_shared<const RunReport>(*std::move(reader.ended));
    if (!reader.state.is_parked()) return SharedReport();
    return std::make_shared<const RunReport>(reader.suspended(run));
}

}  // namespace rouse
