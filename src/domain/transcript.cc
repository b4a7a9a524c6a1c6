#include "domain/transcript.h"

#include <algorithm>
#include <iterator>
#include <span>

namespace rouse {
namespace {

std::vector<ToolPart> parts_of(const Content& content) {
    std::vector<ToolPart> parts;
    for (const Block& block : content) {
        const auto* use = block.get_if<ToolUseBlock>();
        if (use == nullptr) continue;
        ToolPart part;
        part.call_id = use->id;
        part.tool = use->name;
        part.input = use->input;
        parts.push_back(std::move(part));
    }
    return parts;
}

std::size_t text_bytes(const Block& block) {
    if (const auto* text = block.get_if<TextBlock>()) return text->text.size();
    if (const auto* use = block.get_if<ToolUseBlock>()) return use->input.text().size();
    if (const auto* result = block.get_if<ToolResultBlock>()) return result->content.text().size();
    if (const auto* image = block.get_if<ImageBlock>()) return image->source.text().size();
    return block.get_if<UnknownBlock>()->object.text().size();
}

}  // namespace

std::size_t text_bytes(const TranscriptEntry& entry) {
    std::size_t bytes = sizeof(TranscriptEntry);
    for (const Block& block : entry.content)
        bytes += sizeof(Block) + text_bytes(block);
    for (const ToolPart& part : entry.parts) {
        bytes += sizeof(ToolPart);
        if (part.result) {
            bytes += part.result->content.text().size() + part.result->metadata.text().size();
        }
    }
    return bytes;
}

Message results_message(const std::vector<ToolPart>& parts, const ToolResult& open_result) {
    Message message;
    for (const ToolPart& part : parts) {
        const ToolResult& result = part.result ? *part.result : open_result;
        message.content.emplace_back(
            ToolResultBlock{part.call_id, result.content, result.is_error, {}});
    }
    return message;
}

// Call ids are unique within a turn only, so the latest call of that name is meant.
ToolPart* Transcript::find_part(const CallId& call_id) {
    for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
        const auto part = std::ranges::find(entry->parts, call_id, &ToolPart::call_id);
        if (part != entry->parts.end()) return &*part;
    }
    return nullptr;
}

void Transcript::settle(const CallId& call_id, Timestamp at, ToolResult result) {
    ToolPart* part = find_part(call_id);
    if (part == nullptr || part->result) return;
    part->ended_at = at;
    part->result = std::move(result);
}

void Transcript::read_queued() {
    std::ranges::move(queued_, std::back_inserter(entries_));
    queued_.clear();
}

void Transcript::fold(const RecordView& record) {
    const auto add = [&](Role role, const MessageId& id, const Content& content) {
        entries_.push_back({record.seq, record.at, role, id, content,
                            role == Role::assistant ? parts_of(content) : std::vector<ToolPart>{}});
    };
    if (const auto* user = std::get_if<MessageUser>(&record.body)) {
        if (!run_open_) read_queued();
        add(Role::user, user->message_id, user->content);
        if (user->queued) {
            queued_.push_back(std::move(entries_.back()));
            entries_.pop_back();
        }
    } else if (const auto* assistant = std::get_if<MessageAssistant>(&record.body)) {
        add(Role::assistant, assistant->message_id, assistant->content);
    } else if (const auto* system = std::get_if<MessageSystem>(&record.body)) {
        add(Role::system, system->message_id, system->content);
    } else if (const auto* mail = std::get_if<InboxPresented>(&record.body)) {
        const MessageId id = mail->message_ids.empty() ? MessageId() : mail->message_ids.front();
        add(Role::user, id, text_content(mail->text));
    } else if (const auto* started = std::get_if<ToolStarted>(&record.body)) {
        if (ToolPart* part = find_part(started->call_id)) part->started_at = record.at;
    } else if (const auto* done = std::get_if<ToolCompleted>(&record.body)) {
        settle(done->call_id, record.at, done->result);
    } else if (const auto* failed = std::get_if<ToolFailed>(&record.body)) {
        settle(failed->call_id, record.at, error_result(failed->error));
    } else if (const auto* created = std::get_if<PendingCreated>(&record.body)) {
        if (ToolPart* part = find_part(created->call_id)) {
            part->pending_id = created->pending_id;
            part->started_at = record.at;
            if (!created->input.absent()) part->input = created->input;
        }
    } else if (const auto* result = std::get_if<PendingCompleted>(&record.body)) {
        settle(result->call_id, record.at, result->result);
    } else if (const auto* error = std::get_if<PendingFailed>(&record.body)) {
        settle(error->call_id, record.at, error_result(error->error));
    } else if (const auto* expired = std::get_if<PendingExpired>(&record.body)) {
        settle(expired->call_id, record.at, error_result(expired->error));
    } else if (const auto* cancelled = std::get_if<PendingCancelled>(&record.body)) {
        settle(cancelled->call_id, record.at, error_result(cancelled->error));
    } else if (const auto* approved = std::get_if<PendingApproved>(&record.body)) {
        ToolPart* part = find_part(approved->call_id);
        if (part != nullptr && !approved->input.absent()) part->input = approved->input;
    } else if (const auto* compact = std::get_if<SessionCompacted>(&record.body)) {
        compacted_ = *compact;
    } else if (const auto* run = std::get_if<RunFailed>(&record.body)) {
        if (run->reason == kHookAbort) entries_.resize(turn_start_);
        turn_start_ = entries_.size();
        run_open_ = false;
    } else if (std::holds_alternative<RunCompleted>(record.body) ||
               std::holds_alternative<RunCancelled>(record.body)) {
        turn_start_ = entries_.size();
        run_open_ = false;
    } else if (std::holds_alternative<RunInterrupted>(record.body)) {
        interrupted_at_ = entries_.size();
        run_open_ = false;
    } else if (const auto* begun = std::get_if<RunStarted>(&record.body)) {
        // A new turn after an interrupted one begins with what was said since.
        if (interrupted_at_ && begun->continues.empty()) turn_start_ = *interrupted_at_;
        interrupted_at_.reset();
        if (begun->continues.empty()) read_queued();
        run_open_ = true;
    } else if (const auto* fork = std::get_if<SessionForked>(&record.body)) {
        copied_left_ = fork->copied + 1;
    }
    if (copied_left_ == 0) return;
    --copied_left_;
    if (copied_left_ == 0) turn_start_ = entries_.size();
}

void append_context(std::vector<Message>& messages, const TranscriptEntry& entry,
                    const ToolResult& open_result) {
    messages.push_back({entry.role, entry.content, {}});
    if (!entry.parts.empty()) messages.push_back(results_message(entry.parts, open_result));
}

std::vector<Message> build_context(const Transcript& transcript, const ToolResult& open_result,
                                   std::size_t first_entries) {
    std::vector<Message> messages;
    const std::optional<SessionCompacted>& compacted = transcript.compacted();
    if (compacted) messages.push_back({Role::user, text_content(compacted->summary), {}});
    const std::span<const TranscriptEntry> all = transcript.entries();
    for (const TranscriptEntry& entry : all.first(std::min(first_entries, all.size()))) {
        if (compacted && entry.seq <= compacted->upto_seq) continue;
        append_context(messages, entry, open_result);
    }
    return messages;
}

}  // namespace rouse
