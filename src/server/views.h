#pragma once

// How sessions, waits and pending calls look to clients. Everything is computed from the log; no
// rule about status lives here.

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "domain/status.h"
#include "domain/transcript.h"
#include "runtime/registry.h"
#include "store/store.h"

namespace rouse::server {

// Builds one JSON object, member by member.
class JsonObject {
 public:
    JsonObject() {
        constexpr std::size_t kUsual = 240;
        out_.reserve(kUsual);
        out_ = '{';
    }
    JsonObject& text(std::string_view name, std::string_view value);
    JsonObject& text_or_null(std::string_view name, std::string_view value);
    JsonObject& number(std::string_view name, std::int64_t value);
    JsonObject& flag(std::string_view name, bool value);
    JsonObject& time(std::string_view name, const std::optional<Timestamp>& value);
    JsonObject& raw(std::string_view name, std::string_view json);  // empty: null
    template <class T>
    JsonObject& value(std::string_view name, const T& value) {
        append_json_name(out_, name);
        codec::write(out_, value);
        return *this;
    }
    // The last call to it.
    std::string done() {
        out_ += '}';
        return std::move(out_);
    }

 private:
    std::string out_;
};

// [a,b,c]
std::string json_list(const std::vector<std::string>& items);

struct Viewer {
    BootId boot;
    Timestamp now{};
    bool masks_ids = false;  // a reader who may not submit does not see what settles a call
};

std::string activity_json(const Activity& activity);
std::string status_json(const SessionState& state, const Viewer& viewer);
// What the open calls were given. The state does not keep it; the log and a fresh suspension do.
using OpenInputs = std::map<PendingId, RawJson>;
OpenInputs open_inputs(const SessionState& state, const Transcript& transcript);
OpenInputs open_inputs(const Suspension& suspension);
std::string session_json(const SessionState& state, const OpenInputs& inputs,
                         const std::optional<Damage>& damage, std::uint64_t log_bytes,
                         const Viewer& viewer);
// As a list shows it: from the index alone.
std::string summary_json(const SessionSummary& session, const Viewer& viewer);
std::string pending_json(const PendingCall& call, const RawJson& input, const Viewer& viewer);
std::string wait_json(const SessionState& state, const OpenInputs& inputs, const Viewer& viewer);
std::string board_status_json(const SessionState& state, const Viewer& viewer);
// So many entries, from the one with that number on.
struct Slice {
    std::size_t first = 0;
    std::size_t count = std::numeric_limits<std::size_t>::max();
};
std::string transcript_json(const SessionState& state, const Transcript& transcript,
                            const Slice& slice, const Viewer& viewer);
std::string explain_json(const SessionState& state, const std::vector<Record>& log,
                         const Transcript& transcript, const Catalogue& catalogue,
                         const Viewer& viewer);

// A pending call in the words of the pending-call API (camelCase, milliseconds). `part` is what the
// conversation has of it; null: nothing.
std::string async_call_json(const SessionId& session, const PendingCall& call, const ToolPart* part,
                            const Viewer& viewer);

// A schema as it is, or the one that takes any object.
std::string schema_text(const RawJson& schema);

// Every pending id in the text, cut short.
std::string mask_pending_ids(std::string_view text);

// Null: the conversation does not have it.
const ToolPart* find_part(const Transcript& transcript, const PendingId& id);
// All of them at once; they live as long as the transcript.
using CallParts = std::unordered_map<PendingId, const ToolPart*>;
CallParts call_parts(const Transcript& transcript);

}  // namespace rouse::server
