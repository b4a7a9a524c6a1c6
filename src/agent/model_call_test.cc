// Asking a model again, and what becomes of answers that are cut; budgets that make a turn wait.

#include <gtest/gtest.h>

#include "testing/agent_kit.h"

namespace rouse {
namespace {

using namespace testing;

// Answers as listed, in order.
class ListedModel final : public Model {
 public:
    Task<ModelResult> generate(ModelRequest request, const OnText& on_text) override {
        std::vector<Message> asked(request.history.begin(), request.history.end());
        asked.insert(asked.end(), request.turn.begin(), request.turn.end());
        requests.push_back(outline(asked));
        if (answers.empty()) {
            co_return Error(ErrorKind::internal, "unplanned", "nobody planned this call");
        }
        ModelResult next = std::move(answers.front());
        answers.erase(answers.begin());
        if (!next) co_return next;
        const std::string text = text_of(Message{Role::assistant, next->content, {}});
        if (Result<void> sent = on_text(text); !sent) co_return sent.error();
        co_return next;
    }

    std::vector<ModelResult> answers;
    std::vector<std::string> requests;
};

ModelResult failing(ErrorKind kind, std::string_view reason, std::optional<Milliseconds> after) {
    ModelError error(Error(kind, reason, "what it says"));
    error.retry_after = after;
    return error;
}

ModelResult saying(std::string text, std::int64_t tokens = 0) {
    ModelResponse response;
    response.content = text_content(std::move(text));
    response.usage.output_tokens = tokens;
    return response;
}

ModelResult calling(std::string id, bool cut, std::int64_t tokens = 0) {
    ModelResponse response;
    response.content.emplace_back(ToolUseBlock{CallId{std::move(id)}, "look", json("{}"), {}});
    response.cut = cut;
    response.usage.output_tokens = tokens;
    return response;
}

constexpr Milliseconds kSoon{1};

class ModelCallTest : public KeptTest {
 protected:
    TurnResult ask(std::vector<ModelResult> answers, AgentRequest request) {
        model_->answers = std::move(answers);
        AgentOptions options;
        options.model = model_;
        options.tools = {look_.tool};
        options.retry = retry_;
        options.budget = budget_;
        Agent agent(std::move(options));
        return agent.respond_and_wait(std::move(request));
    }
    TurnResult ask(std::vector<ModelResult> answers) {
        return ask(std::move(answers), message("Go", session_));
    }

    std::shared_ptr<ListedModel> model_ = std::make_shared<ListedModel>();
    Counted look_ = answering("look", "seen");
    RetryPolicy retry_{.retries = 2, .first_delay = kSoon};
    TokenBudget budget_;
};
INSTANTIATE_TEST_SUITE_P(Sessions, ModelCallTest,
                         ::testing::Values(Keeping::nowhere, Keeping::memory, Keeping::durable),
                         keeping_name);

TEST_P(ModelCallTest, WhatMayWorkLaterIsAskedAgain) {
    for (const ErrorKind kind : {ErrorKind::unavailable, ErrorKind::timeout}) {
        model_->requests.clear();
        const TurnResult done =
            ask({failing(kind, "busy", {}), failing(kind, "busy", kSoon), saying("Here")});
        ASSERT_TRUE(done) << done.error().message;
        EXPECT_EQ(done->text(), "Here");
        EXPECT_EQ(model_->requests.size(), 3U);
        EXPECT_EQ(model_->requests[0], model_->requests[2]);
    }
}

TEST_P(ModelCallTest, NothingElseIs) {
    for (const ErrorKind kind : {ErrorKind::invalid, ErrorKind::denied, ErrorKind::internal}) {
        model_->requests.clear();
        const TurnResult done = ask({failing(kind, "no", {}), saying("never")});
        ASSERT_FALSE(done);
        EXPECT_EQ(done.error().reason, "no");
        EXPECT_EQ(done.error().message, "what it says");
        EXPECT_EQ(model_->requests.size(), 1U);
    }
}

TEST_P(ModelCallTest, PatienceHasAnEnd) {
    const ModelResult busy = failing(ErrorKind::unavailable, "busy", {});
    TurnResult done = ask({busy, busy, busy, saying("too late")});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().message, "what it says (asked 3 times)");
    model_->requests.clear();
    done = ask({failing(ErrorKind::unavailable, "busy", std::chrono::hours(2)), saying("never")});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().message, "what it says (it asks to wait for 7200 s, which is too long)");
    EXPECT_EQ(model_->requests.size(), 1U);
}

// A listener's error ends the call with it, whatever its kind.
TEST_P(ModelCallTest, AListenerThatFailsIsNotAskedAgain) {
    AgentRequest request = message("Go", session_);
    request.on_item = [](const Item&) -> Result<void> {
        return Error(ErrorKind::unavailable, "gone", "nobody listens");
    };
    const TurnResult done = ask({saying("Here"), saying("never")}, std::move(request));
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().reason, "gone");
    EXPECT_EQ(model_->requests.size(), 1U);
}

TEST_P(ModelCallTest, ACallOfAMessageThatWasCutIsNotRun) {
    const TurnResult done = ask({calling("c1", true), calling("c2", false), saying("Done")});
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(*look_.calls, 1);
    EXPECT_TRUE(model_->requests[1].contains("c1!Not run")) << model_->requests[1];
    EXPECT_TRUE(model_->requests[2].contains("c2=seen")) << model_->requests[2];
}

TEST_P(ModelCallTest, AModelThatIsAlwaysCutEndsTheTurn) {
    const TurnResult done = ask({calling("c1", true), calling("c2", true), calling("c3", true)});
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().reason, "answers_cut");
    EXPECT_EQ(*look_.calls, 0);
}

TEST_P(ModelCallTest, AModelForOneCallTakesTheAgentsPlace) {
    AgentRequest request = message("Go", session_);
    request.model = playing({says("I am another")});
    const TurnResult done = ask({saying("never")}, std::move(request));
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->text(), "I am another");
}

// Who cannot wait does not count either.
TEST_P(ModelCallTest, OverBudgetADurableTurnWaitsAndAMessageLetsItGoOn) {
    budget_.per_run = 100;
    TurnResult done = ask({calling("c1", false, 60), calling("c2", false, 60), saying("Done", 1)});
    ASSERT_TRUE(done) << done.error().message;
    if (!is_durable()) {
        EXPECT_EQ(done->status, ResponseStatus::completed);
        return;
    }
    EXPECT_EQ(done->status, ResponseStatus::suspended);
    ASSERT_TRUE(done->suspension);
    EXPECT_EQ(outline(*done->suspension), "done c2=seen");
    EXPECT_EQ(model_->requests.size(), 2U);
    done = ask({calling("c3", false, 60), saying("Done", 30)}, message("Go on", session_));
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->status, ResponseStatus::completed);
    EXPECT_EQ(model_->requests.back(),
              "u:Go | a:look#c1 | u:c1=seen | a:look#c2 | u:c2=seen | u:Go on | a:look#c3 | "
              "u:c3=seen");
    EXPECT_EQ(*look_.calls, 3);
    EXPECT_EQ(outline(history_of(*session_)),
              "u:Go | a:look#c1 | u:c1=seen | a:look#c2 | u:c2=seen | u:Go on | a:look#c3 | "
              "u:c3=seen | a:Done");
}

TEST_P(ModelCallTest, ASessionsBudgetCountsOverItsTurns) {
    budget_.per_session = 100;
    ASSERT_TRUE(ask({saying("One", 60)}));
    ASSERT_TRUE(ask({saying("Two", 60)}));
    const TurnResult done = ask({saying("Three", 60)});
    ASSERT_TRUE(done);
    EXPECT_EQ(done->status, is_durable() ? ResponseStatus::suspended : ResponseStatus::completed);
    EXPECT_EQ(model_->requests.size(), is_durable() ? 2U : 3U);
}

}  // namespace
}  // namespace rouse
