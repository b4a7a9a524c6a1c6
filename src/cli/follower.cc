#include "cli/follower.h"

#include "cli/record_text.h"
#include "cli/text.h"

namespace rouse::cli {
namespace {

// A server that starts again lets most interrupted runs go on by itself, and soon.
constexpr Milliseconds kRecoveryPatience{5000};

}  // namespace

void Follower::know(const std::vector<client::PendingView>& calls) {
    for (const client::PendingView& call : calls)
        tools_[call.call_id] = call.tool;
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
    failure_.clear();
    for (;;) {
        const bool settled = status_seq_ >= behind && live_ && status_ != "running";
        const bool interrupted = settled && status_ == "interrupted_startup";
        if (settled && !interrupted) break;
        std::optional<Milliseconds> patience;
        if (interrupted) patience = kRecoveryPatience;
        const Result<std::optional<client::Event>> event = events.next(patience);
        if (!event) {
            end_line();
            return event.error();
        }
        if (!*event) break;
        take(**event);
    }
    end_line();
    return FollowEnd{status_, failure_};
}

void Follower::take(const client::Event& event) {
    if (event.name == client::kConnectionLost) {
        live_ = false;
        note("connection lost, trying again", Colour::dim);
    } else if (event.name == client::kConnectionBack) {
        complete_ = false;
        note("connected again", Colour::dim);
    } else if (event.name == "status") {
        live_ = true;
        if (const auto view = from_json<client::StatusView>(event.data, "the status")) {
            status_ = view->status;
            status_seq_ = view->seq;
        }
    } else if (event.name == "delta") {
        const auto delta = from_json<client::DeltaView>(event.data, "the delta");
        if (!delta || !live_ || !complete_ || output_.json) return;
        output_.answer << printable_lines(delta->text) << std::flush;
        said_ += delta->text;
        in_line_ = !said_.ends_with('\n');
    } else if (!event.id.empty()) {
        if (live_) complete_ = true;
        take_record(event);
    }
}

void Follower::take_record(const client::Event& event) {
    if (output_.json) output_.answer << event.data << "\n" << std::flush;
    const Result<Record> record = client::record_of(event);
    if (!record) return;
    const RecordBody& body = record->body;
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
        said_.clear();  // it begins anew
    } else if (const auto* ended = std::get_if<RunFailed>(&body)) {
        failure_ = "the run failed: " + ended->error;
    } else if (std::holds_alternative<RunCancelled>(body)) {
        failure_ = "the run was cancelled";
    } else if (std::holds_alternative<RunStarted>(body)) {
        failure_.clear();
    } else if (std::holds_alternative<RunInterrupted>(body)) {
        note("the run was interrupted: " + describe(body), Colour::yellow);
    }
}

void Follower::show_message(const MessageAssistant& message) {
    const std::string text = text_of(message.content);
    if (!output_.json) {
        std::string_view rest = text;
        if (rest.starts_with(said_)) {
            rest.remove_prefix(said_.size());
        } else {
            end_line();
        }
        output_.answer << printable_lines(rest);
        if (!rest.empty()) in_line_ = !rest.ends_with('\n');
        end_line();
    }
    said_.clear();
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
    std::string line = printable(text);
    if (output_.terminal.width > 0) line = cut_to(line, output_.terminal.width);
    output_.notes << coloured(line, colour, output_.terminal) << "\n" << std::flush;
}

void Follower::end_line() {
    if (in_line_) output_.answer << "\n";
    output_.answer.flush();
    in_line_ = false;
}

}  // namespace rouse::cli
