#pragma once

// The files that people and other programs look at: snapshots, token indexes, pending calls. Each
// says which seq it covers; none is ever trusted against the log.

#include <set>
#include <string>
#include <vector>

#include "base/fs.h"
#include "domain/state.h"
#include "store/files/layout.h"
#include "store/store.h"

namespace rouse::files {

std::string snapshot_text(const SessionState& state);
std::string tokens_text(const SessionState& state);
std::string pending_text(const SessionState& state, const PendingCall& call);
// {bySession, byStatus, byExpiration} over all open calls.
std::string pending_index_text(const std::vector<OpenPending>& calls);

bool has_open_token(const SessionState& state);

// Writes the views of one session. `nothing`: there are none of it yet.
enum class Before : std::uint8_t { nothing, views };
Result<void> write_views(Fs& fs, const Layout& layout, const SessionState& state, Before before);
// Removes those that an earlier checkpoint may have written and that say nothing any more: the
// tokens when none is open, and the pending calls `gone`.
Result<void> remove_old_views(Fs& fs, const Layout& layout, const SessionState& state,
                              const std::vector<PendingId>& gone);
Result<void> remove_views(Fs& fs, const Layout& layout, const SessionId& id,
                          const std::vector<PendingId>& pending);

}  // namespace rouse::files
