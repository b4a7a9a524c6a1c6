// What the state of a session is, and how it looks as a snapshot.

#include "domain/state.h"

#include <gtest/gtest.h>

#include <limits>

#include "domain/fold.h"
#include "domain/history.h"
#include "domain/summary.h"
#include "testing/session_driver.h"

namespace rouse {
namespace {

using testing::CallSpec;
using testing::SessionDriver;
using namespace std::chrono_literals;

const Timestamp kAt = *parse_rfc3339("2026-02-21T09:30:00Z");
const RunId kRun("run_9f5");
const BootId kBoot("boot_20260221_1");
const WaitId kWait("wait_7");
const TokenId kToken("rt_5f0");

SessionState fold_all(const Records& records) {
    SessionState state;
    for (const RecordBody& body : records) {
        fold(state, Record{state.last_seq + 1, kAt + state.last_seq * 1s, body});
    }
    return state;
}

Records started() {
    SessionCreated created;
    created.id = SessionId("sess_123");
    created.title = "Deploy";
    created.working_dir = "/srv/app";
    created.provider.type = "anthropic";
    created.provider.model = "large";
    return {created, MessageUser{MessageId("msg_u1"), text_content("Go"), false, {}},
            RunStarted{kRun, kBoot, {}, {}}};
}

// ---- the snapshot ----------------------------------------------------------------------------

// S3-10 S3-11 S3-12 S3-13 S3-14 S3-16
TEST(StateTest, SnapshotOfARunningSession) {
    EXPECT_EQ(to_json(fold_all(started())),
              R"({"id":"sess_123","title":"Deploy","working_dir":"/srv/app",)"
              R"("provider":{"type":"anthropic","model":"large"},)"
              R"("created_at":"2026-02-21T09:30:00.000Z","updated_at":"2026-02-21T09:30:02.000Z",)"
              R"("last_seq":3,)"
              R"("run":{"run_id":"run_9f5","boot_id":"boot_20260221_1",)"
              R"("started_at":"2026-02-21T09:30:02.000Z","ended_at":null,"wait":null},)"
              R"("recovery":{"last_boot_seen":"boot_20260221_1","interruption":null}})");
}

// S3-15, S3-43: the wait block, and the token's entry with nothing but a hash.
TEST(StateTest, SnapshotOfAWaitingSession) {
    Records records = started();
    PendingCreated call;
    call.pending_id = PendingId("pnd_123_X");
    call.run_id = kRun;
    call.call_id = CallId{"call_1"};
    call.tool = "deploy";
    records.emplace_back(call);
    records.emplace_back(
        TokenMinted{kToken, "c0ffee", kRun, kWait, WaitKind::tool_result, kAt + 1h, {}});
    records.emplace_back(RunWaiting{kRun, kWait, WaitKind::tool_result, kToken, kAt + 1h, {}, {}});
    const std::string snapshot = to_json(fold_all(records));
    for (const std::string_view part :
         {R"("ended_at":null,"wait":{"wait_id":"wait_7","kind":"tool_result","since_seq":6,)"
          R"("resume_token_id":"rt_5f0","deadline_at":"2026-02-21T10:30:00.000Z"}})",
          R"("pending":[{"pending_id":"pnd_123_X","run_id":"run_9f5","call_id":"call_1",)"
          R"("tool":"deploy","status":"waiting","waits_for":"external",)"
          R"("created_at":"2026-02-21T09:30:03.000Z"}])",
          R"("tokens":[{"token_id":"rt_5f0","hash":"c0ffee","run_id":"run_9f5",)"
          R"("wait_id":"wait_7","wait_kind":"tool_result",)"
          R"("expires_at":"2026-02-21T10:30:00.000Z","status":"active"}])"}) {
        EXPECT_NE(snapshot.find(part), std::string::npos) << part << "\nin\n" << snapshot;
    }
}

TEST(StateTest, SnapshotOfAWaitWithoutDeadlineSaysNull) {
    Records records = started();
    records.emplace_back(RunWaiting{kRun, kWait, WaitKind::person, kToken, std::nullopt, {}, {}});
    EXPECT_NE(to_json(fold_all(records)).find(R"("resume_token_id":"rt_5f0","deadline_at":null)"),
              std::string::npos);
}

// S3-16 with an interruption; S3-14 with an end.
TEST(StateTest, SnapshotOfAnInterruptedSession) {
    Records records = started();
    records.emplace_back(RunInterrupted{kRun, InterruptReason::process_restart, true, {}});
    const std::string snapshot = to_json(fold_all(records));
    for (const std::string_view part :
         {R"("ended_at":"2026-02-21T09:30:03.000Z","outcome":"interrupted")",
          R"("interruption":{"run_id":"run_9f5","reason":"process_restart",)"
          R"("at":"2026-02-21T09:30:03.000Z","while":"running","exhausted":true})"}) {
        EXPECT_NE(snapshot.find(part), std::string::npos) << part << "\nin\n" << snapshot;
    }
}

TEST(StateTest, ABrokenSnapshotIsCorrupt) {
    const std::string good = to_json(fold_all(started()));
    for (std::size_t length = 0; length < good.size(); ++length) {
        const Result<SessionState> state =
            from_json<SessionState>(std::string_view(good).substr(0, length), "snapshot");
        ASSERT_FALSE(state) << length;
        EXPECT_EQ(state.error().kind, ErrorKind::corrupt);
    }
}

// ---- the fold --------------------------------------------------------------------------------

// Information for readers is never read back as truth (S3-22, S3-27), nor is what we do not know.
TEST(StateTest, SomeRecordsChangeNothingButTheSeq) {
    const SessionState before = fold_all(started());
    for (const RecordBody& body : std::vector<RecordBody>{
             StatusDerived{SessionStatus::interrupted_waiting, {}},
             ContextRepaired{kRun, {"message 2: it was empty and was left out"}, {}},
             UnknownRecord{"executor.ready", {",\"run_id\":\"run_9f5\""}},
             RunCompleted{RunId("run_other"), {}},  // of another run
             RunWaiting{RunId("run_other"), kWait, WaitKind::person, kToken, {}, {}, {}},
             PendingCompleted{PendingId("pnd_1_2"), CallId{"c"}, text_result("x"), "d", {}},
             TokenConsumed{kToken, kWait, ResumeReason::result, {}, {}}}) {
        SessionState after = before;
        fold(after, Record{4, kAt, body});  // by a clock that was set back (W11)
        EXPECT_EQ(after.last_seq, 4U);
        EXPECT_EQ(after.updated_at, before.updated_at);
        after.last_seq = before.last_seq;
        EXPECT_EQ(after, before) << kind_of(body);
    }
}

TEST(StateTest, WhatWasSettledStaysSettled) {
    SessionDriver driver(1);
    driver.begin({CallSpec{}, CallSpec{}});
    const PendingId id = driver.pending(0);
    const CallId call = driver.state().pending[0].call_id;
    driver.commit(driver.settle(id, text_result("done")));
    const SessionState before = driver.state();
    for (const RecordBody& body : std::vector<RecordBody>{
             PendingFailed{id, call, "late", "digest", {}}, PendingExpired{id, call, "late", {}},
             PendingCancelled{id, call, "cancelled", "late", {}},
             PendingProcessing{id, "worker", driver.now() + 1h, {}},
             PendingWaiting{id, "released", {}, {}, {}, {}, {}, {}},
             PendingProgress{id, Progress{50, "late", {}}, {}}}) {
        SessionState after = before;
        fold(after, Record{before.last_seq + 1, driver.now(), body});
        after.last_seq = before.last_seq;
        EXPECT_EQ(after, before) << kind_of(body);
    }
}

TEST(StateTest, AnEndedTokenStaysAsItEnded) {
    SessionDriver driver(1);
    driver.begin({CallSpec{}});
    driver.commit(driver.rotate_token());
    const SessionState before = driver.state();
    const TokenId id = before.tokens.at(0).token_id;
    ASSERT_EQ(before.tokens.at(0).status, TokenStatus::revoked);
    for (const RecordBody& body : std::vector<RecordBody>{
             TokenConsumed{id, kWait, ResumeReason::result, "digest", {}}, TokenExpired{id, {}}}) {
        SessionState after = before;
        fold(after, Record{before.last_seq + 1, driver.now(), body});
        EXPECT_EQ(after.tokens, before.tokens) << kind_of(body);
    }
}

// What a pending call knows of itself: S0-05 S0-07 S0-08 S0-09 S0-11 S0-12 S0-13 S0-14 S0-15 S0-16
// S0-17 S0-20 S0-21.
TEST(StateTest, APendingCallKeepsWhatItWasCreatedWithAndWhatBecameOfIt) {
    SessionDriver driver(1);
    driver.begin();
    driver.commit(driver.say(1));
    PendingCreated created;
    created.pending_id = PendingId("pnd_1_X");
    created.run_id = driver.state().run->run_id;
    created.call_id = CallId{"call_1"};
    created.message_id = MessageId("msg_1");
    created.part_id = "part_1";
    created.tool = "deploy";
    created.waits_for = WaitsFor::external;
    created.reason = "auth_required";
    created.prompt = "Log in";
    created.metadata = RawJson::trusted("{\"a\":1.0}");
    created.input_digest = "digest";
    created.expires_at = driver.now() + 1h;
    created.webhook_url = "https://ci.example/hook";
    created.webhook_secret_env = "DEPLOY_SECRET";
    driver.commit(Records{created});
    const Timestamp created_at = driver.now();
    driver.clock().advance(1s);
    driver.commit(
        Records{PendingWaiting{created.pending_id, "started", "job-7", 60'000, {}, {}, {}, {}}});

    PendingCall want;
    want.pending_id = created.pending_id;
    want.run_id = created.run_id;
    want.call_id = created.call_id;
    want.message_id = created.message_id;
    want.part_id = "part_1";
    want.tool = "deploy";
    want.status = PendingStatus::waiting;
    want.reason = "auth_required";
    want.prompt = "Log in";
    want.metadata = created.metadata;
    want.input_digest = "digest";
    want.created_at = created_at;
    want.started_at = created_at + 1s;
    want.expires_at = created_at + 1h;
    want.external_ref = "job-7";
    want.estimated_ms = 60'000;
    want.webhook_url = created.webhook_url;
    want.webhook_secret_env = "DEPLOY_SECRET";
    EXPECT_EQ(driver.state().pending.at(0), want);

    driver.clock().advance(1s);
    driver.commit(driver.settle(created.pending_id, CallFailure{"no"}));
    EXPECT_EQ(driver.state().pending.at(0).status, PendingStatus::failed);
    EXPECT_EQ(driver.state().pending.at(0).settled_at, created_at + 2s);
}

TEST(StateTest, UsageIsTheSumOverTheModelSteps) {
    SessionDriver driver(1);
    driver.begin();
    driver.commit(driver.say(0));
    driver.commit(driver.say(0));
    EXPECT_EQ(driver.state().usage.input_tokens, 14);
    EXPECT_EQ(driver.state().usage.output_tokens, 6);
}

// A budget counts from the last time that a person let the run go on, over crashes too.
TEST(StateTest, TokensCountUntilAPersonLetsTheRunGoOn) {
    Records records = started();
    const auto paid = [&] {
        const SessionState state = fold_all(records);
        return std::pair(state.run->unapproved_tokens, state.unapproved_tokens);
    };
    MessageAssistant said{MessageId("msg_a1"), kRun, {}, {}, {}, {}, {}};
    said.usage.input_tokens = 30;
    said.usage.output_tokens = 12;
    said.usage.cache_read_tokens = 1000;
    records.emplace_back(said);
    EXPECT_EQ(paid(), std::pair(42L, 42L));
    const RunId next("run_next");
    records.emplace_back(RunInterrupted{kRun, InterruptReason::process_restart, false, {}});
    records.emplace_back(RunStarted{next, kBoot, kRun, {}});
    EXPECT_EQ(paid(), std::pair(42L, 42L));
    records.emplace_back(said);
    EXPECT_EQ(paid(), std::pair(84L, 84L));
    records.emplace_back(
        RunWaiting{next, kWait, WaitKind::user_input, kToken, {}, "Over budget", {}});
    EXPECT_EQ(fold_all(records).run->wait->prompt, "Over budget");
    records.emplace_back(RunResumed{next, kBoot, kWait, ResumeReason::result, {}});
    EXPECT_EQ(paid(), std::pair(84L, 84L));
    records.emplace_back(RunResumed{next, kBoot, kWait, ResumeReason::input, {}});
    EXPECT_EQ(paid(), std::pair(0L, 0L));
    records.emplace_back(said);
    records.emplace_back(RunCompleted{next, {}});
    records.emplace_back(RunStarted{RunId("run_third"), kBoot, {}, {}});
    EXPECT_EQ(paid(), std::pair(0L, 42L));
    // Nonsense from a provider does not wrap around.
    said.usage.output_tokens = std::numeric_limits<std::int64_t>::max();
    records.emplace_back(said);
    records.emplace_back(said);
    EXPECT_EQ(paid().second, std::numeric_limits<std::int64_t>::max());
}

// The state stays small however long the log grows.
TEST(StateTest, FinishedTurnsLeaveNothingBehind) {
    SessionDriver driver(1);
    driver.begin({CallSpec{}, CallSpec{}});
    std::size_t size = 0;
    for (int turn = 0; turn < 20; ++turn) {
        driver.commit(driver.settle(driver.open_calls().at(0).pending_id, text_result("a")));
        driver.commit(driver.settle(driver.open_calls().at(0).pending_id, text_result("b")));
        driver.commit(driver.say(0));
        driver.commit(driver.complete());
        driver.commit(driver.message());
        driver.commit(driver.say_and_park({CallSpec{}, CallSpec{}}));
        const std::size_t now = to_json(driver.state()).size();
        if (turn == 0) size = now;
        EXPECT_LE(now, size + 16);  // longer numbers
    }
    EXPECT_EQ(driver.state().tokens.size(), 1U);
    EXPECT_EQ(driver.state().pending.size(), 2U);
}

// ---- the index row ---------------------------------------------------------------------------

TEST(SummaryTest, TheEarliestTimeIsDueNext) {
    SessionDriver driver(1);
    driver.commit(driver.create());
    EXPECT_EQ(next_due(summarize(driver.state())), std::nullopt);
    driver.commit(driver.message());
    driver.commit(driver.say_and_park({CallSpec{.timeout = 2h}, CallSpec{.timeout = 5h}}));
    EXPECT_EQ(next_due(summarize(driver.state())), driver.now() + 2h);
    driver.commit(driver.claim(driver.pending(1), "worker", 5min));
    EXPECT_EQ(next_due(summarize(driver.state())), driver.now() + 5min);
    driver.commit(driver.cancel(CancelMode::discard));
    EXPECT_EQ(next_due(summarize(driver.state())), std::nullopt);
}

TEST(SummaryTest, ShowsOpenCallsAndWhatMustBeDriven) {
    SessionDriver driver(1);
    driver.begin({CallSpec{}, CallSpec{.local = true}});
    SessionSummary row = summarize(driver.state());
    EXPECT_EQ(row.pending.size(), 2U);
    EXPECT_EQ(row.wait_kind, WaitKind::external);
    EXPECT_TRUE(row.is_active());
    EXPECT_FALSE(row.redrive);
    EXPECT_TRUE(row.pending[1].local);
    driver.commit(driver.settle(driver.pending(0), text_result("a")));
    EXPECT_EQ(summarize(driver.state()).pending.size(), 1U);
    driver.commit(driver.settle(driver.pending(1), text_result("b")));
    row = summarize(driver.state());
    EXPECT_TRUE(row.pending.empty());
    EXPECT_TRUE(row.redrive);  // accepted, and nothing came of it yet
    EXPECT_EQ(row.wait_kind, std::nullopt);
    driver.commit(driver.say(0));
    EXPECT_FALSE(summarize(driver.state()).redrive);
}

// ---- what only the log remembers -------------------------------------------------------------

TEST(HistoryTest, FindsHowACallEndedHoweverLongAgo) {
    SessionDriver driver(1);
    driver.begin({CallSpec{}});
    const PendingId id = driver.pending(0);
    const PresentedToken token = driver.tokens().back();
    EXPECT_EQ(find_settled_call(driver.log(), id), std::nullopt);  // still open
    driver.commit(driver.settle(id, text_result("done")));
    for (int turn = 0; turn < 3; ++turn) {
        driver.commit(driver.message(OnWaiting::supersede));
        driver.commit(driver.cancel(CancelMode::discard));
        driver.commit(driver.message());
        driver.commit(driver.say_and_park({CallSpec{}}));
    }
    EXPECT_EQ(driver.state().find_pending(id), nullptr);
    EXPECT_EQ(driver.state().find_token(token.token_id), nullptr);
    EXPECT_EQ(find_settled_call(driver.log(), id)->status, PendingStatus::completed);
    EXPECT_EQ(find_past_token(driver.log(), token.token_id)->status, TokenStatus::consumed);
    EXPECT_EQ(find_settled_call(driver.log(), PendingId("pnd_1_2")), std::nullopt);
    EXPECT_EQ(find_past_token(driver.log(), TokenId("rt_x")), std::nullopt);
}

TEST(HistoryTest, FindsAllThatEndedInOneGo) {
    SessionDriver driver(1);
    driver.begin({CallSpec{}, CallSpec{}, CallSpec{}});
    const PendingId first = driver.pending(0);
    const PendingId second = driver.pending(1);
    driver.commit(driver.settle(second, text_result("done")));
    driver.commit(driver.settle(first, CallFailure{"no"}));
    for (int turn = 0; turn < 3; ++turn) {
        driver.commit(driver.message(OnWaiting::supersede));
        driver.commit(driver.cancel(CancelMode::discard));
        driver.commit(driver.message());
        driver.commit(driver.say_and_park({CallSpec{}}));
    }
    const std::vector<PendingCall> found = settled_calls(driver.log());
    std::size_t settled = 0;
    for (const Record& record : driver.log()) {
        const auto* created = std::get_if<PendingCreated>(&record.body);
        if (created != nullptr && find_settled_call(driver.log(), created->pending_id)) ++settled;
    }
    ASSERT_EQ(found.size(), settled);
    for (const PendingCall& call : found)
        EXPECT_EQ(find_settled_call(driver.log(), call.pending_id), call);
    EXPECT_EQ(found[0].pending_id, second);
    EXPECT_EQ(found[1].pending_id, first);
}

}  // namespace
}  // namespace rouse
