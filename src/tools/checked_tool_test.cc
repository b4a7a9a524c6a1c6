#include "tools/checked_tool.h"

#include <gtest/gtest.h>

#include "testing/agent_kit.h"

namespace rouse {
namespace {

using namespace testing;

class CheckedToolTest : public ::testing::Test {
 protected:
    static ToolOutcome call(const ToolOutcome& answer) {
        const auto schema = SchemaCheck::compile(
            json(R"({"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]})"));
        ToolSpec spec;
        spec.name = "count";
        const auto inner = make_tool(std::move(spec), [answer](const ToolCall&) { return answer; });
        const std::shared_ptr<Tool> tool = checked_tool(inner, *schema);
        EXPECT_EQ(tool->spec().name, "count");
        return wait_for(tool->call({CallId{"c1"}, "count", json("{}"), {}}));
    }
};

TEST_F(CheckedToolTest, WhatFitsGoesThrough) {
    EXPECT_EQ(to_json(*call(ToolOutcome::text(R"({"n":1})")).result),
              to_json(text_result(R"({"n":1})")));
    EXPECT_EQ(to_json(*call(ToolOutcome::error("no such branch")).result),
              to_json(error_result("no such branch")));
    EXPECT_TRUE(call(ToolOutcome::suspended("wait")).suspend);
}

TEST_F(CheckedToolTest, WhatDoesNotFitIsAnErrorThatSaysWhy) {
    for (const std::string_view wrong : {R"({"n":"one"})", "{}", "[1]", "plain words"}) {
        const ToolOutcome outcome = call(ToolOutcome::text(wrong));
        ASSERT_TRUE(outcome.result) << wrong;
        EXPECT_TRUE(outcome.result->is_error) << wrong;
        EXPECT_TRUE(outcome.result->content.text().contains("does not fit")) << wrong;
    }
}

}  // namespace
}  // namespace rouse
