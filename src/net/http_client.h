#pragma once

// All outgoing HTTP: models, tools, webhooks. HTTP/1.1 and, where a TLS server offers it, HTTP/2;
// connections are kept and used again. Redirects are never followed.
//
//   HttpClient client(loop.get_executor());
//   HttpRequest request;
//   request.url = "https://ci.example/status";
//   Result<HttpResponse> response = co_await client.send(std::move(request));

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "base/time.h"

namespace rouse {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpResponse {
    int status = 0;
    HttpHeaders headers = {};  // names in lower case, in the order in which they came
    std::string body = {};     // empty when on_body took it

    // The first one's value; nothing when there is none. `name` in lower case.
    const std::string* header(std::string_view name) const;
};

struct HttpRequest {
    std::string method = "GET";
    std::string url = {};  // http or https
    HttpHeaders headers = {};
    std::string body = {};
    Milliseconds connect_timeout = limits::kHttpConnectTimeout;  // name, TCP and TLS together
    Milliseconds total_timeout{0};                               // 0: none
    Milliseconds idle_timeout{0};  // longest silence after the request went out; 0: none
    std::size_t max_response_bytes = limits::kHttpResponseBytes;
    // Called on a strand of the client's, the first once, before any body. An error that one of
    // them returns ends the request and is its result. They must not block.
    std::function<Result<void>(const HttpResponse&)> on_headers = {};
    std::function<Result<void>(std::string_view)> on_body = {};
    std::string unix_socket = {};  // connect to this path instead of the URL's host
    std::string ca_file = {};      // trusted instead of the system's certificates
    std::string proxy = {};        // empty: none; "env": as the environment says
    // Whether the address that is connected (a proxy's, if there is one) may be other than public.
    bool allow_private_addresses = false;
    // Whether it may be sent again when a kept connection breaks before any answer, as GET, HEAD,
    // OPTIONS, PUT and DELETE always may. Other requests get a connection of their own.
    bool may_repeat = false;
};

// Thread-safe, on whatever executor, whose loop outlives it. It must not be destroyed while another
// thread runs that loop. What is in flight then ends as cancelled.
class HttpClient final {
 public:
    explicit HttpClient(const boost::asio::any_io_executor& executor);
    ~HttpClient();
    HttpClient(const HttpClient&) = delete;
    HttpClient& operator=(const HttpClient&) = delete;

    // A response of any status is a result. Nothing was sent:
    //   invalid      invalid_url, invalid_header, invalid_method
    //   denied       address_not_allowed
    //   unavailable  connect_failed: no such name, nobody listens, no trust in the certificate
    //   timeout      connect_timeout
    // The other side may have acted on it:
    //   io           connection_broken: or what came is not HTTP
    //   timeout      request_timeout
    //   io           response_too_large
    //   cancelled    by the waiting coroutine's cancellation slot; the transfer ends at once
    boost::asio::awaitable<Result<HttpResponse>> send(HttpRequest request);

 private:
    class Core;
    class Sending;
    std::shared_ptr<Core> core_;  // shared with what is in flight
};

// Whether the other side may have seen the request that ended in this error.
bool may_have_been_sent(const Error& error);

// For use in a query string or a path segment: all but letters, digits and -._~ becomes %XX.
std::string percent_encode(std::string_view text);

}  // namespace rouse
