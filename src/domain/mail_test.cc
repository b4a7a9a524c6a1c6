#include "domain/mail.h"

#include <gtest/gtest.h>

#include "domain/system_state.h"
#include "testing/session_driver.h"

namespace rouse {
namespace {

using testing::CallSpec;
using testing::SessionDriver;
using namespace std::chrono_literals;

using Kinds = std::vector<std::string>;

Kinds kinds_of(const Records& records) {
    Kinds kinds;
    for (const RecordBody& body : records)
        kinds.emplace_back(kind_of(body));
    return kinds;
}

Letter letter_to(const SessionId& to, const std::string& text = "red") {
    Letter letter;
    letter.message_id = MessageId("msg_1");
    letter.from = MailAddress{SessionId("sess_build"), "build"};
    letter.to = {{to, "review"}};
    letter.text = text;
    letter.chain_id = "msg_0";
    letter.hops = 3;
    return letter;
}

struct MailTest : ::testing::Test {
    SessionDriver driver{1};

    Result<DeliveryPlan> deliver(const Letter& letter, const std::string& stopped = {},
                                 bool wakes_interrupted = true) {
        DeliveryCommand command;
        command.new_run = RunId("run_new");
        command.boot = driver.boot();
        command.now = driver.now();
        command.stopped = stopped;
        command.wake_interrupted = wakes_interrupted;
        return plan_delivery(driver.state(), letter, command);
    }
    Letter letter(const std::string& text = "red") { return letter_to(driver.id(), text); }
};

TEST_F(MailTest, AnIdleSessionIsWokenInTheSameCommit) {
    driver.commit(driver.create());
    const Result<DeliveryPlan> plan = deliver(letter());
    ASSERT_TRUE(plan);
    EXPECT_EQ(kinds_of(plan->records), (Kinds{"inbox.received", "run.started"}));
    EXPECT_EQ(plan->action, MailAction::woken);
    EXPECT_TRUE(plan->wakes && plan->drives);
    driver.commit(plan->records);
    EXPECT_EQ(driver.state().run->chain_id, "msg_0");
    EXPECT_EQ(driver.state().run->hops, 3U);
    EXPECT_EQ(driver.state().mail.size(), 1U);
}

TEST_F(MailTest, WhoeverIsBusyOrWaitsHasItInTheInbox) {
    driver.begin();
    EXPECT_EQ(deliver(letter())->action, MailAction::queued);
    EXPECT_EQ(kinds_of(deliver(letter())->records), Kinds{"inbox.received"});
    SessionDriver waiting(2);
    waiting.begin({CallSpec{}});
    DeliveryCommand command;
    command.boot = waiting.boot();
    command.now = waiting.now();
    const Result<DeliveryPlan> plan =
        plan_delivery(waiting.state(), letter_to(waiting.id()), command);
    EXPECT_EQ(plan->action, MailAction::queued);
    EXPECT_FALSE(plan->drives);
}

TEST_F(MailTest, AQuietOrStoppedLetterWakesNobody) {
    driver.commit(driver.create());
    Letter quiet = letter();
    quiet.quiet = true;
    EXPECT_EQ(deliver(quiet)->action, MailAction::stored);
    const Result<DeliveryPlan> stopped = deliver(letter(), "hops");
    EXPECT_EQ(stopped->action, MailAction::stored);
    EXPECT_EQ(std::get<InboxReceived>(stopped->records[0]).stopped, "hops");
    driver.commit(stopped->records);
    EXPECT_EQ(find_waking_mail(driver.state()), nullptr);
}

TEST_F(MailTest, AnInterruptedSessionGoesOnIfItMay) {
    driver.begin();
    driver.commit(driver.restart());
    EXPECT_EQ(deliver(letter(), {}, false)->action, MailAction::stored);
    const Result<DeliveryPlan> plan = deliver(letter());
    EXPECT_EQ(plan->action, MailAction::woken);
    EXPECT_FALSE(std::get<RunStarted>(plan->records.back()).continues.empty());
}

TEST_F(MailTest, AFullInboxAndADeletedSessionTakeNothing) {
    driver.begin();
    for (std::size_t i = 0; i < limits::kInboxLetters; ++i) {
        Letter one = letter();
        one.message_id = MessageId("msg_" + std::to_string(i));
        driver.commit(deliver(one)->records);
    }
    EXPECT_EQ(deliver(letter()).error().reason, "inbox_full");
    driver.commit(driver.remove());
    EXPECT_EQ(deliver(letter()).error().reason, "session_gone");
}

TEST_F(MailTest, BeyondALimitTheNextRunShowsItAndNotTheOneUnderWay) {
    driver.begin();
    driver.commit(deliver(letter(), "hops")->records);
    ASSERT_EQ(driver.state().mail.size(), 1U);
    EXPECT_FALSE(driver.state().mail[0].may_be_shown());
    EXPECT_EQ(find_waking_mail(driver.state()), nullptr);
    EXPECT_EQ(find_withheld_mail(driver.state()).size(), 1U);  // for when its chain goes on
    driver.commit(driver.complete());
    driver.begin();
    EXPECT_TRUE(driver.state().mail[0].may_be_shown());
    EXPECT_TRUE(find_withheld_mail(driver.state()).empty());
}

TEST_F(MailTest, AfterARunThatFailedOnlyWhatCameDuringItWakes) {
    driver.begin();
    driver.commit(deliver(letter())->records);
    driver.commit(Records{RunFailed{driver.state().run->run_id, "refused", {}}});
    EXPECT_NE(find_waking_mail(driver.state()), nullptr);
    driver.commit(Records{RunStarted{RunId("run_2"), driver.boot(), {}, {}, {}, {}}});
    driver.commit(Records{RunFailed{RunId("run_2"), "refused", {}}});
    EXPECT_EQ(find_waking_mail(driver.state()), nullptr);
}

TEST_F(MailTest, AfterARunThatWasCancelledOnlyWhatCameDuringItWakes) {
    driver.begin();
    driver.commit(deliver(letter())->records);
    driver.commit(Records{RunCancelled{driver.state().run->run_id, "cancelled", {}}});
    EXPECT_NE(find_waking_mail(driver.state()), nullptr);
    driver.commit(Records{RunStarted{RunId("run_2"), driver.boot(), {}, {}}});
    driver.commit(Records{RunCancelled{RunId("run_2"), "cancelled", {}}});
    EXPECT_EQ(find_waking_mail(driver.state()), nullptr);
    EXPECT_EQ(driver.state().mail.size(), 1U);  // for the next run
}

TEST_F(MailTest, ALetterThatComesBackIsOfNoChain) {
    driver.begin();
    const Letter sent = letter();
    const InboxReceived back = returned_letter(sent, MessageId("msg_7"), sent.to[0], "it is full");
    EXPECT_EQ(back.text, "review did not get this message: it is full");
    EXPECT_TRUE(is_returned_letter(back, sent, sent.to[0]));
    EXPECT_FALSE(is_returned_letter(back, sent, {SessionId("sess_x"), "rev"}));
    driver.commit(Records{back});
    EXPECT_EQ(find_waking_mail(driver.state()), nullptr);
    driver.commit(Records{
        InboxPresented{{MessageId("msg_7")}, driver.state().run->run_id, "it came back", {}}});
    EXPECT_EQ(driver.state().run->hops, 0U);
    EXPECT_EQ(driver.state().run->chain_id, "");
}

TEST_F(MailTest, PresentedAndHandledAreSeparateFacts) {
    driver.begin();
    Letter asks = letter();
    asks.asks = true;
    driver.commit(deliver(asks)->records);
    driver.commit(Records{
        InboxPresented{{MessageId("msg_1")}, driver.state().run->run_id, "build says: red", {}}});
    ASSERT_EQ(driver.state().mail.size(), 1U);  // whoever asks is not answered yet
    EXPECT_TRUE(driver.state().mail[0].presented);
    EXPECT_EQ(find_waking_mail(driver.state()), nullptr);
    EXPECT_EQ(driver.state().run->hops, 3U);
    driver.commit(Records{InboxHandled{MessageId("msg_1"), MessageId("msg_2"), {}}});
    EXPECT_TRUE(driver.state().mail.empty());
    Inbox inbox;
    for (const Record& record : driver.log())
        inbox.fold(record);
    const InboxEntry* entry = inbox.find(MessageId("msg_1"));
    ASSERT_NE(entry, nullptr);
    EXPECT_TRUE(entry->presented && entry->handled);
    EXPECT_EQ(inbox.find(MessageId("msg_9")), nullptr);
}

TEST(LetterTest, SurvivesTheMetadataOfItsCall) {
    Letter letter = letter_to(SessionId("sess_review"), "\"quoted\"\nand ü");
    letter.reply_to = MessageId("msg_0");
    letter.quote = "is it red?";
    letter.asks = true;
    EXPECT_EQ(read_letter(letter_metadata(letter)), letter);
    EXPECT_EQ(read_letter(RawJson::trusted(R"({"letter":{"text":5}})")), std::nullopt);
    EXPECT_EQ(read_letter(RawJson()), std::nullopt);
    EXPECT_EQ(kinds_of(sent_records(letter)), (Kinds{"outbox.sent", "inbox.handled"}));
}

TEST(LetterTest, IsShownWithItsSenderAndHowToAnswer) {
    InboxReceived first{MessageId("msg_1"), "build", "It is red", {}, {}, 0, {}};
    first.from_session = SessionId("sess_build");
    InboxReceived second{MessageId("msg_2"), "a person", "Stop", MessageId("msg_0"), {}, 0, {}};
    second.quote = "shall I?";
    const Timestamp at = from_epoch_ms(1'700'000'000'000);
    const std::string text = render_mail({first, second}, {at, at});
    EXPECT_TRUE(text.starts_with("You have 2 new messages."));
    EXPECT_TRUE(text.contains("[Message msg_1 from build, 2023-11-14T22:13:20"));
    EXPECT_TRUE(text.contains("reply_to msg_1"));
    EXPECT_TRUE(text.contains("in answer to your message msg_0: \"shall I?\""));
    EXPECT_FALSE(text.contains("reply_to msg_2"));  // nobody reads it there
}

TEST(CauseTest, HopsAndWakesAreCountedAndAPersonMayGrantMore) {
    SystemState state;
    const auto note = [&](const auto& body) {
        state.fold(Record{0, from_epoch_ms(1), to_record(body)});
    };
    EXPECT_EQ(state.chain_limit("c", limits::kChainHops, 0), "");
    EXPECT_EQ(state.chain_limit("c", limits::kChainHops + 1, 0), "hops");
    for (std::uint32_t i = 0; i < limits::kChainWakes - 1; ++i)
        note(ChainWoke{"c"});
    EXPECT_EQ(state.chain_limit("c", 1, 0), "");
    EXPECT_EQ(state.chain_limit("c", 1, 1), "wakes");  // with one on its way
    note(ChainWoke{"c"});
    EXPECT_EQ(state.chain_limit("c", 1, 0), "wakes");
    note(ChainStopped{"c", SessionId("sess_1"), "wakes"});
    EXPECT_EQ(state.chains.at("c").sessions.size(), 1U);
    note(ChainContinued{"c", 2, 1});
    EXPECT_EQ(state.chain_limit("c", limits::kChainHops + 2, 0), "");
    EXPECT_TRUE(state.chains.at("c").stopped.empty());
    SystemState again;
    again.fold(Record{0, from_epoch_ms(2), to_record(state.snapshot())});
    EXPECT_EQ(again, state);
    state.forget_chains_before(from_epoch_ms(5));
    EXPECT_TRUE(state.chains.empty());
}

}  // namespace
}  // namespace rouse
