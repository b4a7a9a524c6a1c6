#pragma once

// One client's connection, plain or under TLS: requests in, answers out.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "server/http_server.h"

namespace rouse::server {

class Connection {
 public:
    virtual ~Connection() = default;

    virtual Task<void> run() = 0;  // until it ends
    virtual void close_if_idle() = 0;
    virtual void close() = 0;
};

// What all connections of a server share. On its loop.
struct Wire {
    boost::asio::any_io_executor loop;
    Api& api;
    Logger& log;
    HttpLimits limits;
    std::shared_ptr<boost::asio::ssl::context> tls = {};  // none: plain text
    std::set<Connection*> connections = {};
    std::map<std::string, std::size_t> unknown =
        {};  // connections without a valid token, by address
    bool stopping = false;
};

std::unique_ptr<Connection> make_connection(std::shared_ptr<Wire> wire,
                                            boost::asio::ip::tcp::socket socket,
                                            std::string remote);

}  // namespace rouse::server
