#include "cli/record_text.h"

#include "client/client.h"

namespace rouse::cli {
namespace {

struct Head {
    Seq seq = 0;
    Timestamp at{};
    std::string kind;
    static constexpr auto fields() {
        return std::tuple(required("seq", &Head::seq), required("ts", &Head::at),
                          required("kind", &Head::kind));
    }
};

std::string with(std::string text, std::string_view more) {
    if (text.empty()) return std::string(more);
    if (!more.empty()) text.append(": ").append(more);
    return text;
}

std::string describe_message(const Content& content) {
    std::string text = text_of(content);
    for (const Block& block : content) {
        const auto* call = block.get_if<ToolUseBlock>();
        if (call == nullptr) continue;
        if (!text.empty()) text += ' ';
        text += "→ " + call->name + " " + call->input.text();
    }
    return text;
}

std::string describe_progress(const Progress& progress) {
    return with(progress.percent ? std::to_string(*progress.percent) + "%" : "", progress.message);
}

std::string until(const std::optional<Timestamp>& at) {
    return at ? " until " + to_rfc3339(*at) : "";
}

// One function for each kind that has something to say; the others are their name.
struct Describe {
    std::string operator()(const SessionCreated& r) const { return with(r.agent, r.title); }
    std::string operator()(const SessionUpdated& r) const { return r.title.value_or(""); }
    std::string operator()(const SessionForked& r) const {
        return r.from.session_id.text() + " at " + std::to_string(r.from.at_seq);
    }
    std::string operator()(const SessionCompacted& r) const { return r.summary; }
    std::string operator()(const MessageUser& r) const {
        return (r.queued ? "(queued) " : "") + describe_message(r.content);
    }
    std::string operator()(const MessageAssistant& r) const { return describe_message(r.content); }
    std::string operator()(const MessageSystem& r) const { return describe_message(r.content); }
    std::string operator()(const RunStarted& r) const {
        return r.continues.empty() ? r.run_id.text()
                                   : r.run_id.text() + " continues " + r.continues.text();
    }
    std::string operator()(const RunWaiting& r) const {
        return with("for " + std::string(to_string(r.wait_kind)) + until(r.deadline_at), r.prompt);
    }
    std::string operator()(const RunResumed& r) const { return std::string(to_string(r.reason)); }
    std::string operator()(const RunRetrying& r) const {
        return "attempt " + std::to_string(r.attempt) + ": " + r.message;
    }
    std::string operator()(const ContextRepaired& r) const {
        std::string text;
        for (const std::string& change : r.changes)
            text += (text.empty() ? "" : "; ") + change;
        return text;
    }
    std::string operator()(const RunFailed& r) const { return with(r.reason, r.error); }
    std::string operator()(const RunCancelled& r) const { return r.reason; }
    std::string operator()(const RunInterrupted& r) const {
        return std::string(to_string(r.reason));
    }
    std::string operator()(const ToolStarted& r) const { return with(r.call_id.text, r.tool); }
    std::string operator()(const ToolCompleted& r) const {
        return with(r.call_id.text, text_of(r.result.content));
    }
    std::string operator()(const ToolFailed& r) const { return with(r.call_id.text, r.error); }
    std::string operator()(const PendingCreated& r) const {
        return with(r.call_id.text + " " + r.tool, r.prompt);
    }
    std::string operator()(const PendingWaiting& r) const { return with(r.reason, r.prompt); }
    std::string operator()(const PendingProcessing& r) const { return r.worker; }
    std::string operator()(const PendingProgress& r) const { return describe_progress(r.progress); }
    std::string operator()(const PendingExpiring& r) const {
        return "its time is nearly over" + until(r.expires_at);
    }
    std::string operator()(const PendingCompleted& r) const {
        return with(r.call_id.text, text_of(r.result.content));
    }
    std::string operator()(const PendingFailed& r) const { return with(r.call_id.text, r.error); }
    std::string operator()(const PendingExpired& r) const { return with(r.call_id.text, r.error); }
    std::string operator()(const PendingCancelled& r) const {
        return with(r.call_id.text, r.reason);
    }
    std::string operator()(const PendingApproved& r) const {
        return with(with(r.call_id.text, r.reason), r.input.text());
    }
    std::string operator()(const TokenMinted& r) const {
        return r.token_id.text() + until(r.expires_at);
    }
    std::string operator()(const TokenConsumed& r) const { return r.token_id.text(); }
    std::string operator()(const TokenRevoked& r) const {
        return with(r.token_id.text(), r.reason);
    }
    std::string operator()(const InboxReceived& r) const { return with(r.from, r.text); }
    std::string operator()(const OutboxSent& r) const { return r.text; }
    std::string operator()(const StatusDerived& r) const {
        return std::string(to_string(r.status));
    }
    std::string operator()(const auto&) const { return {}; }
};

}  // namespace

std::string text_of(const Content& content) {
    std::string text;
    for (const Block& block : content) {
        if (const auto* said = block.get_if<TextBlock>()) text += said->text;
    }
    return text;
}

std::string text_of(const RawJson& content) {
    if (std::optional<std::string> text = read_json_string(content.text())) return *text;
    Content blocks;
    if (codec::read(std::string_view(content.text()), blocks)) return text_of(blocks);
    return content.text();
}

std::string describe(const RecordBody& body) {
    return std::visit(Describe(), body);
}

Result<RecordLine> to_line(const std::string& json) {
    const Result<Head> head = from_json<Head>(json, "the record");
    if (!head) return head.error();
    RecordLine line{head->seq, head->at, head->kind, {}};
    // To those who may only read, pending ids are shown cut, and are none to a parser.
    if (const Result<Record> record = client::record_of({"", "", json})) {
        line.what = describe(record->body);
    }
    return line;
}

}  // namespace rouse::cli
