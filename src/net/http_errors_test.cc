// Every way in which a request fails, told apart by whether the other side may have seen it.

#include <gtest/gtest.h>

#include <cstdlib>

#include "testing/http_kit.h"
#include "testing/name_fake.h"

namespace rouse {
namespace {

using namespace testing;
using Fault = HttpReply::Fault;

class HttpErrorsTest : public HttpTest {
 protected:
    void expect_error(HttpRequest request, ErrorKind kind, std::string_view reason) {
        const std::string url = request.url;
        const Result<HttpResponse> response = send(std::move(request));
        ASSERT_FALSE(response) << url << " got " << response->status;
        EXPECT_EQ(response.error().kind, kind) << url << ": " << response.error().message;
        EXPECT_EQ(response.error().reason, reason) << url << ": " << response.error().message;
    }

    NameFake names_;
};

TEST_F(HttpErrorsTest, WhatIsNoUrlOfOursIsNotAsked) {
    for (const char* url :
         {"", "/path", "example.test/x", "http://", "file:///etc/passwd", "ftp://example.test/x",
          "gopher://example.test/x", "dict://example.test/x", "https://exa mple.test/",
          "http://example.test:70000/", "http://example.test/a\nb", "javascript:1",
          "http://[::1/"}) {
        expect_error(request_to("GET", url), ErrorKind::invalid, "invalid_url");
    }
    const std::string with_nul("http://127.0.0.1/a\0b", 20);
    expect_error(request_to("GET", with_nul), ErrorKind::invalid, "invalid_url");
}

TEST_F(HttpErrorsTest, HeadersAndMethodsCannotSmuggle) {
    const std::pair<std::string, std::string> headers[] = {
        {"X-A", "b\r\nX-C: d"}, {"X-A", "b\n"},  {"X-A", std::string("\0", 1)},
        {"X A", "b"},           {"X-A:", "b"},   {"", "b"},
        {"X-A\r\n", "b"},       {"X-A", "\x7F"},
    };
    for (const auto& header : headers) {
        HttpRequest request = get("/echo");
        request.headers = {header};
        expect_error(std::move(request), ErrorKind::invalid, "invalid_header");
    }
    for (const char* method : {"", "GET /", "G\r\nX: y"})
        expect_error(request_to(method, fake_.url("/echo")), ErrorKind::invalid, "invalid_method");
    EXPECT_EQ(fake_.connections(), 0);
}

TEST_F(HttpErrorsTest, NobodyListens) {
    std::string url;
    {
        const HttpFake gone;
        url = gone.url("/x");
    }
    expect_error(request_to("POST", url), ErrorKind::unavailable, "connect_failed");
}

TEST_F(HttpErrorsTest, NobodyKnowsTheName) {
    names_.unknown("nobody.test");
    expect_error(request_to("GET", "http://nobody.test/"), ErrorKind::unavailable,
                 "connect_failed");
}

TEST_F(HttpErrorsTest, AConnectionThatDoesNotComeAboutTimesOut) {
    HttpRequest request = get("/x");
    request.url.replace(0, 4, "https");  // the server waits for HTTP, the client for TLS
    request.connect_timeout = Milliseconds(20);
    expect_error(std::move(request), ErrorKind::timeout, "connect_timeout");
    EXPECT_TRUE(fake_.requests().empty());
}

TEST_F(HttpErrorsTest, ANameServerThatHangsTimesOutAndHoldsNobodyUp) {
    names_.hang("slow.test");
    HttpRequest request = request_to("GET", "http://slow.test/");
    request.connect_timeout = Milliseconds(20);
    expect_error(std::move(request), ErrorKind::timeout, "connect_timeout");  // it still hangs
}

TEST_F(HttpErrorsTest, AnAnswerThatDoesNotComeTimesOut) {
    const std::size_t in_the_head = 20;
    const std::size_t in_the_body = 100;
    for (const std::size_t after : {std::size_t{0}, in_the_head, in_the_body}) {
        fake_.script("/stall", {HttpReply::failing(Fault::stall, after, std::string(500, 'x'))});
        HttpRequest total = post("/stall", "{}");
        total.total_timeout = Milliseconds(20);
        expect_error(std::move(total), ErrorKind::timeout, "request_timeout");
        HttpRequest idle = post("/stall", "{}");
        idle.idle_timeout = Milliseconds(20);
        expect_error(std::move(idle), ErrorKind::timeout, "request_timeout");
    }
    EXPECT_EQ(fake_.requests().size(), 6U);
    fake_.wait_for_leavers(6);
}

TEST_F(HttpErrorsTest, AConnectionThatBreaksAfterTheRequestIsBroken) {
    for (const Fault fault : {Fault::close, Fault::reset}) {
        for (const std::size_t after : {0U, 20U, 100U}) {
            fake_.script("/breaks", {HttpReply::failing(fault, after, std::string(500, 'x'))});
            expect_error(post("/breaks", "{}"), ErrorKind::io, "connection_broken");
        }
    }
    EXPECT_EQ(fake_.requests().size(), 6U);
}

TEST_F(HttpErrorsTest, WhatIsNotHttpIsBroken) {
    HttpReply reply;
    reply.raw = "220 mail.example.test ESMTP\r\n";
    fake_.script("/mail", {reply});
    expect_error(get("/mail"), ErrorKind::io, "connection_broken");
}

TEST_F(HttpErrorsTest, AnAnswerMayBeAsLongAsTheLimitAndNoLonger) {
    fake_.script("/exact", {HttpReply::huge(100'000)});
    fake_.script("/huge", {HttpReply::huge(100'001)});
    HttpRequest request = get("/exact");
    request.max_response_bytes = 100'000;
    const Result<HttpResponse> exact = send(request);
    ASSERT_TRUE(exact) << exact.error().message;
    EXPECT_EQ(exact->body.size(), 100'000U);
    request.url = fake_.url("/huge");
    expect_error(request, ErrorKind::io, "response_too_large");
    std::size_t streamed = 0;
    request.on_body = [&](std::string_view piece) {
        streamed += piece.size();
        return Result<void>();
    };
    expect_error(request, ErrorKind::io, "response_too_large");
    EXPECT_LE(streamed, 100'000U);
}

TEST_F(HttpErrorsTest, HeadersHaveALimitToo) {
    HttpReply reply = HttpReply::text("small");
    for (int i = 0; i < 70; ++i)
        reply.headers.emplace_back("X-Filler-" + std::to_string(i), std::string(1'000, 'x'));
    fake_.script("/headers", {reply});
    expect_error(get("/headers"), ErrorKind::io, "response_too_large");
}

TEST_F(HttpErrorsTest, WhatACallbackSaysEndsTheRequest) {
    fake_.script("/text", {HttpReply::text("text")});
    HttpRequest request = get("/text");
    request.on_body = [](std::string_view) {
        return Result<void>(Error(ErrorKind::corrupt, "bad_event", "not an event"));
    };
    expect_error(request, ErrorKind::corrupt, "bad_event");
    request.on_body = [](std::string_view) -> Result<void> { throw std::runtime_error("oh"); };
    expect_error(request, ErrorKind::internal, "exception");
    request.on_headers = [](const HttpResponse&) {
        return Result<void>(Error(ErrorKind::invalid, "bad_type", "not a stream"));
    };
    expect_error(request, ErrorKind::invalid, "bad_type");
}

TEST_F(HttpErrorsTest, MessagesNameTheServerAndNoSecrets) {
    fake_.script("/hook/T0K3N", {HttpReply::failing(Fault::close)});
    HttpRequest request = post("/hook/T0K3N?key=S3CR3T", "B0DY");
    request.url.insert(7, "user:P4SS@");
    request.headers = {{"Authorization", "Bearer H34D3R"}};
    const Result<HttpResponse> response = send(std::move(request));
    ASSERT_FALSE(response);
    const std::string& message = response.error().message;
    EXPECT_TRUE(message.starts_with("POST " + fake_.url("") + ": ")) << message;
    for (const char* secret : {"T0K3N", "S3CR3T", "P4SS", "H34D3R", "B0DY", "user"})
        EXPECT_FALSE(message.contains(secret)) << message;
}

TEST_F(HttpErrorsTest, OnlyWhatFailedBeforeItWasSentIsSafeToRepeat) {
    for (const char* reason : {"invalid_url", "invalid_header", "invalid_method",
                               "address_not_allowed", "connect_failed", "connect_timeout"}) {
        EXPECT_FALSE(may_have_been_sent(Error(ErrorKind::internal, reason, ""))) << reason;
    }
    for (const char* reason : {"connection_broken", "request_timeout", "response_too_large",
                               "cancelled", "internal", "exception"}) {
        EXPECT_TRUE(may_have_been_sent(Error(ErrorKind::internal, reason, ""))) << reason;
    }
}

// The address decides, after every spelling and every name has become one.
TEST_F(HttpErrorsTest, PrivateAddressesAreRefusedHoweverTheyAreSpelled) {
    names_.resolve("rebound.test", "127.0.0.1");
    names_.resolve("metadata.test", "169.254.169.254");
    for (const char* host : {"127.0.0.1",
                             "127.1",
                             "2130706433",
                             "0x7f.1",
                             "0x7f000001",
                             "017700000001",
                             "0",
                             "localhost",

                             "[::1]",
                             "[::ffff:127.0.0.1]",
                             "[::ffff:7f00:1]",
                             "[::]",
                             "[64:ff9b::7f00:1]",
                             "[2002:7f00:1::]",
                             "10.0.0.1",
                             "192.168.0.1",
                             "169.254.169.254",
                             "100.64.0.1",
                             "224.0.0.1",
                             "rebound.test",
                             "metadata.test",
                             "user@127.0.0.1"}) {
        HttpRequest request = request_to(
            "GET", "http://" + std::string(host) + ":" + std::to_string(fake_.port()) + "/echo");
        request.allow_private_addresses = false;
        expect_error(std::move(request), ErrorKind::denied, "address_not_allowed");
    }
    EXPECT_EQ(fake_.connections(), 0);
}

TEST_F(HttpErrorsTest, AKeptConnectionOfSomebodyWithMoreRightsIsNotUsed) {
    ASSERT_TRUE(send(get("/echo")));
    HttpRequest request = get("/echo");
    request.allow_private_addresses = false;
    expect_error(std::move(request), ErrorKind::denied, "address_not_allowed");
    EXPECT_EQ(fake_.requests().size(), 1U);
}

TEST_F(HttpErrorsTest, ARedirectToLoopbackLeadsNowhere) {
    HttpFake inside;
    fake_.script("/out", {HttpReply::redirect(inside.url("/echo"))});
    ASSERT_TRUE(send(get("/out")));
    EXPECT_EQ(inside.connections(), 0);
}

// A variable of the environment for as long as it lives.
class Variable {
 public:
    Variable(const char* name, const std::string& value) : name_(name) {
        ::setenv(name, value.c_str(), 1);
    }
    ~Variable() { ::unsetenv(name_); }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;

 private:
    const char* name_;
};

TEST_F(HttpErrorsTest, AProxyIsUsedOnlyWhenItIsAskedFor) {
    HttpFake proxy;
    proxy.script("http://target.test/x", {HttpReply::text("by proxy")});
    names_.unknown("target.test");
    const Variable variable("http_proxy", proxy.url(""));
    HttpRequest request = request_to("GET", "http://target.test/x");
    expect_error(request, ErrorKind::unavailable, "connect_failed");
    EXPECT_EQ(proxy.connections(), 0);
    for (const std::string& setting : {std::string("env"), proxy.url("")}) {
        request.proxy = setting;
        const Result<HttpResponse> response = send(request);
        ASSERT_TRUE(response) << setting << ": " << response.error().message;
        EXPECT_EQ(response->body, "by proxy");
    }
}

}  // namespace
}  // namespace rouse
