#include "tools/tool_answer.h"

#include <gtest/gtest.h>

namespace rouse {
namespace {

TEST(ToolAnswerTest, BothFormsOfAResultAreTakenAsOne) {
    const ToolResult whole = parse_tool_answer(
        R"( {"content": "no", "is_error": true, "display": "No", "metadata": {"n": 1.0}} )");
    EXPECT_EQ(to_json(whole),
              R"({"content":"no","is_error":true,"display":"No","metadata":{"n":1.0}})");
    const ToolResult blocks = parse_tool_answer(R"({"content":[{"type":"text","text":"a"}]})");
    EXPECT_EQ(to_json(blocks), R"({"content":[{"type":"text","text":"a"}]})");
    const ToolResult titled =
        parse_tool_answer(R"({"title":"Built","output":"v42","metadata":{"ms":1e3}})");
    EXPECT_EQ(to_json(titled), R"({"content":"v42","display":"Built","metadata":{"ms":1e3}})");
    EXPECT_EQ(to_json(parse_tool_answer(R"({"title":"","output":""})")), R"({"content":""})");
    EXPECT_EQ(to_json(parse_tool_answer(R"({"content":"a","metadata":null})")),
              R"({"content":"a"})");
}

TEST(ToolAnswerTest, AnythingElseIsText) {
    for (const std::string_view text :
         {"", "plain", "[1]", "42", "\"text\"", "{\"content\":", "{}", R"({"content":1})",
          R"({"content":{"type":"text"}})", R"({"content":["a"]})",
          R"({"content":"aGk=","encoding":"base64"})", R"({"content":"a","is_error":"yes"})",
          R"({"content":"a","metadata":[1]})", R"({"output":"v42"})",
          R"({"title":"Built","output":1})", R"({"title":"Built","output":"v42","size":7})",
          R"({"content":null})"}) {
        EXPECT_EQ(to_json(parse_tool_answer(text)), to_json(text_result(text)));
    }
}

TEST(ToolAnswerTest, BytesThatAreNoTextBecomeText) {
    const ToolResult result = parse_tool_answer("caf\xE9");
    EXPECT_EQ(result.content.text(), "\"caf\uFFFD\"");
    EXPECT_TRUE(RawJson::parse(result.content.text()));
}

}  // namespace
}  // namespace rouse
