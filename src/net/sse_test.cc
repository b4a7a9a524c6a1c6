#include "net/sse.h"

#include <gtest/gtest.h>

#include <vector>

namespace rouse {
namespace {

constexpr std::string_view kStream =
    "retry: 250\n\n: still here\n\nid: 7\nevent: run.waiting\ndata: {\"seq\":7}\n\n"
    "event: delta\ndata: {\"text\":\"é\"}\n\n";

const std::vector<SseEvent> kEvents = {{"7", "run.waiting", "{\"seq\":7}"},
                                       {"", "delta", "{\"text\":\"é\"}"}};

std::vector<SseEvent> parse(std::string_view text, std::size_t piece) {
    std::vector<SseEvent> events;
    SseParser parser([&](SseEvent event) { events.push_back(std::move(event)); });
    for (std::size_t at = 0; at < text.size(); at += piece)
        EXPECT_TRUE(parser.feed(text.substr(at, piece)));
    return events;
}

std::string with_line_ends(std::string_view text, std::string_view end) {
    std::string out;
    for (const char c : text)
        c == '\n' ? void(out += end) : void(out += c);
    return out;
}

TEST(SseTest, EventsAreTheSameHoweverTheBytesArrive) {
    for (const std::string_view end : {"\n", "\r\n", "\r"}) {
        const std::string text = with_line_ends(kStream, end);
        for (std::size_t piece = 1; piece <= text.size(); ++piece)
            ASSERT_EQ(parse(text, piece), kEvents) << "pieces of " << piece;
    }
}

TEST(SseTest, LinesOfDataAreJoined) {
    const std::vector<SseEvent> want = {{"", "message", "one\n\n two"}};
    EXPECT_EQ(parse("data: one\ndata\ndata:  two\n\n", 100), want);
}

TEST(SseTest, WhatHasNoDataIsNoEvent) {
    EXPECT_TRUE(parse("id: 3\nevent: delta\n\nunknown: x\n\n", 100).empty());
}

TEST(SseTest, AnEventThatIsNotWholeIsForgottenAtANewConnection) {
    std::vector<SseEvent> events;
    SseParser parser([&](SseEvent event) { events.push_back(std::move(event)); });
    ASSERT_TRUE(parser.feed("id: 1\ndata: half"));
    parser.restart();
    ASSERT_TRUE(parser.feed("id: 2\ndata: whole\n\n"));
    EXPECT_EQ(events, (std::vector<SseEvent>{{"2", "message", "whole"}}));
}

TEST(SseTest, TheServerSaysWhenToComeBack) {
    SseParser parser([](const SseEvent&) {});
    EXPECT_FALSE(parser.retry());
    ASSERT_TRUE(parser.feed("retry: 250\n\nretry: soon\n\n"));
    EXPECT_EQ(parser.retry(), Milliseconds(250));
}

TEST(SseTest, AnEndlessEventIsRefused) {
    SseParser parser([](const SseEvent&) {});
    const std::string megabyte(1U << 20U, 'x');
    Result<void> fed;
    for (int i = 0; i < 100 && fed; ++i)
        fed = parser.feed(megabyte);
    ASSERT_FALSE(fed);
    EXPECT_EQ(fed.error().reason, "event_too_large");
}

}  // namespace
}  // namespace rouse
