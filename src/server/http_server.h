#pragma once

// The wire: sockets, framing, limits in time and size. Hands whole requests to the API and writes
// its answers. On one loop.

#include <boost/asio/any_io_executor.hpp>
#include <cstdint>
#include <memory>
#include <string>

#include "base/log.h"
#include "server/api.h"

namespace rouse::server {

struct HttpLimits {
    std::size_t header_bytes = 16U << 10U;
    std::size_t header_fields = 100;
    std::size_t body_bytes = 4U << 20U;
    std::size_t connections = 10'000;
    std::size_t connections_per_address = 256;  // that have shown no valid token
    bool behind_proxy = false;  // whose last word in X-Forwarded-For is the client's address
    std::chrono::seconds header_time{10};
    std::chrono::seconds request_time{60};
    std::chrono::seconds idle_time{60};
    std::chrono::seconds write_time{30};
};

class HttpServer final {
 public:
    HttpServer(const boost::asio::any_io_executor& loop, Api& api, Logger& log,
               HttpLimits limits = {});
    ~HttpServer();

    // Begins to accept; gives back the port, which was chosen when 0 was asked for.
    //   unavailable  address_in_use, cannot_listen
    Result<std::uint16_t> listen(const std::string& host, std::uint16_t port);

    // Connections from now on are under TLS, with this certificate chain and its key (PEM files).
    // Again for new ones, when they were renewed.
    //   invalid  bad_tls: with the file and the reason; all stays as it was
    Result<void> use_tls(const std::string& certificate, const std::string& key);

    // Takes no new connections and ends those that have no request under way.
    void stop();
    // Ends what is left.
    void close_all();
    std::size_t connections() const;

 private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace rouse::server
