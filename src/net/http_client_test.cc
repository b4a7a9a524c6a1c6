// What goes out and what comes back; connections that are kept.

#include "net/http_client.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <filesystem>
#include <fstream>
#include <future>

#include "base/json.h"
#include "testing/http_kit.h"

namespace rouse {
namespace {

namespace asio = boost::asio;
using namespace testing;
using Fault = HttpReply::Fault;

class HttpClientTest : public HttpTest {
 protected:
    ~HttpClientTest() override {
        if (!directory_.empty()) std::filesystem::remove_all(directory_);
    }
    std::string path_of(const std::string& name) {
        if (directory_.empty()) {
            std::string pattern = std::filesystem::temp_directory_path() / "rouse_net_XXXXXX";
            directory_ = ::mkdtemp(pattern.data());
        }
        return directory_ + "/" + name;
    }

 private:
    std::string directory_;
};

TEST_F(HttpClientTest, AnAnswerHasItsStatusHeadersAndBody) {
    HttpReply reply = HttpReply::text("hello", 201);
    reply.headers = {{"Content-Type", "text/plain"}, {"X-Two", "a"}, {"x-two", " b "}};
    fake_.script("/plain", {reply});
    const Result<HttpResponse> response = send(get("/plain"));
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(response->status, 201);
    EXPECT_EQ(response->body, "hello");
    const HttpHeaders want = {
        {"content-type", "text/plain"}, {"x-two", "a"}, {"x-two", "b"}, {"content-length", "5"}};
    EXPECT_EQ(response->headers, want);
    ASSERT_NE(response->header("x-two"), nullptr);
    EXPECT_EQ(*response->header("x-two"), "a");
    EXPECT_EQ(response->header("x-three"), nullptr);
}

TEST_F(HttpClientTest, MethodTargetHeadersAndBodyArriveAsTheyWereGiven) {
    HttpRequest request = post("/echo?a=1&b=%20", std::string("{\"n\":1.0}\0\xFF", 11));
    request.method = "PATCH";
    request.headers = {{"Content-Type", "application/json"}, {"X-Empty", ""}, {"X-Words", "a b"}};
    ASSERT_TRUE(send(request));
    const HttpFakeRequest seen = fake_.requests().at(0);
    EXPECT_EQ(seen.method, "PATCH");
    EXPECT_EQ(seen.target, "/echo?a=1&b=%20");
    EXPECT_EQ(seen.body, request.body);
    const std::vector<std::pair<std::string, std::string>> want = {
        {"host", "127.0.0.1:" + std::to_string(fake_.port())},
        {"accept", "*/*"},
        {"content-type", "application/json"},
        {"x-empty", ""},
        {"x-words", "a b"},
        {"user-agent", "rouse"},
        {"content-length", "11"}};
    EXPECT_EQ(seen.headers, want);
}

TEST_F(HttpClientTest, NothingIsSentThatNobodyAskedFor) {
    ASSERT_TRUE(send(post("/echo", "x")));
    const HttpFakeRequest seen = fake_.requests().at(0);
    EXPECT_EQ(seen.header("content-type"), "");
    EXPECT_EQ(seen.header("expect"), "");
    EXPECT_EQ(seen.header("accept-encoding"), "");
}

TEST_F(HttpClientTest, EveryMethodIsItself) {
    for (const char* method : {"GET", "POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"}) {
        const Result<HttpResponse> response = send(request_to(method, fake_.url("/echo")));
        ASSERT_TRUE(response) << method << ": " << response.error().message;
        EXPECT_EQ(fake_.requests().back().method, method);
        EXPECT_EQ(fake_.requests().back().body, "");
    }
    fake_.script("/head", {HttpReply::text("five!")});
    const Result<HttpResponse> head = send(request_to("HEAD", fake_.url("/head")));
    ASSERT_TRUE(head) << head.error().message;
    EXPECT_EQ(*head->header("content-length"), "5");
    EXPECT_EQ(head->body, "");
}

TEST_F(HttpClientTest, ABodyOfMegabytesArrivesWhole) {
    std::string body(3'000'000, 'a');
    for (std::size_t i = 0; i < body.size(); i += 7)
        body[i] = static_cast<char>('a' + i % 26);
    ASSERT_TRUE(send(post("/echo", body)));
    EXPECT_TRUE(fake_.requests().at(0).body == body);
    EXPECT_EQ(fake_.requests().at(0).header("expect"), "");
}

TEST_F(HttpClientTest, AnyStatusIsAnAnswer) {
    for (const int status : {204, 304, 400, 401, 404, 429, 500, 503}) {
        fake_.script("/status", {HttpReply::text("", status)});
        const Result<HttpResponse> response = send(get("/status"));
        ASSERT_TRUE(response) << status << ": " << response.error().message;
        EXPECT_EQ(response->status, status);
    }
}

TEST_F(HttpClientTest, ARedirectIsAnAnswerAndIsNotFollowed) {
    fake_.script("/here", {HttpReply::redirect(fake_.url("/there"))});
    const Result<HttpResponse> response = send(get("/here"));
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(response->status, 302);
    EXPECT_EQ(fake_.requests().size(), 1U);
}

TEST_F(HttpClientTest, WhatComesBeforeTheRealAnswerIsPassedOver) {
    HttpReply reply;
    reply.raw =
        "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
        "2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n";
    fake_.script("/early", {reply});
    HttpRequest request = get("/early");
    int heads = 0;
    request.on_headers = [&](const HttpResponse&) { return ++heads, Result<void>(); };
    const Result<HttpResponse> response = send(std::move(request));
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(heads, 1);
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->body, "ok");
    EXPECT_EQ(response->header("link"), nullptr);
    EXPECT_EQ(response->header("x-sum"), nullptr);
}

TEST_F(HttpClientTest, AStreamIsSeenWhileItComes) {
    fake_.script("/stream", {HttpReply::gate("the rest")});
    HttpRequest request = get("/stream");
    std::string seen;
    request.on_headers = [&](const HttpResponse& head) {
        seen += std::to_string(head.status) + " " + *head.header("content-type") + "|";
        fake_.open_gate();  // the body comes only now
        return Result<void>();
    };
    request.on_body = [&](std::string_view piece) { return seen += piece, Result<void>(); };
    const Result<HttpResponse> response = send(std::move(request));
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(seen, "200 text/plain|the rest");
    EXPECT_EQ(response->status, 200);
    EXPECT_EQ(response->body, "");
}

TEST_F(HttpClientTest, ConnectionsAreKept) {
    for (int i = 0; i < 3; ++i)
        ASSERT_TRUE(send(get("/echo")));
    EXPECT_EQ(fake_.connections(), 1);
}

// libcurl repeats by itself what got no answer on a kept connection. A request that may not run
// twice must not meet that.
TEST_F(HttpClientTest, OnADeadConnectionOnlyWhatMayRunTwiceIsSentAgain) {
    struct Case {
        std::string method;
        bool may_repeat;
        std::size_t times_seen;
        std::string reason;
    };
    const Case cases[] = {{"GET", false, 2, ""},
                          {"PUT", false, 2, ""},
                          {"DELETE", false, 2, ""},
                          {"POST", true, 2, ""},
                          {"POST", false, 1, "connection_broken"},
                          {"PATCH", false, 1, "connection_broken"}};
    for (const Case& c : cases) {
        HttpFake fake;
        fake.script("/dies", {HttpReply::failing(Fault::close), HttpReply::text("again")});
        ASSERT_TRUE(send(request_to("GET", fake.url("/echo"))));
        HttpRequest request = request_to(c.method, fake.url("/dies"));
        request.may_repeat = c.may_repeat;
        EXPECT_EQ(reason_of(send(std::move(request))), c.reason) << c.method;
        EXPECT_EQ(fake.requests().size(), 1 + c.times_seen) << c.method;
    }
}

TEST_F(HttpClientTest, ManyAtOnceEachGetTheirOwnAnswer) {
    std::vector<Result<HttpResponse>> responses(50);
    for (std::size_t i = 0; i < responses.size(); ++i) {
        auto done = [&responses, i](const std::exception_ptr&, Result<HttpResponse> response) {
            responses[i] = std::move(response);
        };
        HttpRequest request = post("/echo", std::to_string(i));
        asio::co_spawn(loop_, client_.send(std::move(request)), done);
    }
    loop_.run();
    for (std::size_t i = 0; i < responses.size(); ++i) {
        ASSERT_TRUE(responses[i]) << responses[i].error().message;
        EXPECT_TRUE(responses[i]->body.ends_with("\"body\":\"" + std::to_string(i) + "\"}"));
    }
}

TEST_F(HttpClientTest, ManyThreadsMayShareOne) {
    asio::thread_pool pool(4);
    HttpClient shared(pool.get_executor());
    std::vector<std::future<Result<HttpResponse>>> responses;
    for (int i = 0; i < 40; ++i) {
        HttpRequest request = post("/echo", std::to_string(i));
        request.may_repeat = i % 2 == 0;
        responses.push_back(
            asio::co_spawn(pool, shared.send(std::move(request)), asio::use_future));
    }
    for (auto& response : responses)
        EXPECT_EQ(reason_of(response.get()), "");
    pool.join();
}

TEST_F(HttpClientTest, AUnixSocketStandsInForTheHost) {
    HttpFake beside(HttpFakeOptions{.unix_socket = path_of("s")});
    HttpRequest request = request_to("GET", "http://docker/echo");
    request.unix_socket = path_of("s");
    request.allow_private_addresses = false;
    const Result<HttpResponse> response = send(std::move(request));
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(beside.requests().at(0).header("host"), "docker");
}

TEST_F(HttpClientTest, TlsNeedsACertificateThatIsTrusted) {
    HttpFake tls(HttpFakeOptions{.tls = true});
    HttpRequest request = request_to("POST", tls.url("/echo"));
    request.body = "secret";
    EXPECT_EQ(reason_of(send(request)), "connect_failed");
    EXPECT_TRUE(tls.requests().empty());

    request.ca_file = path_of("ca.pem");
    std::ofstream(request.ca_file) << tls.certificate();
    const Result<HttpResponse> response = send(request);
    ASSERT_TRUE(response) << response.error().message;
    EXPECT_EQ(tls.requests().at(0).body, "secret");
    EXPECT_EQ(tls.offered(), (std::vector<std::string>{"h2", "http/1.1"}));

    request.url = "https://localhost:" + std::to_string(tls.port()) + "/echo";  // not its name
    EXPECT_EQ(reason_of(send(request)), "connect_failed");
    EXPECT_EQ(tls.requests().size(), 1U);
}

TEST(PercentEncodeTest, OnlyWhatIsUnreservedStaysPlain) {
    EXPECT_EQ(percent_encode("azAZ09-._~"), "azAZ09-._~");
    EXPECT_EQ(percent_encode("a b&c=d/?#%+"), "a%20b%26c%3Dd%2F%3F%23%25%2B");
    EXPECT_EQ(percent_encode(std::string_view("\0\n\xC3\xA4", 4)), "%00%0A%C3%A4");
}

}  // namespace
}  // namespace rouse
