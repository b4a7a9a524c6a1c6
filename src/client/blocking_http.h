#pragma once

// HTTP for a program that does one thing at a time: a loop that runs only while somebody waits.

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <optional>

#include "net/http_client.h"

namespace rouse::client {

class BlockingHttp final {
 public:
    // `interrupt` is a descriptor, or -1: once it can be read, every wait ends as cancelled.
    explicit BlockingHttp(int interrupt);

    // As HttpClient::send.
    Result<HttpResponse> send(HttpRequest request);

    // Runs the loop until `done` or, with a false, until `patience` is over. cancelled.
    Result<bool> run_until(const std::function<bool()>& done, std::optional<Milliseconds> patience);

    boost::asio::io_context& loop() { return loop_; }
    HttpClient& http() { return http_; }

 private:
    boost::asio::io_context loop_{1};
    HttpClient http_{loop_.get_executor()};
    boost::asio::posix::stream_descriptor interrupt_{loop_};
    bool interrupted_ = false;
};

}  // namespace rouse::client
