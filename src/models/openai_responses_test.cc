#include "models/openai_responses.h"

#include <gtest/gtest.h>

namespace rouse {
namespace {

Result<ModelResponse> read_with_item(const std::string& item) {
    const std::string body = R"({"status":"completed","model":"m","output":[)" + item + "]}";
    return OpenAiResponsesApi({}).read_answer(RawJson::trusted(body));
}

TEST(OpenAiResponsesTest, AnItemOfAnUnknownKindIsKeptAsItCame) {
    const std::string item = R"({"type":"reasoning","encrypted_content":"x","n":1.50})";
    const Result<ModelResponse> answer = read_with_item(item);
    ASSERT_TRUE(answer);
    EXPECT_EQ(to_json(answer->content), "[" + item + "]");
}

// In a log it would be read as a block of ours, or make the whole line unreadable.
TEST(OpenAiResponsesTest, AnItemThatCallsItselfABlockOfOursIsNoAnswer) {
    for (const char* type : {"text", "tool_use", "tool_result", "image"}) {
        const Result<ModelResponse> answer =
            read_with_item(R"({"type":")" + std::string(type) + R"(","x":1})");
        ASSERT_FALSE(answer) << type;
        EXPECT_EQ(answer.error().reason, "stream_broken");
    }
}

}  // namespace
}  // namespace rouse
