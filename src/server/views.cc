#include "server/views.h"

#include <algorithm>

#include "domain/fold.h"

namespace rouse::server {
namespace {

// Enough to tell calls apart, too little to settle one.
std::string shown_id(const PendingId& id, const Viewer& viewer) {
    if (!viewer.masks_ids) return id.text();
    const std::size_t secret = id.text().rfind('_');
    return id.text().substr(0, secret + 5) + "…";
}

SessionView view_of(const SessionState& state, const Viewer& viewer) {
    SessionView view = project(state, viewer.boot, viewer.now);
    if (viewer.masks_ids) {
        view.activity.pending_id = PendingId(shown_id(view.activity.pending_id, viewer));
    }
    return view;
}

std::string open_calls_json(const SessionState& state, const OpenInputs& inputs,
                            const Viewer& viewer) {
    std::vector<std::string> calls;
    for (const PendingCall& call : state.pending) {
        if (!is_open(call.status)) continue;
        const auto input = inputs.find(call.pending_id);
        calls.push_back(
            pending_json(call, input == inputs.end() ? RawJson() : input->second, viewer));
    }
    return json_list(calls);
}

std::string run_json(const Run& run) {
    JsonObject out;
    out.text("run_id", run.run_id.text()).text("boot_id", run.boot_id.text());
    out.time("started_at", run.started_at).time("ended_at", run.ended_at);
    out.raw("outcome", run.outcome ? to_json(*run.outcome) : "");
    if (!run.error.empty()) out.text("error", run.error);
    if (!run.continues.empty()) out.text("continues", run.continues.text());
    out.raw("wait", run.wait ? to_json(*run.wait) : "");
    return out.done();
}

std::string recovery_json(const Recovery& recovery) {
    JsonObject out;
    out.text_or_null("last_boot_seen", recovery.last_boot_seen.text());
    out.raw("interruption", recovery.interruption ? to_json(*recovery.interruption) : "");
    return out.done();
}

std::string plain_output(const ToolResult& result) {
    if (std::optional<std::string> text = read_json_string(result.content.text())) return *text;
    return result.content.text();
}

std::string part_json(const SessionState& state, const ToolPart& part, const Viewer& viewer) {
    const PendingCall* call = state.find_pending(part.pending_id);
    const bool waits = call != nullptr && is_open(call->status);
    std::string_view status = "running";
    if (part.result) status = part.result->is_error ? "error" : "completed";
    if (waits) status = "waiting_async";
    JsonObject time;
    if (part.started_at) time.number("start", to_epoch_ms(*part.started_at));
    if (part.ended_at) time.number("end", to_epoch_ms(*part.ended_at));
    JsonObject out;
    out.text("status", status);
    out.raw("input", part.input.text());
    out.raw("output", part.result ? to_json_string(plain_output(*part.result)) : "");
    out.text("title", part.result ? part.result->display : "");
    out.raw("metadata", part.result && !part.result->metadata.absent()
                            ? part.result->metadata.text()
                            : std::string("{}"));
    out.raw("time", time.done());
    if (waits) out.text("pending_id", shown_id(part.pending_id, viewer));
    JsonObject whole;
    whole.text("type", "tool").text("part_id", part.call_id.text);
    whole.text("call_id", part.call_id.text).text("tool", part.tool).raw("state", out.done());
    return whole.done();
}

std::string entry_json(const SessionState& state, const TranscriptEntry& entry, bool queued,
                       const Viewer& viewer) {
    std::vector<std::string> parts;
    parts.reserve(entry.parts.size());
    for (const ToolPart& part : entry.parts)
        parts.push_back(part_json(state, part, viewer));
    JsonObject out;
    out.number("seq", static_cast<std::int64_t>(entry.seq)).time("at", entry.at);
    out.text("role", to_string(entry.role)).text("message_id", entry.message_id.text());
    out.value("content", entry.content).raw("parts", json_list(parts));
    if (queued) out.flag("queued", true);
    return out.done();
}

std::string reason_of(const SessionState& state, SessionStatus status) {
    switch (status) {
        case SessionStatus::idle:
            if (!state.run) return "It has never been asked anything.";
            switch (*state.run->outcome) {
                case RunOutcome::completed: return "Its last run completed.";
                case RunOutcome::failed: return "Its last run failed: " + state.run->error;
                default: return "Its last run was cancelled.";
            }
        case SessionStatus::running: return "A run is in progress.";
        case SessionStatus::waiting:
            if (!state.run->wait->prompt.empty()) return state.run->wait->prompt;
            return "It waits for " + std::string(to_string(state.run->wait->kind)) + ": " +
                   std::to_string(state.open_calls()) + " open call(s).";
        case SessionStatus::interrupted_waiting:
            return "Its wait ended without an answer; send a message to start anew.";
        case SessionStatus::interrupted_startup: break;
    }
    const bool exhausted = state.recovery.interruption && state.recovery.interruption->exhausted;
    return exhausted ? "Its process died too often in a row; POST …/continue lets it try again."
                     : "Its process ended while it worked; POST …/continue lets it go on.";
}

}  // namespace

// ---- JSON -----------------------------------------------------------------------------------

// The names are ours: there is nothing in them to escape.
JsonObject& JsonObject::text(std::string_view name, std::string_view value) {
    append_json_name(out_, name);
    append_json_string(out_, value);
    return *this;
}

JsonObject& JsonObject::text_or_null(std::string_view name, std::string_view value) {
    return value.empty() ? raw(name, "") : text(name, value);
}

JsonObject& JsonObject::number(std::string_view name, std::int64_t value) {
    append_json_name(out_, name);
    out_ += std::to_string(value);
    return *this;
}

JsonObject& JsonObject::flag(std::string_view name, bool value) {
    append_json_name(out_, name);
    out_ += value ? "true" : "false";
    return *this;
}

JsonObject& JsonObject::time(std::string_view name, const std::optional<Timestamp>& value) {
    if (!value) return raw(name, "");
    append_json_name(out_, name);
    codec::write(out_, *value);
    return *this;
}

JsonObject& JsonObject::raw(std::string_view name, std::string_view json) {
    append_json_name(out_, name);
    out_ += json.empty() ? "null" : json;
    return *this;
}

std::string json_list(const std::vector<std::string>& items) {
    std::string out = "[";
    for (const std::string& item : items) {
        if (out.size() > 1) out += ',';
        out += item;
    }
    return out + "]";
}

// ---- sessions -------------------------------------------------------------------------------

std::string activity_json(const Activity& activity) {
    JsonObject out;
    out.text("type", to_string(activity.type));
    if (activity.retry) {
        out.number("attempt", activity.retry->attempt).text("message", activity.retry->message);
        if (activity.retry->next) out.number("next", to_epoch_ms(*activity.retry->next));
    }
    if (activity.type == ActivityType::waiting_async) {
        out.text("pendingID", activity.pending_id.text()).text("tool", activity.tool);
        out.number("since", to_epoch_ms(*activity.since));
        if (activity.timeout) out.number("timeout", to_epoch_ms(*activity.timeout));
    }
    return out.done();
}

std::string status_json(const SessionState& state, const Viewer& viewer) {
    const SessionView view = view_of(state, viewer);
    JsonObject out;
    out.text("session_id", state.id.text()).text("task_id", state.task_id);
    out.text("status", to_string(view.status)).text("state", to_string(view.state));
    out.raw("activity", activity_json(view.activity));
    out.number("seq", static_cast<std::int64_t>(view.seq));
    return out.done();
}

OpenInputs open_inputs(const SessionState& state, const Transcript& transcript) {
    OpenInputs inputs;
    for (const PendingCall& call : state.pending) {
        if (!is_open(call.status)) continue;
        if (const ToolPart* part = find_part(transcript, call.pending_id)) {
            inputs.emplace(call.pending_id, part->input);
        }
    }
    return inputs;
}

OpenInputs open_inputs(const Suspension& suspension) {
    OpenInputs inputs;
    for (const PendingToolCall& call : suspension.pending_tool_calls)
        inputs.emplace(call.pending_id, call.input);
    return inputs;
}

std::string session_json(const SessionState& state, const OpenInputs& inputs,
                         const std::optional<Damage>& damage, std::uint64_t log_bytes,
                         const Viewer& viewer) {
    const SessionView view = view_of(state, viewer);
    JsonObject out;
    out.text("id", state.id.text()).text("title", state.title).text("agent", state.agent);
    out.text_or_null("task_id", state.task_id).text_or_null("alias", state.alias);
    out.text_or_null("external_id", state.external_id);
    out.raw("parent", state.parent ? to_json(*state.parent) : "");
    out.text("working_dir", state.working_dir).value("provider", state.provider);
    out.text("status", to_string(view.status)).text("state", to_string(view.state));
    out.raw("activity", activity_json(view.activity));
    out.time("created_at", state.created_at).time("updated_at", state.updated_at);
    out.number("last_seq", static_cast<std::int64_t>(state.last_seq));
    out.raw("run", state.run ? run_json(*state.run) : "");
    out.raw("recovery", recovery_json(state.recovery));
    out.raw("pending", open_calls_json(state, inputs, viewer));
    out.value("usage", state.usage);
    out.raw("forked_from", state.forked_from ? to_json(*state.forked_from) : "");
    out.raw("metadata", state.metadata.absent() ? "{}" : state.metadata.text());
    out.number("queued", state.queued);
    out.raw("damaged", damage ? to_json(*damage) : "");
    out.number("log_bytes", static_cast<std::int64_t>(log_bytes));
    return out.done();
}

std::string summary_json(const SessionSummary& session, const Viewer& viewer) {
    const Timestamp now = std::max(viewer.now, session.updated_at);
    JsonObject out;
    out.text("id", session.id.text()).text("title", session.title).text("agent", session.agent);
    out.text_or_null("task_id", session.task_id).text_or_null("alias", session.alias);
    out.text_or_null("external_id", session.external_id);
    out.text_or_null("parent", session.parent.text());
    out.text("status", to_string(project_status(session.run, viewer.boot, now)));
    out.raw("wait_kind", session.wait_kind ? to_json(*session.wait_kind) : "");
    out.time("deadline_at", session.run.deadline_at);
    out.number("pending_count", static_cast<std::int64_t>(session.pending.size()));
    out.time("created_at", session.created_at).time("updated_at", session.updated_at);
    out.number("last_seq", static_cast<std::int64_t>(session.last_seq));
    return out.done();
}

std::string pending_json(const PendingCall& call, const RawJson& input, const Viewer& viewer) {
    JsonObject out;
    out.text("pending_id", shown_id(call.pending_id, viewer)).text("call_id", call.call_id.text);
    out.text("tool", call.tool).raw("input", input.text());
    out.text("input_digest", call.input_digest).text("status", to_string(call.status));
    out.text("waits_for", to_string(call.waits_for)).text("prompt", call.prompt);
    out.raw("metadata", call.metadata.absent() ? "{}" : call.metadata.text());
    out.text("reason", call.reason).time("created_at", call.created_at);
    out.time("expires_at", call.expires_at);
    out.raw("progress", call.progress == Progress{} ? "" : to_json(call.progress));
    out.text_or_null("worker", call.worker).text_or_null("external_ref", call.external_ref);
    return out.done();
}

std::string wait_json(const SessionState& state, const OpenInputs& inputs, const Viewer& viewer) {
    const Wait& wait = *state.run->wait;
    JsonObject out;
    out.text("wait_id", wait.wait_id.text()).text("kind", to_string(wait.kind));
    out.number("since_seq", static_cast<std::int64_t>(wait.since_seq));
    out.text("resume_token_id", wait.resume_token_id.text()).time("deadline_at", wait.deadline_at);
    out.text("session_id", state.id.text()).text("title", state.title);
    out.text("agent", state.agent).text_or_null("task_id", state.task_id);
    out.text("run_id", state.run->run_id.text());
    if (!wait.prompt.empty()) out.text("prompt", wait.prompt);
    out.raw("pending", open_calls_json(state, inputs, viewer));
    return out.done();
}

std::string board_status_json(const SessionState& state, const Viewer& viewer) {
    const SessionView view = view_of(state, viewer);
    JsonObject out;
    out.text("session_id", state.id.text()).text_or_null("task_id", state.task_id);
    out.text("state", to_string(view.state)).raw("executor_status", "");
    out.text_or_null("agent_profile_id", state.agent);
    out.flag("is_agent_running", view.status == SessionStatus::running);
    out.flag("is_resumable", false).flag("needs_resume", false);
    out.text("resume_reason", "not_resumable");
    out.raw("agent_execution_id", "").raw("runtime", "").raw("workspace_path", "");
    out.raw("worktree_path", "").raw("worktree_branch", "");
    out.text("status", to_string(view.status)).raw("activity", activity_json(view.activity));
    out.number("seq", static_cast<std::int64_t>(view.seq));
    return out.done();
}

std::string transcript_json(const SessionState& state, const Transcript& transcript,
                            const Slice& slice, const Viewer& viewer) {
    const std::size_t read = transcript.entries().size();
    const std::size_t all = read + transcript.queued().size();
    std::vector<std::string> entries;
    std::size_t next = slice.first;
    for (; next < all && entries.size() < slice.count; ++next) {
        const bool queued = next >= read;
        const TranscriptEntry& entry =
            queued ? transcript.queued()[next - read] : transcript.entries()[next];
        entries.push_back(entry_json(state, entry, queued, viewer));
    }
    JsonObject out;
    out.raw("items", json_list(entries));
    out.text_or_null("next_cursor", next < all ? std::to_string(next) : "");
    out.raw("compacted", transcript.compacted() ? to_json(*transcript.compacted()) : "");
    out.number("seq", static_cast<std::int64_t>(state.last_seq));
    return out.done();
}

const ToolPart* find_part(const Transcript& transcript, const PendingId& id) {
    for (auto entry = transcript.entries().rbegin(); entry != transcript.entries().rend();
         ++entry) {
        const auto part = std::ranges::find(entry->parts, id, &ToolPart::pending_id);
        if (part != entry->parts.end()) return &*part;
    }
    return nullptr;
}

CallParts call_parts(const Transcript& transcript) {
    CallParts parts;
    for (const TranscriptEntry& entry : transcript.entries()) {
        for (const ToolPart& part : entry.parts) {
            if (!part.pending_id.empty()) parts[part.pending_id] = &part;
        }
    }
    return parts;
}

std::string schema_text(const RawJson& schema) {
    return schema.absent() ? R"({"type":"object"})" : schema.text();
}

std::string mask_pending_ids(std::string_view text) {
    constexpr std::string_view kPrefix = PendingId::kPrefix;
    const auto is_id = [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
               c == '_' || c == '-';
    };
    std::string out;
    for (;;) {
        const std::size_t at = text.find(kPrefix);
        out += text.substr(0, at);
        if (at == std::string_view::npos) return out;
        text.remove_prefix(at);
        std::size_t end = kPrefix.size();
        while (end < text.size() && is_id(text[end]))
            ++end;
        Viewer stranger;
        stranger.masks_ids = true;
        out += shown_id(PendingId(std::string(text.substr(0, end))), stranger);
        text.remove_prefix(end);
    }
}

// ---- why it is as it is ---------------------------------------------------------------------

std::string explain_json(const SessionState& state, const std::vector<Record>& log,
                         const Transcript& transcript, const Catalogue& catalogue,
                         const Viewer& viewer) {
    const SessionView view = project(state, viewer.boot, viewer.now);
    JsonObject out;
    out.text("session_id", state.id.text()).text("status", to_string(view.status));
    out.text("reason", reason_of(state, view.status));

    std::vector<std::string> deadlines;
    std::vector<std::string> concerns;
    const auto concern = [&](const std::string& text) { concerns.push_back(to_json_string(text)); };
    for (const PendingCall& call : state.pending) {
        if (!is_open(call.status)) continue;
        if (call.expires_at) {
            JsonObject one;
            one.time("at", call.expires_at);
            one.text("what",
                     call.waits_for == WaitsFor::timer
                         ? "the timer " + call.call_id.text + " is over and the turn goes on"
                         : "call " + call.call_id.text + " of " + call.tool +
                               " expires, and the agent goes on with an error");
            deadlines.push_back(one.done());
        }
        if (call.lease_until) {
            JsonObject one;
            one.time("at", call.lease_until);
            one.text("what", "the lease of worker " + call.worker + " on call " +
                                 call.call_id.text + " ends");
            deadlines.push_back(one.done());
        }
        const ToolDefinition* tool = catalogue.find_tool(call.tool);
        if (tool != nullptr && tool->spec.async && !call.started_at) {
            concern("start not confirmed: the process ended while it asked " + call.tool +
                    " to start");
        }
        if (tool == nullptr) {
            concern("the tool " + call.tool +
                    " is not in the configuration any more; a result is "
                    "still taken");
        }
        if (call.metadata.text().find("\"start\":\"not confirmed\"") != std::string::npos) {
            concern("start not confirmed: " + call.tool +
                    " was asked to start, and the connection broke before it answered");
        }
    }
    // Behind the times of its calls, which end before it.
    const bool ends_by_itself = state.is_parked() && state.open_calls() == 0;
    if (ends_by_itself && state.run->wait->deadline_at) {
        JsonObject one;
        one.time("at", state.run->wait->deadline_at);
        one.text("what", "the wait ends and the run is interrupted");
        deadlines.push_back(one.done());
    }
    const AgentDefinition* agent = catalogue.find_agent(state.agent);
    if (agent == nullptr) {
        concern("the agent " + state.agent +
                " is not in the configuration any more; its run would "
                "fail when it goes on");
    } else {
        for (const TurnCall& call : state.calls) {
            const bool has = std::ranges::find(agent->tools, call.tool) != agent->tools.end();
            if (call.phase != CallPhase::settled && !has) {
                concern("the agent does not have the tool " + call.tool +
                        " any more; a call that has not run gets an error result");
            }
        }
    }
    std::string woken;
    for (const Record& record : log) {
        if (const auto* resumed = std::get_if<RunResumed>(&record.body)) {
            JsonObject one;
            one.number("seq", static_cast<std::int64_t>(record.seq)).time("at", record.at);
            one.text("kind", "run.resumed").text("reason", to_string(resumed->reason));
            woken = one.done();
        } else if (const auto* started = std::get_if<RunStarted>(&record.body)) {
            JsonObject one;
            one.number("seq", static_cast<std::int64_t>(record.seq)).time("at", record.at);
            one.text("kind", "run.started");
            one.text("reason", started->continues.empty() ? "message" : "continue");
            woken = one.done();
        }
    }
    out.raw("wait",
            state.is_parked() ? wait_json(state, open_inputs(state, transcript), viewer) : "");
    out.raw("last_wake", woken);
    out.raw("deadlines", json_list(deadlines)).raw("concerns", json_list(concerns));
    out.raw("interruption",
            state.recovery.interruption ? to_json(*state.recovery.interruption) : "");
    out.number("seq", static_cast<std::int64_t>(state.last_seq));
    return out.done();
}

// ---- the pending-call API -------------------------------------------------------------------

std::string async_call_json(const SessionId& session, const PendingCall& call, const ToolPart* part,
                            const Viewer& viewer) {
    JsonObject time;
    time.number("created", to_epoch_ms(call.created_at));
    if (call.started_at) time.number("started", to_epoch_ms(*call.started_at));
    if (call.settled_at) time.number("completed", to_epoch_ms(*call.settled_at));
    JsonObject out;
    out.text("id", shown_id(call.pending_id, viewer)).text("sessionID", session.text());
    out.text("messageID", call.message_id.text()).text("callID", call.call_id.text);
    out.text("partID", call.part_id).text("tool", call.tool);
    out.raw("input", part && !part->input.absent() ? part->input.text() : std::string("{}"));
    out.text("status", to_string(call.status)).text("waitsFor", to_string(call.waits_for));
    if (call.approved) out.flag("approved", true);
    if (!call.webhook_url.empty()) out.text("webhookURL", call.webhook_url);
    if (!call.external_ref.empty()) out.text("externalRef", call.external_ref);
    if (call.estimated_ms) out.number("estimatedDuration", *call.estimated_ms);
    if (call.expires_at) out.number("timeout", to_epoch_ms(*call.expires_at));
    if (!call.prompt.empty()) out.text("prompt", call.prompt);
    if (!call.worker.empty()) out.text("worker", call.worker);
    if (call.lease_until) out.number("leaseUntil", to_epoch_ms(*call.lease_until));
    if (call.progress != Progress{}) out.value("progress", call.progress);
    out.raw("time", time.done());
    if (part && part->result && call.status == PendingStatus::completed) {
        JsonObject result;
        result.text("title", part->result->display);
        result.text("output", plain_output(*part->result));
        result.raw("metadata", part->result->metadata.absent() ? std::string("{}")
                                                               : part->result->metadata.text());
        out.raw("result", result.done());
    } else if (part && part->result) {
        out.text("error", plain_output(*part->result));
    }
    return out.done();
}

}  // namespace rouse::server
