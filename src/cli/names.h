#pragma once

// From what a person types to the id that is meant.

#include <string>
#include <string_view>

#include "client/client.h"

namespace rouse::cli {

inline constexpr std::size_t kShortestPrefix = 8;  // of a session's id, behind "sess_"
inline constexpr std::size_t kShortestTail = 6;    // of a pending id, behind its last "_"

// A whole id, with or without "sess_", or the beginning of one: then the server is asked.
//   not_found   none begins like this
//   invalid     usage: too short, or several do, which the message names
Result<SessionId> find_session(client::Client& client, const std::string& name);

// A whole pending id, or the beginning of the part behind its last "_" as `pending ls` shows it,
// among the open calls, or else those that were settled lately. Errors as above.
Result<std::string> find_call(client::Client& client, const std::string& name);

// The part of a pending id that tells it from the others, as far as a table needs it.
std::string short_call_id(std::string_view pending_id);

}  // namespace rouse::cli
