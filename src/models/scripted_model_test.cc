#include "rouse/scripted_model.h"

#include <gtest/gtest.h>

#include "testing/agent_kit.h"

namespace rouse {
namespace {

using namespace testing;

std::shared_ptr<ScriptedModel> script(std::string_view text) {
    auto model = ScriptedModel::from_text(text);
    EXPECT_TRUE(model) << model.error().message;
    return model ? *model : nullptr;
}

// Asks the model for its next answer in a conversation, and adds it there.
struct Talk {
    std::shared_ptr<Model> model;
    SessionId session = {};
    std::vector<Message> said = {};

    Result<ModelResponse> ask() {
        ModelRequest request;
        request.session_id = session;
        request.turn = said;
        const Model::OnText on_text = [this](std::string_view text) -> Result<void> {
            streamed += text;
            return {};
        };
        Result<ModelResponse> answer = wait_for(model->generate(request, on_text));
        if (answer) said.push_back({Role::assistant, answer->content, {}});
        return answer;
    }
    std::string user(const std::string& text) {
        said.push_back(user_message(text));
        return next();
    }
    std::string result(const std::string& call, std::string_view text) {
        Message message;
        message.content.emplace_back(
            ToolResultBlock{CallId{call}, text_result(text).content, false, {}});
        said.push_back(message);
        return next();
    }
    std::string next() {
        const Result<ModelResponse> answer = ask();
        if (!answer) return "error " + std::string(answer.error().reason);
        return outline({said.back()});
    }
    std::string streamed = {};
};

TEST(ScriptedModelTest, TakesTheFirstEntryThatMatchesAndIsNotUsed) {
    Talk talk{script(R"({"when":{"user":"deploy"},"say":"On it."}
{"when":{"user":"stop"},"say":"Stopped."}
{"when":{"user":"deploy"},"say":"Again?"}

{"say":"Anything."}
)")};
    EXPECT_EQ(talk.user("please stop"), "a:Stopped.");
    EXPECT_EQ(talk.user("deploy it"), "a:On it.");
    EXPECT_EQ(talk.user("deploy it"), "a:Again?");
    EXPECT_EQ(talk.user("deploy it"), "a:Anything.");
    EXPECT_EQ(talk.user("deploy it"), "error unscripted");
    EXPECT_EQ(talk.streamed, "Stopped.On it.Again?Anything.") << "text is streamed too";
}

TEST(ScriptedModelTest, ATurnMatchesByTheToolWhoseResultCameLast) {
    Talk talk{script(R"({"when":{"user":"go"},"call":[{"tool":"a","id":"x"},{"tool":"b","id":"y"}]}
{"when":{"tool_result":"c"},"say":"c"}
{"when":{"tool_result":"b"},"say":"b gave {{result}}"})")};
    EXPECT_EQ(talk.user("go"), "a:a#x,b#y");
    Message results;
    for (const std::string id : {"x", "y"}) {
        results.content.emplace_back(
            ToolResultBlock{CallId{id}, text_result("r" + id).content, false, {}});
    }
    talk.said.push_back(results);
    EXPECT_EQ(talk.next(), "a:b gave ry") << "the latest result";
}

TEST(ScriptedModelTest, AnEntryThatRepeatsIsNeverUsedUp) {
    Talk talk{script(R"({"say":"Call {{n}}","repeat":true})")};
    EXPECT_EQ(talk.user("a"), "a:Call 1");
    EXPECT_EQ(talk.user("b"), "a:Call 2");
    EXPECT_EQ(talk.user("c"), "a:Call 3");
}

TEST(ScriptedModelTest, ResultTextIsFilledInAsItIsAndOnlyOnce) {
    Talk talk{script(R"({"call":[{"tool":"t","id":"c"}]}
{"say":"<{{result}}|{{result}}|{{n}}>"})")};
    EXPECT_EQ(talk.user("go"), "a:t#c");
    EXPECT_EQ(talk.result("c", "say {{result}} \"and\" {{n}}"),
              "a:<say {{result}} \"and\" {{n}}|say {{result}} \"and\" {{n}}|2>");
}

TEST(ScriptedModelTest, CallsGetIdsOfTheirOwnAndAnEmptyInputIsAnObject) {
    Talk talk{script(R"({"call":[{"tool":"t"},{"tool":"t","input":{"a":1.0}}],"repeat":true})")};
    EXPECT_EQ(talk.user("go"), "a:t#call_1_1,t#call_1_2");
    const auto* first = talk.said.back().content[0].get_if<ToolUseBlock>();
    const auto* second = talk.said.back().content[1].get_if<ToolUseBlock>();
    EXPECT_EQ(first->input.text(), "{}");
    EXPECT_EQ(second->input.text(), R"({"a":1.0})");
    EXPECT_EQ(talk.user("again"), "a:t#call_2_1,t#call_2_2");
}

TEST(ScriptedModelTest, SaysWhyItStoppedAndWhatItCost) {
    Talk talk{script(R"({"call":[{"tool":"t"}],"usage":{"input_tokens":3,"output_tokens":4}}
{"say":"x"})")};
    talk.said = {user_message("go")};
    const Result<ModelResponse> first = talk.ask();
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(first->stop_reason, "tool_use");
    EXPECT_EQ(first->model, "scripted");
    EXPECT_EQ(first->usage, (Usage{3, 4, 0, 0}));
    EXPECT_EQ(talk.ask()->stop_reason, "end_turn");
}

struct StatusCase {
    int status;
    ErrorKind kind;
};
class FailureTest : public ::testing::TestWithParam<StatusCase> {};
TEST_P(FailureTest, IsAsAProvidersAnswer) {
    const std::string line =
        R"({"error":{"status":)" + std::to_string(GetParam().status) + "}}\n{\"say\":\"fine\"}";
    Talk talk{script(line), SessionId("sess_failure")};
    talk.said = {user_message("go")};
    const Result<ModelResponse> failed = talk.ask();
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().kind, GetParam().kind) << failed.error().reason;
    EXPECT_NE(failed.error().message.find(std::to_string(GetParam().status)), std::string::npos);
    EXPECT_EQ(talk.next(), "a:fine") << "in a session the failure is used up";
}
INSTANTIATE_TEST_SUITE_P(
    Statuses, FailureTest,
    ::testing::Values(StatusCase{400, ErrorKind::invalid}, StatusCase{401, ErrorKind::denied},
                      StatusCase{403, ErrorKind::denied}, StatusCase{408, ErrorKind::unavailable},
                      StatusCase{409, ErrorKind::unavailable}, StatusCase{422, ErrorKind::invalid},
                      StatusCase{429, ErrorKind::unavailable},
                      StatusCase{500, ErrorKind::unavailable},
                      StatusCase{529, ErrorKind::unavailable}),
    [](const auto& test) { return "Status" + std::to_string(test.param.status); });

TEST(ScriptedModelTest, AnUnscriptedCallNamesItsNumberAndWhatCameBefore) {
    Talk talk{script(R"({"say":"one"})")};
    EXPECT_EQ(talk.user("first"), "a:one");
    talk.said.push_back(user_message("second question"));
    const Result<ModelResponse> failed = talk.ask();
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().kind, ErrorKind::invalid);
    EXPECT_EQ(failed.error().reason, "unscripted");
    EXPECT_NE(failed.error().message.find("call 2"), std::string::npos) << failed.error().message;
    EXPECT_NE(failed.error().message.find("second question"), std::string::npos);
}

TEST(ScriptedModelTest, TwoSessionsDoNotUseUpEachOthersEntries) {
    const auto model = script("{\"say\":\"one {{n}}\"}\n{\"say\":\"two {{n}}\"}");
    Talk first{model, SessionId("sess_first")};
    Talk second{model, SessionId("sess_second")};
    EXPECT_EQ(first.user("a"), "a:one 1");
    EXPECT_EQ(second.user("a"), "a:one 1");
    EXPECT_EQ(second.user("b"), "a:two 2");
    EXPECT_EQ(first.user("b"), "a:two 2");
}

TEST(ScriptedModelTest, ASessionGoesOnAfterManyOthersHaveAsked) {
    const auto model = script("{\"say\":\"one\"}\n{\"say\":\"two\"}");
    Talk talk{model, SessionId("sess_A")};
    EXPECT_EQ(talk.user("hello"), "a:one");
    for (int i = 0; i < 2000; ++i) {
        Talk other{model, SessionId("sess_" + std::to_string(i))};
        ASSERT_EQ(other.user("hello"), "a:one");
    }
    EXPECT_EQ(talk.user("and?"), "a:two");
}

TEST(ScriptedModelTest, ANewModelGoesOnWhereTheScriptWas) {
    constexpr std::string_view text = R"({"when":{"user":"b"},"say":"B"}
{"say":"one","repeat":false}
{"when":{"user":"a"},"say":"two"}
{"say":"three {{n}}"})";
    for (const std::string session : {"", "sess_restart"}) {
        Talk talk{script(text), SessionId(session)};
        EXPECT_EQ(talk.user("a"), "a:one");
        EXPECT_EQ(talk.user("b"), "a:B");
        talk.model = script(text);
        EXPECT_EQ(talk.user("a"), "a:two");
        talk.model = script(text);
        EXPECT_EQ(talk.user("c"), "a:three 4");
    }
}

struct BadScript {
    std::string name;
    std::string text;
    std::string want;
};
class BadScriptTest : public ::testing::TestWithParam<BadScript> {};
TEST_P(BadScriptTest, IsRefusedWithNameAndLine) {
    const auto model = ScriptedModel::from_text(GetParam().text, "demo.jsonl");
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().kind, ErrorKind::invalid);
    EXPECT_EQ(model.error().reason, "invalid_script");
    EXPECT_NE(model.error().message.find(GetParam().want), std::string::npos)
        << model.error().message;
}
INSTANTIATE_TEST_SUITE_P(
    Rules, BadScriptTest,
    ::testing::Values(
        BadScript{"NotJson", "{\"say\":\"a\"}\n\nsay b\n", "demo.jsonl:3: "},
        BadScript{"TornLine", "{\"say\":\"a\"", "demo.jsonl:1: "},
        BadScript{"NotAnObject", "{\"say\":\"a\"}\n[]", "demo.jsonl:2: "},
        BadScript{"WrongType", "{\"say\":7}", "demo.jsonl:1: "},
        BadScript{"UnknownField", "{\"says\":\"a\"}", "says"},
        BadScript{"UnknownFieldInWhen", "{\"when\":{\"usr\":\"a\"}}", "usr"},
        BadScript{"UnknownFieldInACall", "{\"call\":[{\"tool\":\"t\",\"in\":1}]}", "in"},
        BadScript{"UnknownFieldInAnError", "{\"error\":{\"status\":500,\"why\":1}}", "why"},
        BadScript{"UnknownFieldInUsage", "{\"usage\":{\"tokens\":1}}", "tokens"},
        BadScript{"CallWithoutTool", "{\"call\":[{\"id\":\"x\"}]}", "demo.jsonl:1: "}),
    [](const auto& test) { return test.param.name; });

TEST(ScriptedModelTest, AMissingFileIsNamed) {
    const auto model = ScriptedModel::from_file("/nowhere/at/all.jsonl");
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().kind, ErrorKind::not_found);
    EXPECT_NE(model.error().message.find("/nowhere/at/all.jsonl"), std::string::npos);
}

TEST(ScriptedModelTest, AnErrorFromTheReaderOfTheTextEndsTheCallWithIt) {
    const auto model = script(R"({"say":"x"})");
    const std::vector<Message> said = {user_message("go")};
    ModelRequest request;
    request.turn = said;
    const Model::OnText on_text = [](std::string_view) -> Result<void> {
        return Error(ErrorKind::io, "closed", "the pipe is closed");
    };
    const Result<ModelResponse> answer = wait_for(model->generate(request, on_text));
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().reason, "closed");
}

}  // namespace
}  // namespace rouse
