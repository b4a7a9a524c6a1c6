#include "domain/session_rules.h"

#include <gtest/gtest.h>

#include "domain/chain.h"
#include "domain/fold.h"
#include "testing/session_driver.h"

namespace rouse {
namespace {

using testing::CallSpec;
using testing::reason_of;
using testing::SessionDriver;
using namespace std::chrono_literals;

// ---- update ----------------------------------------------------------------------------------

TEST(SessionRulesTest, AnUpdateChangesWhatItNamesAndNothingElse) {
    SessionDriver driver(1);
    driver.begin({CallSpec{}});
    SessionState want = driver.state();
    SessionUpdated update;
    update.title = "";
    update.metadata = *RawJson::parse(R"({"n": 0.10})");
    driver.commit(plan_update(driver.state(), update));
    want.title = "";
    want.metadata = RawJson::trusted(R"({"n":0.10})");
    want.last_seq = driver.state().last_seq;
    EXPECT_EQ(driver.state(), want);
}

TEST(SessionRulesTest, AnUpdateOfNothingIsRefused) {
    SessionDriver driver(1);
    driver.commit(driver.create());
    const Result<Records> plan = plan_update(driver.state(), SessionUpdated{});
    ASSERT_FALSE(plan);
    EXPECT_EQ(plan.error().kind, ErrorKind::invalid);
    EXPECT_EQ(reason_of(plan), "nothing_to_update");
}

// ---- fork ------------------------------------------------------------------------------------

SessionState fold_all(const Records& records, Transcript& transcript) {
    SessionState state;
    for (const RecordBody& body : records) {
        // What is copied must be readable again.
        std::string line;
        Chain chain = Chain::start_of(SessionId("sess_fork"));
        append_line(line, state.last_seq + 1, Timestamp{}, body, chain);
        const Result<Record> parsed =
            parse_record(std::string_view(line).substr(0, line.size() - 1));
        EXPECT_TRUE(parsed) << line;
        if (!parsed) break;
        fold(state, *parsed);
        transcript.fold(*parsed);
    }
    return state;
}

SessionCreated fork_identity() {
    SessionCreated created;
    created.id = SessionId("sess_fork");
    created.title = "Fork";
    return created;
}

// Messages are copied; tokens, calls and the wait stay behind: a fork is not suspended.
TEST(SessionRulesTest, AForkOfASuspendedSessionIsNotSuspended) {
    SessionDriver source(1);
    source.begin({CallSpec{}, CallSpec{}});
    source.commit(source.settle(source.pending(0), text_result("one")));
    const ForkOrigin origin{source.id(), source.state().last_seq};
    Transcript transcript;
    const SessionState fork =
        fold_all(plan_fork(fork_identity(), origin, source.transcript()), transcript);

    EXPECT_EQ(fork.id, SessionId("sess_fork"));
    EXPECT_EQ(fork.forked_from, origin);
    EXPECT_EQ(fork.run, std::nullopt);
    EXPECT_TRUE(fork.pending.empty());
    EXPECT_TRUE(fork.tokens.empty());

    ASSERT_EQ(transcript.entries().size(), source.transcript().entries().size());
    for (std::size_t i = 0; i < transcript.entries().size(); ++i) {
        const TranscriptEntry& copy = transcript.entries()[i];
        const TranscriptEntry& original = source.transcript().entries()[i];
        EXPECT_EQ(copy.role, original.role);
        EXPECT_EQ(copy.message_id, original.message_id);
        EXPECT_EQ(copy.content, original.content);
    }
    const std::vector<ToolPart>& parts = transcript.entries().back().parts;
    EXPECT_EQ(parts.at(0).result, text_result("one"));
    ASSERT_TRUE(parts.at(1).result);
    EXPECT_TRUE(parts.at(1).result->is_error);
    for (const TurnCall& call : fork.calls)
        EXPECT_EQ(call.phase, CallPhase::settled);
}

TEST(SessionRulesTest, AForkOfMailIsReadable) {
    SessionDriver source(1);
    source.begin();
    source.commit(
        Records{InboxPresented{{MessageId("msg_mail")}, {}, "Mail from build:\nred", {}}});
    Transcript transcript;
    fold_all(plan_fork(fork_identity(), {source.id(), 4}, source.transcript()), transcript);
    EXPECT_EQ(transcript.entries().back().content, text_content("Mail from build:\nred"));
    EXPECT_EQ(transcript.entries().back().role, Role::user);
}

// The model is shown of the fork what it was shown of the original.
TEST(SessionRulesTest, AForkOfACompactedSessionIsCompacted) {
    for (std::size_t keep = 0; keep < 3; ++keep) {
        SessionDriver source(1);
        source.begin({CallSpec{}});
        source.commit(source.settle(source.pending(0), text_result("done")));
        source.commit(source.say(0));
        source.commit(source.complete());
        source.commit(source.compact(keep));
        Transcript transcript;
        const ForkOrigin origin{source.id(), source.state().last_seq};
        fold_all(plan_fork(fork_identity(), origin, source.transcript()), transcript);
        EXPECT_EQ(transcript.entries().size(), source.transcript().entries().size());
        EXPECT_EQ(transcript.turn_start(), transcript.entries().size());
        EXPECT_EQ(build_context(transcript, error_result("open")),
                  build_context(source.transcript(), error_result("open")))
            << "keep " << keep;
    }
}

// ---- compact ---------------------------------------------------------------------------------

TEST(SessionRulesTest, CompactHidesTheOldestMessagesFromTheModelAndRemovesNothing) {
    SessionDriver driver(1);
    driver.begin({CallSpec{}});
    driver.commit(driver.settle(driver.pending(0), text_result("done")));
    driver.commit(driver.say(0));
    driver.commit(driver.complete());
    const std::size_t entries = driver.transcript().entries().size();
    ASSERT_EQ(entries, 3U);
    driver.commit(driver.compact(1));
    EXPECT_EQ(driver.transcript().entries().size(), entries);

    const std::vector<Message> context = build_context(driver.transcript(), error_result("open"));
    ASSERT_EQ(context.size(), 2U);
    EXPECT_EQ(context[0].content, text_content("What was said before"));
    EXPECT_EQ(context[0].role, Role::user);
    EXPECT_EQ(context[1].content, driver.transcript().entries().back().content);
}

TEST(SessionRulesTest, CompactNeverPartsACallFromItsResult) {
    for (std::size_t keep = 0; keep < 3; ++keep) {
        SessionDriver driver(1);
        driver.begin({CallSpec{}});
        driver.commit(driver.settle(driver.pending(0), text_result("done")));
        driver.commit(driver.say(0));
        driver.commit(driver.complete());
        driver.commit(driver.compact(keep));
        int uses = 0;
        int results = 0;
        for (const Message& message : build_context(driver.transcript(), error_result("open"))) {
            for (const Block& block : message.content) {
                if (block.get_if<ToolUseBlock>() != nullptr) ++uses;
                if (block.get_if<ToolResultBlock>() != nullptr) ++results;
            }
        }
        EXPECT_EQ(uses, results) << keep;
        EXPECT_EQ(uses, keep == 2 ? 1 : 0) << keep;
    }
}

TEST(SessionRulesTest, CompactRefusesAnOpenTurnAndAShortSession) {
    SessionDriver driver(1);
    driver.begin({CallSpec{}});
    EXPECT_EQ(reason_of(driver.compact(0)), "suspended_session");
    driver.commit(driver.cancel(CancelMode::discard));
    EXPECT_EQ(reason_of(driver.compact(2)), "nothing_to_compact");
    EXPECT_TRUE(driver.compact(1));
}

// ---- delete ----------------------------------------------------------------------------------

TEST(SessionRulesTest, DeletionEndsTheRunAndLeavesATombstone) {
    SessionDriver driver(1);
    driver.begin({CallSpec{}});
    const Result<DeletePlan> plan = plan_delete(driver.state());
    ASSERT_TRUE(plan);
    std::vector<std::string> kinds;
    for (const RecordBody& body : plan->session)
        kinds.emplace_back(kind_of(body));
    EXPECT_EQ(kinds, (std::vector<std::string>{"pending.cancelled", "token.revoked",
                                               "run.cancelled", "session.deleted"}));
    ASSERT_EQ(plan->system.size(), 1U);
    EXPECT_EQ(std::get<SessionDeleted>(plan->system[0]).session_id, driver.id());
    driver.commit(plan->session);
    EXPECT_TRUE(driver.state().deleted);
    EXPECT_EQ(reason_of(plan_delete(driver.state())), "session_gone");
}

// The tombstone of another session does not delete the log that it stands in.
TEST(SessionRulesTest, ATombstoneIsNotTheSystemLogsOwnEnd) {
    SessionState system;
    fold(system, Record{1, Timestamp{}, SessionDeleted{SessionId("sess_1"), {}}});
    EXPECT_FALSE(system.deleted);
}

}  // namespace
}  // namespace rouse
