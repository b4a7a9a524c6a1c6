#pragma once

// Which server the command line talks to, and with which token.

#include <functional>
#include <string>

#include "base/fs.h"
#include "base/result.h"
#include "base/secret.h"

namespace rouse::client {

inline constexpr std::string_view kStandardUrl = "http://127.0.0.1:7717";

struct ServerAddress {
    std::string url = std::string(kStandardUrl);  // no slash at its end
    Secret token = {};                            // empty: none is sent
    std::string token_file = {};                  // that it was read from
    std::string ca_file = {};                     // trusted instead of the system's certificates
};

// What the command line says; empty text is nothing said.
struct ServerFlags {
    std::string url;
    std::string token;
    std::string token_file;
    std::string ca_file = {};
};

// A variable of the environment, empty when it is not set.
using Variable = std::function<std::string(const char* name)>;

// Flags, else ROUSE_URL and ROUSE_TOKEN, else the standard address with the token that a server of
// ours keeps in its data directory. That token goes to no other machine. For a certificate of one's
// own: the flag, else ROUSE_CA_FILE.
//   invalid   usage: the URL is none
//   and what reading the file of --token-file gives
Result<ServerAddress> find_server(const ServerFlags& flags, const Variable& variable, Fs& fs);

// As the configuration has it: ROUSE_STORE_PATH, $XDG_DATA_HOME/rouse or ~/.local/share/rouse;
// empty when there is no home.
std::string data_directory(const Variable& variable);

}  // namespace rouse::client
