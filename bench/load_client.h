#pragma once

// One connection to a server under load. Failures are exceptions here: whatever is not as expected
// ends the work it happened in, and a program like this has nothing to save.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/verb.hpp>
#include <optional>
#include <stdexcept>
#include <string>

#include "bench/address.h"
#include "bench/load_report.h"

namespace rouse::bench {

namespace asio = boost::asio;
namespace http = boost::beast::http;

template <class T>
using Task = asio::awaitable<T>;

// An answer that was not as it should be, or none. `status` is the answer's, or "connection".
class Unexpected : public std::runtime_error {
 public:
    Unexpected(std::string status, const std::string& what)
        : std::runtime_error(what), status_(std::move(status)) {}
    const std::string& status() const { return status_; }

 private:
    std::string status_;
};

struct Target {
    Address server;
    std::string token;  // empty: none is sent
};

struct Request {
    http::verb method = http::verb::get;
    std::string path;
    std::string body;
};

struct Answer {
    unsigned status = 0;
    std::string body;
};

// The head of a request, up to the empty line.
std::string head_of(const Target& target, const Request& request,
                    const std::string& more_lines = "");

Task<asio::ip::tcp::socket> connect(const Target& target);

// Keep-alive; connects when it has to. One request at a time.
class Client {
 public:
    Client(Target target, Report& report) : target_(std::move(target)), report_(report) {}

    // Any answer at all. `kind` is the name under which the report counts it.
    Task<Answer> send(Request request, std::string kind);

 private:
    Task<Answer> exchange(const Request& request);

    Target target_;
    Report& report_;
    std::optional<asio::ip::tcp::socket> socket_;
    boost::beast::flat_buffer buffer_;
    std::string sent_;
};

}  // namespace rouse::bench
