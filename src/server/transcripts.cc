#include "server/transcripts.h"

#include <algorithm>
#include <span>

#include "server/views.h"

namespace rouse::server {

Result<Transcript> read_transcript(Store& store, const SessionId& session) {
    const Result<std::vector<Record>> records = read_records(store, session);
    if (!records) return records.error();
    Transcript transcript;
    for (const Record& record : *records)
        transcript.fold(record);
    return transcript;
}

Result<Transcript> read_transcript_with(Store& store, const SessionId& session,
                                        const std::vector<PendingId>& calls) {
    Transcript end;
    const auto has_all = [&](std::span<const Record> records) {
        end = Transcript();
        for (const Record& record : records)
            end.fold(record);
        return std::ranges::all_of(
            calls, [&](const PendingId& call) { return find_part(end, call) != nullptr; });
    };
    const Result<std::vector<Record>> records = read_back(store, session, has_all);
    if (!records) return records.error();
    return end;
}

Result<Transcript> read_open_calls(Store& store, const SessionState& state) {
    std::vector<PendingId> open;
    for (const PendingCall& call : state.pending) {
        if (is_open(call.status)) open.push_back(call.pending_id);
    }
    return open.empty() ? Transcript() : read_transcript_with(store, state.id, open);
}

}  // namespace rouse::server
