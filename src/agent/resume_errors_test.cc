// What an agent refuses, and that a refusal changes nothing: no hook, no model call, the session as
// it was. Each message says what to do instead.

#include <gtest/gtest.h>

#include "testing/agent_kit.h"

namespace rouse {
namespace {

using namespace testing;

class ResumeErrorsTest : public KeptTest {
 protected:
    // c1 and c2 wait, c3 is done.
    void suspend() {
        const TurnResult first = agent_.respond_and_wait(message("Go", session_));
        ASSERT_TRUE(first) << first.error().message;
        ASSERT_EQ(outline(*first->suspension), "pending c1 c2 done c3=3");
        state_ = *first->suspension;
        forget();
    }
    void finish() {
        const TurnResult done = agent_.respond_and_wait(
            with_turn({.answers = {result_for("c1", "1"), result_for("c2", "2")}}));
        ASSERT_TRUE(done) << done.error().message;
        EXPECT_EQ(outline(done->output_messages), "u:c1=1,c2=2,c3=3 | a:ok");
    }
    void forget() {
        log_of_hooks_->clear();
        asked_ = model_->requests.size();
    }

    // The request on the suspended turn: through the session, or with the state.
    AgentRequest with_turn(AgentRequest request) const {
        request.session = session_;
        if (!session_) request.state = state_;
        return request;
    }

    void expect_refused(AgentRequest request, ErrorKind kind, std::string_view reason,
                        std::string_view advice) {
        const std::string before = session_snapshot();
        const TurnResult refused = agent_.respond_and_wait(std::move(request));
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().kind, kind);
        EXPECT_EQ(refused.error().reason, reason);
        EXPECT_NE(refused.error().message.find(advice), std::string::npos)
            << "S2-29: " << refused.error().message;
        EXPECT_TRUE(refused.error().items.empty());
        EXPECT_TRUE(refused.error().output_messages.empty());
        EXPECT_EQ(joined(*log_of_hooks_), "") << "no hook";
        EXPECT_EQ(model_->requests.size(), asked_) << "no model call";
        EXPECT_EQ(session_snapshot(), before);
    }

    CallLog log_of_hooks_ = std::make_shared<std::vector<std::string>>();
    std::shared_ptr<WatchedModel> model_ =
        playing({calls({{"c1", "ask"}, {"c2", "ask"}, {"c3", "look"}}), says("ok"), says("more")});
    Agent agent_{{.model = model_,
                  .tools = {suspending("ask").tool, answering("look", "3").tool},
                  .hooks = watching(log_of_hooks_)}};
    Suspension state_;
    std::size_t asked_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Sessions, ResumeErrorsTest,
                         ::testing::Values(Keeping::nowhere, Keeping::memory, Keeping::durable),
                         keeping_name);

TEST_P(ResumeErrorsTest, ASuspendedTurnWithoutAnswersNeedsAResume) {  // S2-21 S2-56 S2-124
    suspend();
    expect_refused(with_turn({}), ErrorKind::precondition, "resume_required", "answers");
    expect_refused(with_turn({.go_on = true}), ErrorKind::precondition, "resume_required",
                   "answers");
    if (session_) {
        expect_refused({.session = session_, .state = state_}, ErrorKind::precondition,
                       "resume_required", "answers");
    }
    finish();
}

// S2-22 S2-100 S2-125
TEST_P(ResumeErrorsTest, NewInputOnASuspendedTurnIsRefusedWithOrWithoutAnswers) {
    suspend();
    expect_refused(with_turn({.messages = {user_message("Hurry")}}), ErrorKind::conflict,
                   "input_on_suspended_session", "answers");
    expect_refused(with_turn({.messages = {user_message("Hurry")},
                              .answers = {result_for("c1", "1"), result_for("c2", "2")}}),
                   ErrorKind::conflict, "input_on_suspended_session", "cancel");
    finish();
}

TEST_P(ResumeErrorsTest, AnswersWhenNothingIsSuspended) {  // S2-23 S2-126
    expect_refused({.session = session_, .answers = {result_for("c1", "1")}},
                   ErrorKind::precondition, "no_suspended_turn", "message");
    expect_refused(
        {.session = session_, .messages = {user_message("Hi")}, .answers = {result_for("c1", "1")}},
        ErrorKind::precondition, "no_suspended_turn", "message");
}

TEST_P(ResumeErrorsTest, AnswersAfterTheTurnIsFinished) {  // S2-23, the second resume
    if (!session_) GTEST_SKIP() << "a state without a session can be resumed as often as one likes";
    suspend();
    finish();
    forget();
    expect_refused({.session = session_, .answers = {result_for("c1", "1")}},
                   ErrorKind::precondition, "no_suspended_turn", "message");
}

TEST_P(ResumeErrorsTest, AStateForASessionThatIsNotSuspendedFailsBeforeTheModel) {  // 2.2, #189
    if (!session_) GTEST_SKIP() << "needs a session";
    suspend();
    finish();
    forget();
    expect_refused({.session = session_, .answers = {result_for("c1", "1")}, .state = state_},
                   ErrorKind::precondition, "session_not_suspended", "leave out state");
}

struct WrongAnswers {
    std::string name;
    Answers answers;
};
const WrongAnswers kWrongAnswers[] = {
    {"Unknown", {result_for("nobody", "x")}},
    {"UnknownBehindValid", {result_for("c1", "1"), result_for("nobody", "x")}},
    {"UnknownBeforeValid",
     {result_for("nobody", "x"), result_for("c1", "1"), result_for("c2", "2")}},
    {"AlreadyDone", {result_for("c3", "again")}},
    {"DoneBehindValid", {error_for("c1", "1"), result_for("c2", "2"), result_for("c3", "again")}},
    {"Twice", {result_for("c1", "1"), result_for("c1", "2")}},
    {"EmptyId", {result_for("", "1")}},
};

TEST_P(ResumeErrorsTest, OneWrongIdFailsAllAnswers) {  // S2-24 S2-31 S2-55
    suspend();
    for (const WrongAnswers& c : kWrongAnswers) {
        SCOPED_TRACE(c.name);
        expect_refused(with_turn({.answers = c.answers}), ErrorKind::conflict,
                       "unknown_pending_tool_call", "pending_tool_calls");
    }
    finish();
}

TEST_P(ResumeErrorsTest, AnIdThatWasAnsweredBeforeIsNotPendingAnyMore) {  // S2-24
    suspend();
    const TurnResult part =
        agent_.respond_and_wait(with_turn({.answers = {result_for("c1", "1")}}));
    ASSERT_TRUE(part) << part.error().message;
    state_ = *part->suspension;
    forget();
    expect_refused(with_turn({.answers = {result_for("c1", "again")}}), ErrorKind::conflict,
                   "unknown_pending_tool_call", "pending_tool_calls");
    expect_refused(with_turn({.answers = {result_for("c2", "2"), result_for("c1", "again")}}),
                   ErrorKind::conflict, "unknown_pending_tool_call", "pending_tool_calls");
}

TEST_P(ResumeErrorsTest, AnApprovalForACallThatWaitsForAResultIsRefused) {
    suspend();
    expect_refused(
        with_turn({.answers = {result_for("c1", "1"), approval_for("c2", Approval::yes())}}),
        ErrorKind::precondition, "result_required", "c2");
    finish();
}

TEST_P(ResumeErrorsTest, WithADurableSessionTheLogWinsOverAPassedState) {  // S2-57
    suspend();
    Suspension newer = state_;
    newer.completed_tool_calls[0].result = text_result("edited");
    Suspension foreign = state_;
    foreign.pending_tool_calls[0].id.text = "c9";
    if (is_durable()) {
        expect_refused({.session = session_, .answers = {result_for("c1", "1")}, .state = foreign},
                       ErrorKind::conflict, "unknown_pending_tool_call", "leave out the state");
    }
    const TurnResult done =
        agent_.respond_and_wait({.session = session_,
                                 .answers = {result_for("c1", "1"), result_for("c2", "2")},
                                 .state = newer});
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(outline(done->output_messages),
              is_durable() ? "u:c1=1,c2=2,c3=3 | a:ok" : "u:c1=1,c2=2,c3=edited | a:ok");
}

TEST_P(ResumeErrorsTest, StatesThatAreNotOursAreRefused) {
    if (session_) GTEST_SKIP() << "a session keeps its own";
    suspend();
    const AgentRequest good = with_turn({.answers = {result_for("c1", "1")}});
    AgentRequest bad = good;
    bad.state->turn_messages.clear();
    expect_refused(bad, ErrorKind::invalid, "malformed_suspension", "not one of ours");
    bad = good;
    bad.state->turn_messages.pop_back();
    expect_refused(bad, ErrorKind::invalid, "malformed_suspension", "not one of ours");
    bad = good;
    bad.state->completed_tool_calls[0].id.text = "c1";
    expect_refused(bad, ErrorKind::invalid, "malformed_suspension", "twice");
    bad = good;
    bad.state->pending_tool_calls[0].id.text = "c9";
    expect_refused(bad, ErrorKind::invalid, "malformed_suspension", "c9");
    bad = good;
    bad.state->pending_tool_calls.clear();
    expect_refused(bad, ErrorKind::precondition, "no_suspended_turn", "no pending");
}

TEST_P(ResumeErrorsTest, ThereMustBeAMessage) {
    expect_refused({.session = session_}, ErrorKind::invalid, "nothing_to_do", "message");
}

TEST_P(ResumeErrorsTest, ThereMustBeAModel) {
    suspend();
    Agent empty({.hooks = watching(log_of_hooks_)});
    const std::string before = session_snapshot();
    const TurnResult refused =
        empty.respond_and_wait(with_turn({.answers = {result_for("c1", "1")}}));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
    EXPECT_EQ(refused.error().reason, "no_model");
    EXPECT_EQ(session_snapshot(), before);
    EXPECT_EQ(joined(*log_of_hooks_), "");
}

TEST_P(ResumeErrorsTest, GoingOnNeedsATurnThatWasInterrupted) {
    expect_refused({.session = session_, .go_on = true}, ErrorKind::precondition, "not_interrupted",
                   "message");
}

TEST_P(ResumeErrorsTest, ErrorResultsForAllPendingCallsEndTheWait) {  // S2-62
    suspend();
    const TurnResult done = agent_.respond_and_wait(
        with_turn({.answers = {error_for("c2", "cancelled"), error_for("c1", "cancelled")}}));
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->status, ResponseStatus::completed);
    EXPECT_EQ(outline(done->output_messages), "u:c1!cancelled,c2!cancelled,c3=3 | a:ok");
    EXPECT_EQ(joined(*log_of_hooks_),
              "post_tool_use_failure:c1 post_tool_use_failure:c2 pre_generation stop "
              "post_generation")
        << "once for each id";
}

// ---- What a session itself refuses -----------------------------------------------------------

TEST_P(ResumeErrorsTest, ASuspendedSessionTakesNoWholeTurn) {  // S2-25 S2-41 S2-105
    if (!session_) GTEST_SKIP() << "needs a session";
    suspend();
    const std::string before = snapshot(*session_);
    const Result<void> saved = wait_for(session_->save_turn({{user_message("x")}, {}}));
    ASSERT_FALSE(saved);
    EXPECT_EQ(saved.error().kind, ErrorKind::conflict);
    EXPECT_EQ(saved.error().reason, "suspended_session");
    EXPECT_NE(saved.error().message.find("resume"), std::string::npos);
    EXPECT_EQ(snapshot(*session_), before);
    finish();
}

// S2-26 S2-34 S2-101 S2-110
TEST_P(ResumeErrorsTest, ASessionThatIsNotSuspendedTakesNoResumedTurn) {
    if (!session_) GTEST_SKIP() << "needs a session";
    for (const bool after_a_turn : {false, true}) {
        if (after_a_turn) {
            suspend();
            finish();
        }
        const std::string before = snapshot(*session_);
        const Result<void> saved = wait_for(session_->save_resumed_turn({{user_message("x")}, {}}));
        ASSERT_FALSE(saved);
        EXPECT_EQ(saved.error().kind, ErrorKind::precondition);
        EXPECT_EQ(saved.error().reason, "not_suspended");
        const Result<void> cancelled = wait_for(session_->cancel_suspension());
        ASSERT_FALSE(cancelled);
        EXPECT_EQ(cancelled.error().reason, "not_suspended");
        EXPECT_NE(cancelled.error().message.find("message"), std::string::npos);
        EXPECT_EQ(snapshot(*session_), before);
    }
}

}  // namespace
}  // namespace rouse
