#pragma once

// The conversation, as a fold over the log: what people read and what the next model call is given.
// A turn that was suspended and resumed any number of times is one turn here; one that a hook
// vetoed never was.

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "domain/record.h"
#include "domain/state.h"

namespace rouse {

// One tool call of an assistant message and how it went.
struct ToolPart {
    CallId call_id;
    std::string tool;
    RawJson input;  // as it was run: edited at approval, or as the model wrote it
    PendingId pending_id;
    std::optional<Timestamp> started_at;
    std::optional<Timestamp> ended_at;
    std::optional<ToolResult> result;
    friend bool operator==(const ToolPart&, const ToolPart&) = default;
};

struct TranscriptEntry {
    Seq seq = 0;
    Timestamp at{};
    Role role = Role::user;
    MessageId message_id;
    Content content;
    std::vector<ToolPart> parts;  // in the order of the calls
    friend bool operator==(const TranscriptEntry&, const TranscriptEntry&) = default;
};

// About how much memory it takes: its texts.
std::size_t text_bytes(const TranscriptEntry& entry);

class Transcript {
 public:
    void fold(const RecordView& record);

    const std::vector<TranscriptEntry>& entries() const { return entries_; }
    // What stands in place of everything up to `upto_seq`, once a session was compacted.
    const std::optional<SessionCompacted>& compacted() const { return compacted_; }
    // Where the latest turn begins: the entries from here on were said since a run last ended.
    std::size_t turn_start() const { return turn_start_; }
    // What was said while a run was busy. The next run begins with it.
    const std::vector<TranscriptEntry>& queued() const { return queued_; }
    friend bool operator==(const Transcript&, const Transcript&) = default;

 private:
    ToolPart* find_part(const CallId& call_id);
    void settle(const CallId& call_id, Timestamp at, ToolResult result);
    void read_queued();

    std::vector<TranscriptEntry> entries_;
    std::vector<TranscriptEntry> queued_;
    bool run_open_ = false;
    std::size_t turn_start_ = 0;
    std::optional<std::size_t> interrupted_at_;
    std::uint64_t copied_left_ = 0;  // records of a fork that tell what its origin said
    std::optional<SessionCompacted> compacted_;
};

// One entry as messages: an assistant message with calls has their results behind it.
void append_context(std::vector<Message>& messages, const TranscriptEntry& entry,
                    const ToolResult& open_result);

// The messages for a model call. Behind each assistant message with calls stands one user message
// with a result for every call, in the calls' order: a call that has none gets `open_result`.
std::vector<Message> build_context(
    const Transcript& transcript, const ToolResult& open_result,
    std::size_t first_entries = std::numeric_limits<std::size_t>::max());

// The message behind an assistant message with calls: one result block for each, in their order.
Message results_message(const std::vector<ToolPart>& parts, const ToolResult& open_result);

}  // namespace rouse
