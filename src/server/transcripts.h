#pragma once

// What was said in a session, read from its log as far as an answer needs it.

#include <vector>

#include "domain/transcript.h"
#include "store/store.h"

namespace rouse::server {

Result<Transcript> read_transcript(Store& store, const SessionId& session);
// Its end, at least as far back as these calls: what somebody waits for stands near there.
Result<Transcript> read_transcript_with(Store& store, const SessionId& session,
                                        const std::vector<PendingId>& calls);
// The same with the calls that are open; nothing is read if there are none.
Result<Transcript> read_open_calls(Store& store, const SessionState& state);

}  // namespace rouse::server
