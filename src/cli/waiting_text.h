#pragma once

// What a suspended session waits for, and what to type to make it go on.

#include <string>

#include "cli/server_commands.h"

namespace rouse::cli {

enum class Ways : std::uint8_t { command, command_and_request };

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
