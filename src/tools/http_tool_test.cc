#include "tools/http_tool.h"

#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>

#include "testing/agent_kit.h"
#include "testing/http_kit.h"

namespace rouse {
namespace {

namespace asio = boost::asio;
using namespace testing;
using Fault = HttpReply::Fault;

// Numbers that a parser would round, and a blank that it would drop inside a text.
constexpr std::string_view kInput = R"({"branch":"a b","n":1.0,"big":18446744073709551616})";

class HttpToolTest : public HttpTest {
 protected:
    HttpToolOptions options(std::string_view path) const {
        HttpToolOptions options;
        options.spec.name = "deploy";
        options.url = fake_.url(path);
        options.timeout = kNeverReached;
        options.callback.base_url = "https://rouse.example/";
        options.allow_private_addresses = true;
        return options;
    }
    HttpToolOptions async_options(std::string_view path) const {
        HttpToolOptions asynchronous = options(path);
        asynchronous.spec.async = true;
        return asynchronous;
    }
    static ToolCall a_call(std::string_view input = kInput) {
        ToolCall call{CallId{"c1"}, "deploy", json(input), SessionId("sess_a")};
        call.pending_id = PendingId("pnd_a_1");
        return call;
    }
    ToolOutcome call(HttpToolOptions options, ToolCall call = a_call()) {
        return run_on(loop_, make_http_tool(std::move(options), client_)->call(std::move(call)));
    }
    std::string error_of(HttpToolOptions options) {
        const ToolOutcome outcome = call(std::move(options));
        if (!outcome.result || !outcome.result->is_error) return "no error";
        return read_json_string(outcome.result->content.text()).value_or("no text");
    }
    std::string gone() const {
        const HttpFake other;
        return other.url("/x");
    }
};

TEST_F(HttpToolTest, TheInputIsTheBodyByteForByte) {
    fake_.script("/run", {HttpReply::text("done")});
    const ToolOutcome outcome = call(options("/run"));
    ASSERT_TRUE(outcome.result);
    EXPECT_FALSE(outcome.suspend);
    EXPECT_EQ(to_json(*outcome.result), R"({"content":"done"})");
    const HttpFakeRequest seen = fake_.requests().at(0);
    EXPECT_EQ(seen.method, "POST");
    EXPECT_EQ(seen.body, kInput);
    EXPECT_EQ(seen.header("content-type"), "application/json");
    EXPECT_EQ(seen.header("idempotency-key"), "sess_a-c1");
    EXPECT_EQ(seen.header("x-rouse-session"), "sess_a");
}

TEST_F(HttpToolTest, ConfiguredHeadersAreSentAndWin) {
    HttpToolOptions configured = options("/echo");
    configured.headers = {{"Authorization", "Bearer x"}, {"content-type", "text/json"}};
    call(std::move(configured));
    const HttpFakeRequest seen = fake_.requests().at(0);
    EXPECT_EQ(seen.header("authorization"), "Bearer x");
    EXPECT_EQ(seen.header("content-type"), "text/json");
    EXPECT_EQ(std::ranges::count(seen.headers, "content-type",
                                 &decltype(seen.headers)::value_type::first),
              1);
}

TEST_F(HttpToolTest, ACallIdIsAnyTextAndNoHeaderOfItsOwn) {
    ToolCall hostile = a_call();
    hostile.id.text = "c1\r\nX-Evil: 1";
    call(options("/echo"), hostile);
    EXPECT_EQ(fake_.requests().at(0).header("idempotency-key"), "sess_a-c1%0D%0AX-Evil%3A%201");
    EXPECT_EQ(fake_.requests().at(0).header("x-evil"), "");
}

TEST_F(HttpToolTest, TheSameCallIdInAnotherMessageIsAnotherCall) {
    ToolCall first = a_call();
    first.message_id = MessageId("msg_1");
    ToolCall second = first;
    second.message_id = MessageId("msg_2");
    for (const ToolCall& made : {first, first, second})
        call(options("/echo"), made);
    std::vector<std::string> keys;
    for (const HttpFakeRequest& seen : fake_.requests())
        keys.push_back(seen.header("idempotency-key"));
    const std::vector<std::string> want{"sess_a-msg_1-c1", "sess_a-msg_1-c1", "sess_a-msg_2-c1"};
    EXPECT_EQ(keys, want);
}

TEST_F(HttpToolTest, WithoutASessionNoKeyIsMadeUp) {
    ToolCall lonely = a_call();
    lonely.session_id = {};
    call(options("/echo"), lonely);
    EXPECT_EQ(fake_.requests().at(0).header("idempotency-key"), "");
    EXPECT_EQ(fake_.requests().at(0).header("x-rouse-session"), "");
}

TEST_F(HttpToolTest, AnAnswerInTheFormOfAResultIsOne) {
    fake_.script("/a", {HttpReply::json(R"({"content": "no", "is_error": true})", 201)});
    EXPECT_EQ(to_json(*call(options("/a")).result), R"({"content":"no","is_error":true})");
    fake_.script("/b", {HttpReply::json(R"({"title":"T","output":"o","metadata":{"a":1.0}})")});
    EXPECT_EQ(to_json(*call(options("/b")).result),
              R"({"content":"o","display":"T","metadata":{"a":1.0}})");
    fake_.script("/c", {HttpReply::json(R"({"status": "green"})")});
    EXPECT_EQ(call(options("/c")).result->content.text(), R"("{\"status\": \"green\"}")");
}

TEST_F(HttpToolTest, GetCarriesTheInputInTheQuery) {
    struct Case {
        std::string url, input, target;
    };
    const Case cases[] = {
        {"/echo", R"({"q":"a b&c=ä","n":1.0,"f":true,"none":null,"k y":"\u0041"})",
         "/echo?q=a%20b%26c%3D%C3%A4&n=1.0&f=true&k%20y=A"},
        {"/echo?x=1", R"({"q":"a"})", "/echo?x=1&q=a"},
        {"/echo?x=1#top", R"({"q":"a"})", "/echo?x=1&q=a"},
        {"/echo", "{}", "/echo"},
    };
    for (const Case& c : cases) {
        HttpToolOptions get = options(c.url);
        get.method = "GET";
        ASSERT_TRUE(call(std::move(get), a_call(c.input)).result);
        EXPECT_EQ(fake_.requests().back().method, "GET");
        EXPECT_EQ(fake_.requests().back().target, c.target);
        EXPECT_EQ(fake_.requests().back().body, "");
    }
    HttpToolOptions get = options("/echo");
    get.method = "GET";
    for (const char* input : {R"({"deep":{"a":1}})", R"({"list":[1]})"})
        EXPECT_TRUE(call(get, a_call(input)).result->is_error) << input;
    EXPECT_EQ(fake_.requests().size(), std::size(cases));
}

TEST_F(HttpToolTest, ARefusalIsAnErrorWithItsStatusAndWords) {
    fake_.script("/500", {HttpReply::text("out of order\n", 500)});
    EXPECT_EQ(error_of(options("/500")), "the tool's server answered 500: out of order\n");
    fake_.script("/302", {HttpReply::redirect(fake_.url("/echo"))});
    EXPECT_EQ(error_of(options("/302")),
              "the tool's server answered 302 (redirects are not followed): elsewhere");
    fake_.script("/404", {HttpReply::text("", 404)});
    EXPECT_EQ(error_of(options("/404")), "the tool's server answered 404");
    fake_.script("/long", {HttpReply::text("x" + std::string(3000, '\xC3'), 400)});
    const std::string error = error_of(options("/long"));
    const std::size_t words = error.find('x');
    EXPECT_LE(error.size() - words, limits::kToolErrorBytes);
    EXPECT_GT(error.size() - words, limits::kToolErrorBytes - 4);
    EXPECT_TRUE(RawJson::parse(to_json_string(error)));
}

TEST_F(HttpToolTest, WhatGoesWrongSaysWhetherItMayHaveBeenDone) {
    HttpToolOptions nobody = options("/");
    nobody.url = gone();
    EXPECT_TRUE(error_of(nobody).starts_with("the request was not sent: "));
    HttpToolOptions inside = options("/echo");
    inside.allow_private_addresses = false;
    EXPECT_TRUE(error_of(inside).contains("not a public one"));
    EXPECT_TRUE(fake_.requests().empty());
    const std::string sent = "the request was sent and may have been carried out, but: ";
    fake_.script("/dies", {HttpReply::failing(Fault::close)});
    EXPECT_TRUE(error_of(options("/dies")).starts_with(sent));
    HttpToolOptions slow = options("/stalls");
    fake_.script("/stalls", {HttpReply::failing(Fault::stall)});
    slow.timeout = Milliseconds(100);
    EXPECT_TRUE(error_of(slow).starts_with(sent));
    HttpToolOptions small = options("/huge");
    fake_.script("/huge", {HttpReply::huge(1001)});
    small.response_bytes = 1000;
    EXPECT_TRUE(error_of(small).contains("longer than 1000 bytes"));
}

// On a connection that was kept and is dead, the request may only go out twice if that is harmless.
TEST_F(HttpToolTest, OnlyAHarmlessCallIsSentAgain) {
    for (const bool harmless : {false, true}) {
        HttpFake fake;
        fake.script("/dies", {HttpReply::failing(Fault::close), HttpReply::text("again")});
        ASSERT_TRUE(send(request_to("GET", fake.url("/echo"))));
        HttpToolOptions tool = options("/");
        tool.url = fake.url("/dies");
        tool.spec.annotations.idempotent = harmless;
        EXPECT_EQ(call(tool).result->is_error, !harmless);
        EXPECT_EQ(fake.requests().size(), harmless ? 3U : 2U);
    }
}

TEST_F(HttpToolTest, WhoeverIsCancelledGetsNoResult) {
    fake_.script("/stalls", {HttpReply::failing(Fault::stall)});
    for (const HttpToolOptions& kind : {options("/stalls"), async_options("/stalls")}) {
        const auto tool = make_http_tool(kind, client_);
        asio::cancellation_signal signal;
        fake_.on_request([&](const HttpFakeRequest&) {
            asio::post(loop_, [&] { signal.emit(asio::cancellation_type::terminal); });
        });
        std::exception_ptr thrown;
        auto done = [&](const std::exception_ptr& error, const ToolOutcome&) { thrown = error; };
        asio::co_spawn(loop_, tool->call(a_call()),
                       asio::bind_cancellation_slot(signal.slot(), done));
        loop_.restart();
        loop_.run();
        ASSERT_TRUE(thrown);
        EXPECT_THROW(std::rethrow_exception(thrown), boost::system::system_error);
    }
    fake_.wait_for_leavers(2);
}

TEST_F(HttpToolTest, AnAsyncCallTellsEverythingThatTheAnswerNeeds) {
    HttpToolOptions tool = async_options("/start");
    tool.callback.secret_name = "DEPLOY_SECRET";
    tool.spec.timeout = std::chrono::hours(2);
    fake_.script(
        "/start",
        {HttpReply::json(R"({"externalRef":"job-7","estimatedDuration":90000,"output":"On it"})",
                         202)});
    const ToolOutcome outcome = call(tool);
    EXPECT_FALSE(outcome.result);
    ASSERT_TRUE(outcome.suspend);
    EXPECT_EQ(outcome.suspend->prompt, "On it");
    EXPECT_EQ(outcome.suspend->external_ref, "job-7");
    EXPECT_EQ(outcome.suspend->estimated, Milliseconds(90'000));
    EXPECT_EQ(outcome.suspend->timeout, std::chrono::hours(2));
    EXPECT_EQ(outcome.suspend->waits_for, WaitsFor::external);
    EXPECT_TRUE(outcome.suspend->metadata.absent());

    const HttpFakeRequest seen = fake_.requests().at(0);
    EXPECT_EQ(seen.method, "POST");
    EXPECT_EQ(seen.header("idempotency-key"), "pnd_a_1");
    EXPECT_EQ(seen.body, R"({"pendingID":"pnd_a_1","callID":"c1","sessionID":"sess_a",)"
                         R"("tool":"deploy","input":)" +
                             std::string(kInput) +
                             R"(,"callbackURL":"https://rouse.example/async-tool/webhook",)"
                             R"("webhookSecretName":"DEPLOY_SECRET"})");
}

TEST_F(HttpToolTest, AnAsyncCallWaitsWhateverA2xxSays) {
    for (const char* body : {"", "ok", "{}", "[1]", "{\"externalRef\":", "null",
                             R"({"externalRef":null,"output":null,"estimatedDuration":"soon"})",
                             R"({"estimatedDuration":-1})"}) {
        fake_.script("/start", {HttpReply::json(body)});
        const ToolOutcome outcome = call(async_options("/start"));
        ASSERT_TRUE(outcome.suspend) << body;
        EXPECT_EQ(outcome.suspend->prompt, "") << body;
        EXPECT_EQ(outcome.suspend->external_ref, "") << body;
        EXPECT_FALSE(outcome.suspend->estimated) << body;
    }
    EXPECT_FALSE(fake_.requests().at(0).body.contains("webhookSecretName"));
}

TEST_F(HttpToolTest, AnAsyncCallThatCertainlyDidNotStartIsAnError) {
    HttpToolOptions nobody = async_options("/");
    nobody.url = gone();
    EXPECT_TRUE(error_of(nobody).starts_with("the request was not sent: "));
    for (const int status : {302, 400, 404, 500, 503}) {
        fake_.script("/start", {HttpReply::text("no", status)});
        EXPECT_TRUE(error_of(async_options("/start")).contains(std::to_string(status)));
    }
}

TEST_F(HttpToolTest, AnAsyncCallThatMayHaveStartedWaits) {
    HttpToolOptions small = async_options("/huge");
    small.response_bytes = 1000;
    HttpToolOptions slow = async_options("/stalls");
    slow.timeout = Milliseconds(100);
    fake_.script("/huge", {HttpReply::huge(1001)});
    fake_.script("/stalls", {HttpReply::failing(Fault::stall)});
    fake_.script("/dies", {HttpReply::failing(Fault::close)});
    fake_.script("/resets", {HttpReply::failing(Fault::reset, 50)});
    for (const HttpToolOptions& tool :
         {small, slow, async_options("/dies"), async_options("/resets")}) {
        const ToolOutcome outcome = call(tool);
        EXPECT_FALSE(outcome.result) << tool.url;
        ASSERT_TRUE(outcome.suspend) << tool.url;
        EXPECT_EQ(outcome.suspend->metadata.text(), R"({"start":"not confirmed"})") << tool.url;
    }
    EXPECT_EQ(fake_.requests().size(), 4U);
}

TEST_F(HttpToolTest, AnAsyncCallNeedsAPendingId) {
    ToolCall plain = a_call();
    plain.pending_id = {};
    const ToolOutcome outcome = call(async_options("/start"), plain);
    ASSERT_TRUE(outcome.result);
    EXPECT_TRUE(outcome.result->is_error);
    EXPECT_TRUE(fake_.requests().empty());
}

TEST_F(HttpToolTest, AnAgentUsesIt) {
    fake_.script("/run", {HttpReply::text("v42")});
    ScriptEntry entry;
    entry.call.push_back({"deploy", json(kInput), "c1"});
    const auto model = playing({entry, says("Deployed {{result}}")});
    Agent agent({.model = model, .tools = {make_http_tool(options("/run"), client_)}});
    AgentRequest request = message("Deploy");
    const TurnResult turn = run_on(loop_, agent.respond(std::move(request)));
    ASSERT_TRUE(turn) << turn.error().message;
    EXPECT_EQ(turn->text(), "Deployed v42");
    EXPECT_EQ(fake_.requests().at(0).body, kInput);
}

}  // namespace
}  // namespace rouse
