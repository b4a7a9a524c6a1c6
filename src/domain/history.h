#pragma once

// Answers about what is long settled, found by going through the log. Rare: a result or token that
// comes again after its wait has ended.

#include <optional>
#include <span>
#include <vector>

#include "domain/state.h"

namespace rouse {

// How a call ended, whenever that was; nothing when the log does not know it or it is still open.
std::optional<PendingCall> find_settled_call(std::span<const Record> log, const PendingId& id);

// Every call that has ended, in the order of the ends: what ends later comes behind.
std::vector<PendingCall> settled_calls(std::span<const Record> log);

// The token as the log left it.
std::optional<Token> find_past_token(std::span<const Record> log, const TokenId& id);

// The last record of the change that settled the call or consumed the token: that of the run which
// went on with it, unless other calls were open. 0: none did.
Seq seq_of_settlement(std::span<const Record> log, const PendingId& id);
Seq seq_of_resume(std::span<const Record> log, const TokenId& id);

// Whether all that the run, or the one that it continues, was begun to read is what these calls of
// the asker, another session's run, asked for.
bool reads_only_asks_of(std::span<const Record> log, const RunId& run, const RunId& asker,
                        std::span<const CallId> calls);

}  // namespace rouse
