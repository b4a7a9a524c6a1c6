// Requests that somebody gives up on, and clients that end before their requests.

#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <optional>
#include <thread>

#include "testing/http_kit.h"
#include "testing/name_fake.h"

namespace rouse {
namespace {

namespace asio = boost::asio;
using namespace testing;
using Fault = HttpReply::Fault;

class HttpCancelTest : public HttpTest {
 protected:
    void spawn(HttpClient& client, HttpRequest request) {
        auto done = [this](const std::exception_ptr& thrown, Result<HttpResponse> response) {
            EXPECT_FALSE(thrown);
            result_ = std::move(response);
        };
        asio::co_spawn(loop_, client.send(std::move(request)),
                       asio::bind_cancellation_slot(signal_.slot(), done));
    }
    void cancel() {
        asio::post(loop_, [this] { signal_.emit(asio::cancellation_type::terminal); });
    }
    void run() {
        loop_.restart();
        loop_.run();
    }
    void expect_cancelled() {
        ASSERT_TRUE(result_.has_value());
        ASSERT_FALSE(*result_);
        EXPECT_EQ(result_->error().kind, ErrorKind::cancelled) << result_->error().message;
        EXPECT_EQ(result_->error().reason, "cancelled");
    }

    NameFake names_;
    asio::cancellation_signal signal_;
    std::optional<Result<HttpResponse>> result_;
};

TEST_F(HttpCancelTest, WhileTheAnswerIsAwaitedTheConnectionIsClosed) {
    for (const std::size_t after : {0U, 20U, 100U}) {
        fake_.script("/stall", {HttpReply::failing(Fault::stall, after, std::string(500, 'x'))});
        fake_.on_request([this](const HttpFakeRequest&) { cancel(); });
        spawn(client_, post("/stall", "{}"));
        run();
        expect_cancelled();
    }
    fake_.wait_for_leavers(3);
    EXPECT_EQ(fake_.requests().size(), 3U);
}

TEST_F(HttpCancelTest, WhileTheAnswerIsStreamingFromInsideACallback) {
    fake_.script("/stall", {HttpReply::failing(Fault::stall, 100, std::string(500, 'x'))});
    HttpRequest request = get("/stall");
    request.on_body = [this](std::string_view) {
        signal_.emit(asio::cancellation_type::terminal);
        return Result<void>();
    };
    spawn(client_, std::move(request));
    run();
    expect_cancelled();
    fake_.wait_for_leavers(1);
}

TEST_F(HttpCancelTest, WhileTheNameIsResolved) {
    names_.hang("slow.test");
    spawn(client_, request_to("GET", "http://slow.test/"));
    std::thread other([this] {
        names_.wait_until_asked();
        cancel();
    });
    run();  // returns although the name still hangs
    expect_cancelled();
    other.join();
}

TEST_F(HttpCancelTest, BeforeItHasBegun) {
    spawn(client_, get("/echo"));
    cancel();
    run();
    expect_cancelled();
}

TEST_F(HttpCancelTest, TheClientGoesOnWithOthers) {
    fake_.script("/stall", {HttpReply::failing(Fault::stall)});
    fake_.on_request([this](const HttpFakeRequest& request) {
        if (request.path() == "/stall") cancel();
    });
    spawn(client_, get("/stall"));
    run();
    expect_cancelled();
    EXPECT_EQ(reason_of(send(get("/echo"))), "");
}

TEST_F(HttpCancelTest, AnAnswerThatIsThereIsNotTakenAway) {
    spawn(client_, get("/echo"));
    run();
    signal_.emit(asio::cancellation_type::terminal);
    ASSERT_TRUE(result_.has_value());
    EXPECT_EQ(reason_of(*result_), "");
}

TEST_F(HttpCancelTest, WhatIsInFlightEndsWithTheClient) {
    auto client = std::make_unique<HttpClient>(loop_.get_executor());
    fake_.script("/stall", {HttpReply::failing(Fault::stall)});
    fake_.on_request([&](const HttpFakeRequest&) { asio::post(loop_, [&] { client.reset(); }); });
    spawn(*client, get("/stall"));
    run();
    expect_cancelled();
    fake_.wait_for_leavers(1);
}

TEST_F(HttpCancelTest, WhatHasNotBegunEndsWithTheClient) {
    auto client = std::make_unique<HttpClient>(loop_.get_executor());
    spawn(*client, get("/echo"));
    client.reset();
    run();
    expect_cancelled();
}

// The loop ends in the middle: nothing is left over, and nobody is told.
TEST_F(HttpCancelTest, ALoopMayEndBeforeItsRequests) {
    {
        asio::io_context loop(1);
        HttpClient client(loop.get_executor());
        fake_.script("/stall", {HttpReply::failing(Fault::stall)});
        fake_.on_request([&](const HttpFakeRequest&) { loop.stop(); });
        bool told = false;
        auto done = [&](const std::exception_ptr&, const Result<HttpResponse>&) { told = true; };
        asio::co_spawn(loop, client.send(get("/stall")), done);
        loop.run();
        EXPECT_FALSE(told);
    }
    fake_.wait_for_leavers(1);
}

}  // namespace
}  // namespace rouse
