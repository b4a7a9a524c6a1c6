#include "domain/message.h"

#include <gtest/gtest.h>

#include <limits>

namespace rouse {
namespace {

Result<Content> read(std::string_view text) {
    return from_json<Content>(text, "content");
}

TEST(MessageTest, KnownBlocksAreTyped) {
    const Result<Content> content = read(
        R"([{"type":"text","text":"a\nb"},{"type":"tool_use","id":"c","name":"t","input":{"n":1.0}},)"
        R"({"type":"tool_result","tool_use_id":"c","content":"ok","is_error":true},)"
        R"({"type":"image","source":{"type":"url"}}])");
    ASSERT_TRUE(content);
    ASSERT_EQ(content->size(), 4U);
    EXPECT_EQ((*content)[0].get_if<TextBlock>()->text, "a\nb");
    EXPECT_EQ((*content)[1].get_if<ToolUseBlock>()->input.text(), R"({"n":1.0})");
    EXPECT_TRUE((*content)[2].get_if<ToolResultBlock>()->is_error);
    EXPECT_EQ((*content)[3].get_if<ImageBlock>()->source.text(), R"({"type":"url"})");
}

// S2, W13: a provider's own blocks come back to it byte for byte.
TEST(MessageTest, UnknownBlocksAreKeptByteForByte) {
    for (const std::string_view block :
         {R"({"type":"thinking","thinking":"hm","signature":"A\/b+\u0041=="})",
          R"({"signature":"first","type":"redacted_thinking"})", R"({"type":"x","n":[1.0,1e2,-0]})",
          R"({"type":null})", R"({"type":"x","type":"text"})"}) {
        const std::string text = "[" + std::string(block) + "]";
        const Result<Content> content = read(text);
        ASSERT_TRUE(content) << block;
        EXPECT_NE((*content)[0].get_if<UnknownBlock>(), nullptr) << block;
        EXPECT_EQ(to_json(*content), text);
    }
}

TEST(MessageTest, UnknownFieldsOfKnownBlocksAreKept) {
    const std::string text =
        R"([{"type":"text","text":"a","cache_control":{"type":"ephemeral"},"citations":[0.10]}])";
    EXPECT_EQ(to_json(*read(text)), text);
}

TEST(MessageTest, ABlockWithoutItsFieldsIsMalformed) {
    for (const std::string_view text :
         {"[{}]", R"([{"text":"no type"}])", R"([{"type":"text"}])",
          R"([{"type":"text","text":1}])", R"([{"type":"tool_use","id":"c","name":"t"}])",
          R"([{"type":"tool_result"}])", R"([{"type":"image"}])", R"(["text"])",
          R"({"type":"text"})", R"([{"type":"text"])"}) {
        EXPECT_FALSE(read(text)) << text;
    }
}

TEST(MessageTest, UsageAddsUpAndNeverWraps) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    Usage usage;
    usage.input_tokens = 5;
    usage.cache_write_tokens = kMost - 1;
    usage += usage;
    EXPECT_EQ(usage.input_tokens, 10);
    EXPECT_EQ(usage.output_tokens, 0);
    EXPECT_EQ(usage.cache_write_tokens, kMost);
}

}  // namespace
}  // namespace rouse
