#pragma once

// The server, put together: store, recovery, runtime, API, and the two loops that they run on. One
// loop has the sockets, the other everything that changes sessions.

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/env.h"
#include "config/config.h"

namespace rouse::app {

struct ServiceOptions {
    Config config;
    std::map<std::string, std::string> environment;
    bool insecure_no_auth = false;
    std::string version;
    // For SIGHUP: the configuration as it is now.
    std::function<Result<Config>()> reload;
    // Told once the port is open.
    std::function<void(const std::string& url, const std::string& token_file)> on_listening;
};

// Runs until a signal ends it. SIGTERM and SIGINT drain; a second one exits at once; SIGHUP reads
// agents and tools anew.
Result<void> run_service(Env env, ServiceOptions options);

}  // namespace rouse::app
