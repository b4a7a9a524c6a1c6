#pragma once

// A small HTTP/1.1 server on loopback for tests of whoever talks to servers. What it does is
// scripted by path; it keeps every request. Threads of its own, no clock: what is slow waits for
// the test, what stalls waits for the client to go away.
//
//   HttpFake fake;
//   fake.script("/deploy", {HttpReply::json(R"({"externalRef":"job-7"})")});
//   … ask fake.url("/deploy") …
//   EXPECT_EQ(fake.requests().at(0).body, "{}");

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace rouse::testing {

struct HttpFakeRequest {
    std::string method;
    std::string target;                                        // path and query
    std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
    std::string body;

    std::string path() const { return target.substr(0, target.find('?')); }
    // Empty when there is none.
    std::string header(std::string_view name) const;
};

struct HttpReply {
    // What happens after `fault_after` bytes of the answer, head included.
    enum class Fault : std::uint8_t { none, stall, close, reset };

    int status = 200;
    std::vector<std::pair<std::string, std::string>> headers = {};
    std::string body = {};
    Fault fault = Fault::none;
    std::size_t fault_after = 0;
    bool gated = false;    // the body waits for open_gate()
    bool echo = false;     // the body is the request: {"method","target","headers":{},"body"}
    std::string raw = {};  // sent as it is, instead of all that

    static HttpReply text(std::string body, int status = 200);
    static HttpReply json(std::string body, int status = 200);
    static HttpReply redirect(std::string location);
    static HttpReply huge(std::size_t bytes);
    static HttpReply failing(Fault fault, std::size_t after = 0, std::string body = "half of it");
    static HttpReply gate(std::string body);
};

struct HttpFakeOptions {
    bool tls = false;              // with a certificate of its own, for 127.0.0.1
    std::string unix_socket = {};  // listens there instead of on a port
};

class HttpFake final {
 public:
    explicit HttpFake(HttpFakeOptions options = {});
    ~HttpFake();
    HttpFake(const HttpFake&) = delete;
    HttpFake& operator=(const HttpFake&) = delete;

    // Replies are used up in order, the last one stays. A path without a script is 404, but
    // "/echo". As a proxy it is asked for whole URLs: those are paths too.
    void script(const std::string& path, std::vector<HttpReply> replies);
    // Called on a thread of the server's for each request, before the answer.
    void on_request(std::function<void(const HttpFakeRequest&)> callback);
    void open_gate();

    std::uint16_t port() const { return port_; }
    std::string url(std::string_view path = "/") const;
    const std::string& certificate() const { return certificate_; }

    std::vector<HttpFakeRequest> requests() const;
    int connections() const;                   // accepted so far
    std::vector<std::string> offered() const;  // by the last TLS client: "h2", "http/1.1"
    // Waits until so many clients have left an answer that stalls.
    void wait_for_leavers(int count);

 private:
    class Connection;
    struct Tls;

    void listen_on_port();
    void listen_on_path(const std::string& path);
    void accept_all();
    void serve(int fd);
    bool serve_one(Connection& connection);
    HttpReply next_reply(const HttpFakeRequest& request);
    bool answer(Connection& connection, const HttpFakeRequest& request, const HttpReply& reply);
    bool finish(Connection& connection, const HttpReply& reply);
    void wait_at_gate();

    HttpFakeOptions options_;
    std::string certificate_;
    std::unique_ptr<Tls> tls_;
    int listener_ = -1;
    std::uint16_t port_ = 0;

    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::string, std::vector<HttpReply>> scripts_;
    std::function<void(const HttpFakeRequest&)> on_request_;
    std::vector<HttpFakeRequest> requests_;
    std::vector<std::string> offered_;
    std::set<int> open_;
    std::vector<std::thread> serving_;
    int connections_ = 0;
    int leavers_ = 0;
    bool gate_open_ = false;
    bool stopping_ = false;

    std::thread accepting_;  // last: everything it uses is there
};

}  // namespace rouse::testing
