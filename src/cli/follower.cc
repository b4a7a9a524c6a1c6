#include "cli/follower.h"

#include "cli/record_text.h"
#include "cli/text.h"

namespace rouse::cli {
namespace {

// A server that starts again lets most interrupted runs go on by itself, and soon.
constexpr Milliseconds kRecoveryPatience{5000};

// The run that a record names; empty: none.
RunId run_of(const RecordBody& body) {
    const auto find = [](const auto& r) {
        if constexpr (requires { r.run_id; }) {
            return r.run_id;
        } else {
            return RunId();
        }
    };
    return std::visit(find, body);
}

// The call whose result a record is.
const CallId* settled_call(const RecordBody& body) {
    if (const auto* done = std::get_if<PendingCompleted>(&body)) return &done->call_id;
    if (const auto* lost = std::get_if<PendingFailed>(&body)) return &lost->call_id;
    if (const auto* late = std::get_if<PendingExpired>(&body)) return &late->call_id;
    if (const auto* dropped = std::get_if<PendingCancelled>(&body)) return &dropped->call_id;
    return nullptr;
}

// Line breaks are no escapes: a result may hold a backslash and an n.
std::string in_one_line(std::string_view text) {
    std::string line;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        line += (at > 0 ? " ⏎ " : "") + printable(text.substr(at, end - at));
        at = end + 1;
    }
    return line;
}

std::string cancellation(const RunCancelled& cancelled) {
    return cancelled.reason == "superseded" ? "the run was superseded by another message"
                                            : "the run was cancelled";
}

}  // namespace

void Follower::begin_at(const client::SessionView& session) {
    for (const client::PendingView& call : session.pending) {
        tools_[call.call_id] = call.tool;
        earlier_calls_.insert(call.call_id);
    }
    if (session.run && !session.run->outcome) open_run_ = session.run->run_id;
}

void Follower::follow_run(const RunId& run, Seq moved) {
    run_ = run;
    moved_ = std::max(moved_, moved);
    awaits_next_ = false;
}

void Follower::follow_next_run(Seq queued) {
    run_ = RunId();
    moved_ = queued;
    awaits_next_ = true;
}

Result<void> Follower::catch_up(client::EventStream& events) {
    while (!live_) {
        const Result<std::optional<client::Event>> event = events.next();
        if (!event) return event.error();
        take(**event);
    }
    return {};
}

Result<FollowEnd> Follower::follow(client::EventStream& events, Seq behind) {
    while (!over_) {
        const bool settled = status_seq_ >= behind && live_ && status_ != "running";
        // It may go on by itself, soon.
        const bool passing =
            settled && (status_ == "interrupted_startup" || (awaits_next_ && status_ == "idle"));
        if (settled && !passing) break;
        std::optional<Milliseconds> patience;
        if (passing) patience = kRecoveryPatience;
        const Result<std::optional<client::Event>> event = events.next(patience);
        if (!event) {
            end_line();
            return event.error();
        }
        if (!*event) break;
        take(**event);
    }
    end_line();
    return FollowEnd{over_ ? "idle" : status_, failure_};
}

void Follower::take(const client::Event& event) {
    if (event.name == client::kConnectionLost) {
        live_ = false;
        note("connection lost, trying again", Colour::dim);
    } else if (event.name == client::kConnectionBack) {
        note("connected again", Colour::dim);
    } else if (event.name == "status") {
        live_ = true;
        if (const auto view = from_json<client::StatusView>(event.data, "the status")) {
            status_ = view->status;
            status_seq_ = view->seq;
        }
    } else if (event.name == "delta") {
        const auto delta = from_json<client::DeltaView>(event.data, "the delta");
        if (delta) take_delta(*delta);
    } else if (!event.id.empty() && event.name != "snapshot") {
        take_record(event);
    }
}

// What was missed of a message is shown once it is whole.
void Follower::take_delta(const client::DeltaView& delta) {
    if (output_.json || over_ || delta.run_id != run_) return;
    std::string& said = said_[delta.message_id];
    if (delta.at == 0) said.clear();
    if (delta.at != said.size()) return;
    if (speaking_ != delta.message_id || delta.at == 0) end_line();
    speaking_ = delta.message_id;
    output_.answer << printable_lines(delta.text) << std::flush;
    said += delta.text;
    in_line_ = !said.ends_with('\n');
}

void Follower::take_record(const client::Event& event) {
    const Result<Record> record = client::record_of(event);
    if (!record) {
        if (output_.json) output_.answer << event.data << "\n" << std::flush;
        return;
    }
    note_start(*record);
    if (!over_ && is_ours(*record)) {
        if (output_.json) output_.answer << event.data << "\n" << std::flush;
        show(record->body);
    }
    note_end(record->body);
}

void Follower::note_start(const Record& record) {
    if (const auto* resumed = std::get_if<RunResumed>(&record.body)) open_run_ = resumed->run_id;
    const auto* started = std::get_if<RunStarted>(&record.body);
    if (started == nullptr) return;
    open_run_ = started->run_id;
    if (awaits_next_ && record.seq > moved_ && started->continues.empty()) {
        follow_run(started->run_id, moved_);
    } else if (!run_.empty() && started->continues == run_) {
        run_ = started->run_id;
    } else if (!run_.empty() && !over_ && record.seq > moved_ && started->run_id != run_) {
        over_ = true;
        failure_ = "the run was interrupted, and another message came";
    }
}

void Follower::note_end(const RecordBody& body) {
    const bool interrupted = std::holds_alternative<RunInterrupted>(body);
    const bool ended = std::holds_alternative<RunCompleted>(body) ||
                       std::holds_alternative<RunFailed>(body) ||
                       std::holds_alternative<RunCancelled>(body);
    if (!interrupted && !ended) return;
    const RunId run = run_of(body);
    if (run == open_run_) open_run_ = RunId();
    if (run != run_) return;
    said_.clear();
    over_ = over_ || ended;
}

// What a command settles of an earlier run is its own doing.
bool Follower::is_ours(const Record& record) const {
    const RunId run = run_of(record.body);
    if (!run.empty()) return run == run_;
    if (open_run_.empty() || open_run_ == run_) return true;
    const CallId* call = settled_call(record.body);
    return call != nullptr && record.seq <= moved_ && earlier_calls_.contains(*call);
}

void Follower::show(const RecordBody& body) {
    if (const auto* message = std::get_if<MessageAssistant>(&body)) {
        show_message(*message);
    } else if (const auto* tool = std::get_if<ToolCompleted>(&body)) {
        show_result(tool->call_id, text_of(tool->result.content), Colour::dim);
    } else if (const auto* failed = std::get_if<ToolFailed>(&body)) {
        show_result(failed->call_id, failed->error, Colour::red);
    } else if (const auto* done = std::get_if<PendingCompleted>(&body)) {
        show_result(done->call_id, text_of(done->result.content), Colour::dim);
    } else if (const auto* lost = std::get_if<PendingFailed>(&body)) {
        show_result(lost->call_id, lost->error, Colour::red);
    } else if (const auto* late = std::get_if<PendingExpired>(&body)) {
        show_result(late->call_id, late->error, Colour::red);
    } else if (const auto* dropped = std::get_if<PendingCancelled>(&body)) {
        show_result(dropped->call_id, dropped->error, Colour::red);
    } else if (const auto* retrying = std::get_if<RunRetrying>(&body)) {
        note("the model is asked again: " + describe(*retrying), Colour::yellow);
    } else if (const auto* ended = std::get_if<RunFailed>(&body)) {
        failure_ = "the run failed: " + ended->error;
    } else if (const auto* cancelled = std::get_if<RunCancelled>(&body)) {
        failure_ = cancellation(*cancelled);
    } else if (std::holds_alternative<RunInterrupted>(body)) {
        note("the run was interrupted: " + describe(body), Colour::yellow);
    }
}

void Follower::show_message(const MessageAssistant& message) {
    const std::string text = text_of(message.content);
    if (!output_.json) {
        std::string_view rest = text;
        const auto said = said_.find(message.message_id);
        const bool goes_on = said != said_.end() && rest.starts_with(said->second);
        if (goes_on) rest.remove_prefix(said->second.size());
        if (!rest.empty() && (!goes_on || speaking_ != message.message_id)) end_line();
        output_.answer << printable_lines(rest);
        if (!rest.empty()) in_line_ = !rest.ends_with('\n');
        if (!rest.empty() || speaking_ == message.message_id) end_line();
        said_.erase(message.message_id);
    }
    for (const Block& block : message.content) {
        const auto* call = block.get_if<ToolUseBlock>();
        if (call == nullptr) continue;
        tools_[call->id] = call->name;
        note("→ " + call->name + " " + call->input.text(), Colour::cyan);
    }
}

void Follower::show_result(const CallId& call, std::string_view text, Colour colour) {
    const auto tool = tools_.find(call);
    note("← " + (tool == tools_.end() ? call.text : tool->second) + ": " + std::string(text),
         colour);
}

void Follower::note(const std::string& text, Colour colour) {
    if (output_.json) return;
    end_line();
    std::string line = in_one_line(text);
    if (output_.terminal.width > 0) line = cut_to(line, output_.terminal.width);
    output_.notes << coloured(line, colour, output_.terminal) << "\n" << std::flush;
}

void Follower::end_line() {
    if (in_line_) output_.answer << "\n";
    output_.answer.flush();
    in_line_ = false;
}

}  // namespace rouse::cli
