#pragma once

// One session, for people.

#include <string>

#include "cli/server_commands.h"

namespace rouse::cli {

// "waiting for person", "idle", …
std::string status_text(const std::string& status, const std::optional<std::string>& wait_kind);

// How an interrupted session goes on, in whole lines; empty: it is not interrupted.
std::string way_on(const Context& context, const SessionId& id, const std::string& status);

std::string session_text(const Context& context, const client::SessionView& session);
// The last `count` messages.
std::string conversation_text(const Context& context, const client::Conversation& conversation,
                              std::size_t count);
std::string explanation_text(const Context& context, const client::Explanation& explanation);

}  // namespace rouse::cli
