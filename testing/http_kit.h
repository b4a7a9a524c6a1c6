#pragma once

// A client and a server for tests of whoever talks HTTP.

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <string>
#include <utility>

#include "net/http_client.h"
#include "testing/http_fake.h"
#include "testing/run_on.h"

namespace rouse::testing {

// No test waits this long; it turns a hang into a failure.
inline constexpr Milliseconds kNeverReached{60'000};

// Of the reason alone, or "" for a result.
inline std::string reason_of(const Result<HttpResponse>& result) {
    return result ? std::string() : std::string(result.error().reason);
}

class HttpTest : public ::testing::Test {
 protected:
    HttpRequest get(std::string_view path) const { return request_to("GET", fake_.url(path)); }
    HttpRequest post(std::string_view path, std::string body) const {
        HttpRequest request = request_to("POST", fake_.url(path));
        request.body = std::move(body);
        return request;
    }
    static HttpRequest request_to(std::string method, std::string url) {
        HttpRequest request;
        request.method = std::move(method);
        request.url = std::move(url);
        request.total_timeout = kNeverReached;
        request.allow_private_addresses = true;
        return request;
    }
    Result<HttpResponse> send(HttpRequest request) {
        return run_on(loop_, client_.send(std::move(request)));
    }

    HttpFake fake_;
    boost::asio::io_context loop_{1};
    HttpClient client_{loop_.get_executor()};
};

}  // namespace rouse::testing
