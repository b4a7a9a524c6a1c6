#include "app/server_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <array>

namespace rouse::app {
namespace {

constexpr std::chrono::seconds kStartTime{15};

// What there is to read; nothing when the other side has closed it or `limit` is over.
std::string read_some(int descriptor, Milliseconds limit) {
    pollfd input{descriptor, POLLIN, 0};
    if (::poll(&input, 1, static_cast<int>(limit.count())) <= 0) return {};
    std::array<char, 4096> bytes{};
    const ssize_t count = ::read(descriptor, bytes.data(), bytes.size());
    return {bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
}

}  // namespace

Result<std::unique_ptr<ServerProcess>> ServerProcess::start(const std::string& directory) {
    ProcessRequest request;
    request.argv = {"/proc/self/exe", "serve",       "--data",      directory,
                    "--listen",       "127.0.0.1:0", "--log-level", "warn"};
    Result<Spawned> spawned = spawn(request);
    if (!spawned) return spawned.error();
    std::unique_ptr<ServerProcess> server(new ServerProcess(*std::move(spawned)));
    if (Result<void> listens = server->read_url(); !listens) return listens.error();
    return server;
}

ServerProcess::~ServerProcess() {
    kill();
}

Result<void> ServerProcess::read_url() {
    constexpr std::string_view kGreeting = "listening on ";
    std::string said;
    std::size_t end = std::string::npos;
    while (end == std::string::npos) {
        const std::string more = read_some(process_.output.number(), kStartTime);
        if (more.empty()) {
            return Error(ErrorKind::io, "server_failed",
                         "the server did not start: " +
                             read_some(process_.errors.number(), Milliseconds(0)));
        }
        said += more;
        const std::size_t at = said.find(kGreeting);
        if (at == std::string::npos) continue;
        end = said.find('\n', at);
        if (end == std::string::npos) continue;
        url_ = said.substr(at + kGreeting.size(), end - at - kGreeting.size());
    }
    return {};
}

void ServerProcess::kill() {
    if (process_.pid > 0) end(SIGKILL);
}

Result<void> ServerProcess::stop() {
    const int status = end(SIGTERM);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
    return Error(
        ErrorKind::io, "server_failed",
        "the server did not end well: " + read_some(process_.errors.number(), Milliseconds(0)));
}

int ServerProcess::end(int signal) {
    int status = 0;
    ::kill(process_.pid, signal);
    ::waitpid(process_.pid, &status, 0);
    process_.pid = 0;
    return status;
}

}  // namespace rouse::app
