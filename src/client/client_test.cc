#include "client/client.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "testing/http_fake.h"

namespace rouse::client {
namespace {

using testing::HttpFake;
using testing::HttpReply;

const SessionId kSession("sess_1");
constexpr std::string_view kEvents = "/v1/sessions/sess_1/events";

HttpReply problem(int status, std::string_view code, std::string_view detail) {
    return HttpReply::json(
        "{\"code\":" + to_json_string(code) + ",\"detail\":" + to_json_string(detail) + "}",
        status);
}

HttpReply events(const std::string& text) {
    return {.headers = {{"Content-Type", "text/event-stream"}}, .body = "retry: 1\n\n" + text};
}

class ClientTest : public ::testing::Test {
 protected:
    std::unique_ptr<Client> make_client(int interrupt = -1) {
        ServerAddress server;
        server.url = fake_.url("");
        server.token = Secret("secret");
        return std::make_unique<Client>(ClientOptions{server, interrupt});
    }

    Error refusal() {
        const Result<Answer<SessionView>> session = make_client()->session(kSession);
        EXPECT_FALSE(session);
        return session ? Error() : session.error();
    }

    HttpFake fake_;
};

TEST_F(ClientTest, SendsTheTokenAndKeepsTheAnswerAsItCame) {
    const std::string sent = R"({ "items": [], "next_cursor": null, "new": 0.10 })";
    fake_.script("/v1/sessions", {HttpReply::json(sent)});
    SessionQuery query;
    query.agent = "a&b";
    const Result<Answer<SessionList>> list = make_client()->sessions(query);
    ASSERT_TRUE(list) << list.error().message;
    EXPECT_EQ(list->json, sent);
    EXPECT_EQ(fake_.requests().at(0).header("authorization"), "Bearer secret");
    EXPECT_EQ(fake_.requests().at(0).target, "/v1/sessions?agent=a%26b&limit=50");
}

TEST_F(ClientTest, ResultsGoOutUnderTheirCalls) {
    fake_.script("/v1/sessions/sess_1/resume",
                 {HttpReply::json(R"({"run_id":"run_1","seq":9,"remaining":["b"]})", 202)});
    const Result<Answer<Moved>> moved =
        make_client()->resume(kSession, {{{"a\""}, text_result("1")}});
    ASSERT_TRUE(moved) << moved.error().message;
    EXPECT_EQ(moved->value.seq, 9);
    EXPECT_EQ(moved->value.remaining, (std::vector<CallId>{{"b"}}));
    EXPECT_EQ(fake_.requests().at(0).body, R"({"results":{"a\"":{"content":"1"}}})");
}

TEST_F(ClientTest, AProblemIsAnErrorWithItsCodeAndDetail) {
    struct Case {
        HttpReply reply;
        Error want;
    };
    const Case cases[] = {
        {problem(404, "not_found", "no such session"),
         {ErrorKind::not_found, "not_found", "no such session"}},
        {problem(410, "not_waiting", "too late"),
         {ErrorKind::precondition, "not_waiting", "too late"}},
        {problem(503, "store_unavailable", "full"),
         {ErrorKind::unavailable, "store_unavailable", "full"}},
        {problem(409, "of_tomorrow", "what"),
         {ErrorKind::conflict, "unknown_code", "what (of_tomorrow)"}},
        {HttpReply::text("<html>", 502),
         {ErrorKind::unavailable, "unknown_code",
          "the server answered 502 without saying why; is it a Rouse server?"}},
    };
    for (const Case& c : cases) {
        fake_.script("/v1/sessions/sess_1", {c.reply});
        EXPECT_EQ(refusal(), c.want) << c.want.message;
    }
}

TEST_F(ClientTest, AnAnswerOfAnotherShapeIsRefused) {
    fake_.script("/v1/sessions/sess_1", {HttpReply::text("hello"), HttpReply::json("{}")});
    EXPECT_EQ(refusal().reason, "malformed_answer");
    EXPECT_EQ(refusal().reason, "malformed_answer");
}

TEST_F(ClientTest, WithoutAServerTheMessageSaysHowToStartOne) {
    ServerAddress nobody;
    nobody.url = "http://127.0.0.1:1";
    Client client({nobody, -1});
    const Result<Answer<TokenList>> tokens = client.tokens({});
    ASSERT_FALSE(tokens);
    EXPECT_EQ(tokens.error().reason, "connect_failed");
    EXPECT_NE(tokens.error().message.find("rouse serve"), std::string::npos);
    EventStream stream = client.follow(kSession, 1);
    const Result<std::optional<Event>> event = stream.next();
    ASSERT_FALSE(event);
    EXPECT_EQ(event.error().reason, "connect_failed");
}

TEST_F(ClientTest, ABrokenAnswerSaysThatItMayHaveBeenDone) {
    fake_.script("/v1/sessions/sess_1/cancel", {HttpReply::failing(HttpReply::Fault::reset, 40)});
    const Result<Answer<Moved>> moved = make_client()->cancel(kSession, "");
    ASSERT_FALSE(moved);
    EXPECT_NE(moved.error().message.find("may have been done"), std::string::npos);
}

std::string name_of(const Result<std::optional<Event>>& event) {
    if (!event) return "error " + std::string(event.error().reason);
    return *event ? (*event)->name : "nothing";
}

TEST_F(ClientTest, AStreamComesBackBehindTheLastEventThatItSaw) {
    fake_.script(
        std::string(kEvents),
        {events("id: 4\nevent: one\ndata: {}\n\nevent: delta\ndata: {}\n\nid: 5\nda"),
         HttpReply::failing(HttpReply::Fault::reset), problem(503, "store_unavailable", ""),
         events("id: 5\nevent: two\ndata: {}\n\n"), problem(404, "not_found", "gone")});
    const auto client = make_client();
    EventStream stream = client->follow(kSession, 4);
    for (const std::string_view want : {"one", "delta", "client.lost", "client.back", "two",
                                        "client.lost", "error not_found", "error not_found"})
        EXPECT_EQ(name_of(stream.next()), want);
    EXPECT_EQ(fake_.requests().at(0).target, std::string(kEvents) + "?from_seq=4");
    EXPECT_EQ(fake_.requests().at(0).header("last-event-id"), "");
    EXPECT_EQ(fake_.requests().at(1).header("last-event-id"), "4");
    EXPECT_EQ(fake_.requests().at(4).header("last-event-id"), "5");
}

TEST_F(ClientTest, RequestsGoThroughWhileAStreamIsOpen) {
    HttpReply open;
    open.fault = HttpReply::Fault::stall;
    open.raw = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nid: 1\nevent: one\ndata: {}\n\n";
    fake_.script(std::string(kEvents), {open});
    fake_.script("/v1/tokens", {HttpReply::json(R"({"items":[]})")});
    const auto client = make_client();
    EventStream stream = client->follow(kSession, 1);
    EXPECT_EQ(name_of(stream.next()), "one");
    EXPECT_TRUE(client->tokens({}));
    EXPECT_EQ(name_of(stream.next(Milliseconds(1))), "nothing");
}

TEST_F(ClientTest, AnInterruptEndsWhateverWaits) {
    fake_.script("/v1/tokens", {HttpReply::gate("{}")});
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    fake_.on_request([&](const auto&) { ASSERT_EQ(::write(ends[1], "x", 1), 1); });
    const auto client = make_client(ends[0]);
    const Result<Answer<TokenList>> tokens = client->tokens({});
    ASSERT_FALSE(tokens);
    EXPECT_EQ(tokens.error().kind, ErrorKind::cancelled);
    EventStream stream = client->follow(kSession, 1);
    EXPECT_EQ(name_of(stream.next()), "error cancelled");
    fake_.open_gate();
    ::close(ends[0]);
    ::close(ends[1]);
}

TEST(RecordOfTest, TheSessionInFrontOfARecordIsNoPartOfIt) {
    const Event event{
        "7", "run.completed",
        R"({"session_id":"sess_1","task_id":"\"seq\":1","seq":7,)"
        R"("ts":"2026-01-01T00:00:00.000Z","kind":"run.completed","run_id":"run_1"})"};
    const Result<Record> record = record_of(event);
    ASSERT_TRUE(record) << record.error().message;
    EXPECT_EQ(record->seq, 7);
    EXPECT_EQ(std::get<RunCompleted>(record->body).run_id, RunId("run_1"));
    EXPECT_FALSE(record_of({"1", "x", "[]"}));
    EXPECT_FALSE(record_of({"1", "x", "{}"}));
}

}  // namespace
}  // namespace rouse::client
