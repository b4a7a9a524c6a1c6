#include "server/body.h"

#include <gtest/gtest.h>

#include "server/event_hub.h"
#include "server/views.h"

namespace rouse::server {
namespace {

TEST(BodyTest, ReadsWhatIsAskedFor) {
    Body body(R"({"a":"x","n":7,"f":true,"l":["p","q"],"t":"2026-01-31T12:00:00Z","none":null})");
    EXPECT_EQ(body.text("a"), "x");
    EXPECT_EQ(body.integer("n"), 7);
    EXPECT_EQ(body.flag("f"), true);
    EXPECT_EQ(body.texts("l"), (std::vector<std::string>{"p", "q"}));
    EXPECT_EQ(to_rfc3339(*body.time("t")), "2026-01-31T12:00:00.000Z");
    EXPECT_EQ(body.text("none"), std::nullopt);
    EXPECT_FALSE(body.problem());
}

struct BadBody {
    std::string name;
    std::string text;
    std::string field;
};
class BadBodyTest : public ::testing::TestWithParam<BadBody> {};

TEST_P(BadBodyTest, IsOneProblemThatNamesThePlace) {
    Body body(GetParam().text);
    (void)body.required_text("a");
    (void)body.integer("n");
    (void)body.tool_result("result");
    const std::optional<Problem> problem = body.problem();
    ASSERT_TRUE(problem);
    EXPECT_EQ(problem->status, 400);
    EXPECT_EQ(problem->field, GetParam().field);
}
INSTANTIATE_TEST_SUITE_P(
    Mistakes, BadBodyTest,
    ::testing::Values(
        BadBody{"NotJson", "{", ""}, BadBody{"NotAnObject", "[]", ""},
        BadBody{"Missing", R"({"result":{"content":""}})", "/a"},
        BadBody{"WrongType", R"({"a":1,"result":{"content":""}})", "/a"},
        BadBody{"WrongNumber", R"({"a":"","n":1.5,"result":{"content":""}})", "/n"},
        BadBody{"Unknown", R"({"a":"","b":1,"result":{"content":""}})", "/b"},
        BadBody{"Twice", R"({"a":"","result":{"content":""},"a":""})", "/a"},
        BadBody{"TwiceInside", R"({"a":"","result":{"content":"","content":"x"}})",
                "/result/content"},
        BadBody{"Inside", R"({"a":"","result":{"title":"","output":1}})", "/result/output"},
        BadBody{"NoBlock", R"({"a":"","result":{"content":[1]}})", "/result/content"},
        BadBody{"NoType", R"({"a":"","result":{"content":[{"text":""}]}})", "/result/content"},
        BadBody{"NoText", R"({"a":"","result":{"content":[{"type":"text"}]}})", "/result/content"},
        BadBody{"NoSource", R"({"a":"","result":{"content":[{"type":"image","source":1}]}})",
                "/result/content"},
        BadBody{
            "ToolUse",
            R"({"a":"","result":{"content":[{"type":"tool_use","id":"","name":"","input":{}}]}})",
            "/result/content"},
        BadBody{"UnknownInside", R"({"a":"","result":{"content":"","x":1}})", "/result/x"}),
    [](const auto& test) { return test.param.name; });

TEST(WaitTest, IsANumberWithAUnit) {
    EXPECT_EQ(parse_wait("500ms"), Milliseconds(500));
    EXPECT_EQ(parse_wait("2m"), std::chrono::minutes(2));
    for (const char* wrong : {"", "5", "s", "-1s", "1h", "1.5s", "99999999999s"})
        EXPECT_EQ(parse_wait(wrong), std::nullopt) << wrong;
}

TEST(GlobalPositionTest, ReadsWhatItWrote) {
    const GlobalPosition whole{{3, 17, 2}, std::nullopt};
    const GlobalPosition part{{3, 17, 2}, 5};
    for (const GlobalPosition& position : {whole, part}) {
        const std::optional<GlobalPosition> again = GlobalPosition::parse(position.text());
        ASSERT_TRUE(again) << position.text();
        EXPECT_EQ(again->cursor, position.cursor);
        EXPECT_EQ(again->seen, position.seen);
    }
    for (const char* wrong : {"", "1", "1.2", "1.2.", "1.2.3-", "1.2.3x", "-1.2.3"})
        EXPECT_FALSE(GlobalPosition::parse(wrong)) << wrong;
}

TEST(MaskTest, CutsPendingIdsShortAndNothingElse) {
    EXPECT_EQ(mask_pending_ids(R"({"id":"pnd_01ABC_SECRETSECRET","x":"pnd"})"),
              R"({"id":"pnd_01ABC_SECR…","x":"pnd"})");
}

}  // namespace
}  // namespace rouse::server
