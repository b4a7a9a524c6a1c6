#pragma once

// A server in a process of its own: `rouse serve` of this very binary, to be killed.

#include <memory>
#include <string>

#include "base/result.h"
#include "net/spawn.h"

namespace rouse::app {

class ServerProcess final {
 public:
    // Returns once it listens, on a free port of this machine, with the demo agent. io, timeout.
    static Result<std::unique_ptr<ServerProcess>> start(const std::string& directory);
    ~ServerProcess();
    ServerProcess(const ServerProcess&) = delete;
    ServerProcess& operator=(const ServerProcess&) = delete;

    const std::string& url() const { return url_; }
    pid_t pid() const { return process_.pid; }

    void kill();          // kill -9
    Result<void> stop();  // politely; io: it did not end well

 private:
    explicit ServerProcess(Spawned process) : process_(std::move(process)) {}
    Result<void> read_url();
    int end(int signal);

    Spawned process_;
    std::string url_;
};

}  // namespace rouse::app
