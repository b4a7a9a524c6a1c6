#pragma once

// What a suspended session waits for, and what to type to make it go on.

#include <optional>
#include <string>
#include <vector>

#include "cli/server_commands.h"

namespace rouse::cli {

enum class Ways : std::uint8_t { command, command_and_request };

// When something happens by itself: the first call's time is over, or that of a wait without calls.
std::optional<Timestamp> earliest_end(const std::vector<client::PendingView>& calls,
                                      const std::optional<Timestamp>& deadline);

// Whole lines.
std::string waiting_text(const Context& context, const client::SessionView& session, Ways ways);

// The command that settles the call, and the request that does the same.
std::string rouse_line(const Context& context, const SessionId& session,
                       const client::PendingView& call);
std::string curl_line(const client::ServerAddress& server, const client::PendingView& call);

// A request as a person would type it, over several lines; those behind the first are indented.
std::string curl_request(const client::ServerAddress& server, const std::string& target,
                         const std::string& body);

}  // namespace rouse::cli
