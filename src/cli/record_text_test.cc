#include "cli/record_text.h"

#include <gtest/gtest.h>

namespace rouse::cli {
namespace {

constexpr std::string_view kHead = R"({"seq":5,"ts":"2026-01-01T00:00:00.000Z","kind":)";

std::string what(const std::string& rest) {
    const Result<RecordLine> line = to_line(std::string(kHead) + rest);
    return line ? line->what : std::string(line.error().reason);
}

TEST(RecordTextTest, SaysWhatMatters) {
    EXPECT_EQ(what(R"("message.assistant","message_id":"msg_1","content":[)"
                   R"({"type":"text","text":"Looking."},)"
                   R"({"type":"tool_use","id":"c1","name":"look","input":{"at":1}}]})"),
              "Looking. → look {\"at\":1}");
    EXPECT_EQ(what(R"("run.waiting","run_id":"run_1","wait_id":"wait_1","wait_kind":"person",)"
                   R"("resume_token_id":"rt_1","deadline_at":"2026-01-02T00:00:00.000Z"})"),
              "for person until 2026-01-02T00:00:00.000Z");
    EXPECT_EQ(what(R"("tool.completed","call_id":"c1","result":)"
                   R"({"content":[{"type":"text","text":"seen"}]}})"),
              "c1: seen");
    EXPECT_EQ(what(R"("run.completed","run_id":"run_1"})"), "");
}

TEST(RecordTextTest, ARecordThatIsShownInPartHasItsNameAtLeast) {
    const Result<RecordLine> line =
        to_line(std::string(kHead) + R"("pending.created","pending_id":"pnd_1_AB…"})");
    ASSERT_TRUE(line);
    EXPECT_EQ(line->seq, 5);
    EXPECT_EQ(line->kind, "pending.created");
    EXPECT_EQ(line->what, "");
}

TEST(RecordTextTest, WhatIsNoRecordIsRefused) {
    EXPECT_FALSE(to_line("{}"));
    EXPECT_FALSE(to_line("[1]"));
}

}  // namespace
}  // namespace rouse::cli
