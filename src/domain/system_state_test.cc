#include "domain/system_state.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace rouse {
namespace {

Timestamp at(std::int64_t seconds) {
    return from_epoch_ms(seconds * 1000);
}

WebhookQueued queued(const std::string& id) {
    WebhookQueued webhook;
    webhook.delivery_id = id;
    webhook.url = "https://ops.example/hook";
    webhook.type = "session.waiting";
    webhook.session_id = SessionId("sess_1");
    webhook.data = RawJson::trusted("{\"seq\":7}");
    return webhook;
}

void fold(SystemState& state, std::int64_t seconds, RecordBody body) {
    // What is folded has been through a log.
    const std::string line =
        "{\"seq\":1,\"ts\":\"2026-01-01T00:00:00.000Z\"," + render_body(body) + "}";
    Result<Record> record = parse_record(line);
    ASSERT_TRUE(record) << line;
    record->at = at(seconds);
    state.fold(*record);
}

SystemState busy_state() {
    SystemState state;
    fold(state, 1, to_record(TaskSaved{"t1", "Release", TaskState::todo}));
    fold(state, 2, to_record(TaskSaved{"t1", "Release 9", TaskState::in_progress}));
    fold(state, 3, to_record(ApiTokenCreated{"rk_1", "hash", "board", Scope::read, {"t1"}}));
    fold(state, 4,
         to_record(RequestAnswered{"key", "digest", 202, "", RawJson::trusted("{\"a\":1.0}")}));
    fold(state, 5, to_record(queued("msg_b")));
    fold(state, 5, to_record(queued("msg_a")));
    fold(state, 6, to_record(WebhookFailed{"msg_b", 1, "refused", at(11)}));
    fold(state, 7, to_record(BootContinued{BootId("boot_1")}));
    fold(state, 8, to_record(ChildrenLeft{SessionId("sess_p"), RunId("run_p")}));
    return state;
}

TEST(SystemStateTest, ATaskIsWhatItsLastRecordSays) {
    const TaskRow row = busy_state().tasks.at("t1");
    EXPECT_EQ(row.task, (TaskSaved{"t1", "Release 9", TaskState::in_progress}));
    EXPECT_EQ(row.created_at, at(1));
    EXPECT_EQ(row.updated_at, at(2));
}

TEST(SystemStateTest, AChangeOfATaskLeavesTheRestAsItIs) {
    SystemState state = busy_state();
    fold(state, 8, to_record(TaskChanged{"t1", "", {}}));
    fold(state, 9, to_record(TaskChanged{"t1", {}, TaskState::done}));
    fold(state, 10, to_record(TaskChanged{"nobody made it", "x", {}}));
    const TaskRow row = state.tasks.at("t1");
    EXPECT_EQ(row.task, (TaskSaved{"t1", "", TaskState::done}));
    EXPECT_EQ(row.created_at, at(1));
    EXPECT_EQ(row.updated_at, at(9));
    EXPECT_EQ(state.tasks.size(), 1U);
}

// By their ids: a clock may have been set back.
TEST(SystemStateTest, WhatABootLeavesIsLeftUntilALaterOneWentThrough) {
    SystemState state = busy_state();
    EXPECT_FALSE(state.is_left(BootId("boot_0")));
    EXPECT_TRUE(state.is_left(BootId("boot_1")));
    fold(state, 6, BootStarted{BootId("boot_2"), {}, {}});  // dies before it is through
    fold(state, 5, BootStarted{BootId("boot_3"), {}, {}});
    for (const char* boot : {"boot_1", "boot_2", "boot_3"})
        EXPECT_TRUE(state.is_left(BootId(boot))) << boot;
    fold(state, 4, to_record(BootContinued{BootId("boot_3")}));
    EXPECT_FALSE(state.is_left(BootId("boot_1")));
    EXPECT_FALSE(state.is_left(BootId("boot_2")));
    EXPECT_TRUE(state.is_left(BootId("boot_3")));
    EXPECT_TRUE(SystemState().is_left(BootId("boot_1")));  // nobody ever went through anything
}

TEST(SystemStateTest, ChildrenOfADeletedSessionAreKnownUntilABootWentThrough) {
    SystemState state = busy_state();
    EXPECT_EQ(state.children, (std::vector{ChildrenLeft{SessionId("sess_p"), RunId("run_p")}}));
    fold(state, 9, to_record(BootContinued{BootId("boot_2")}));
    EXPECT_TRUE(state.children.empty());
}

TEST(SystemStateTest, WebhooksKeepTheOrderInWhichTheyWereQueued) {
    const SystemState state = busy_state();
    EXPECT_LT(state.deliveries.at("msg_b").order, state.deliveries.at("msg_a").order);
    EXPECT_EQ(state.deliveries.at("msg_b").next_at, at(11));
}

TEST(SystemStateTest, AFailureWithoutANextTimeIsTheLastUntilSomebodyRevivesIt) {
    SystemState state = busy_state();
    fold(state, 8, to_record(WebhookFailed{"msg_b", 10, "refused", {}}));
    EXPECT_TRUE(state.deliveries.at("msg_b").dead);
    fold(state, 9, to_record(WebhookRevived{"msg_b"}));
    EXPECT_FALSE(state.deliveries.at("msg_b").dead);
    EXPECT_EQ(state.deliveries.at("msg_b").attempts, 0U);
    fold(state, 10, to_record(WebhookDelivered{"msg_b"}));
    EXPECT_FALSE(state.deliveries.contains("msg_b"));
}

TEST(SystemStateTest, ARevokedTokenIsGone) {
    SystemState state = busy_state();
    fold(state, 8, to_record(ApiTokenRevoked{"rk_1"}));
    EXPECT_TRUE(state.tokens.empty());
}

TEST(SystemStateTest, AnswersAreForgottenInTime) {
    SystemState state = busy_state();
    state.forget_answers_before(at(4));
    EXPECT_EQ(state.answered.size(), 1U);
    state.forget_answers_before(at(5));
    EXPECT_TRUE(state.answered.empty());
}

// A boot reads from the latest snapshot on: it must hold everything.
TEST(SystemStateTest, ASnapshotIsTheState) {
    const SystemState state = busy_state();
    SystemState restored;
    fold(restored, 99, to_record(TaskSaved{"other", "", TaskState::done}));
    fold(restored, 100, to_record(state.snapshot()));
    EXPECT_EQ(restored, state);
}

TEST(SystemStateTest, OfTooManyAnswersTheLatestAreRemembered) {  // T31
    SystemState state;
    for (int i = 0; i < 10; ++i) {
        RequestAnswered answered;
        answered.key = std::to_string(i);
        state.fold(Record{0, from_epoch_ms(1000 + i / 2), to_record(answered)});  // two a moment
    }
    state.forget_answers_beyond(10);
    EXPECT_EQ(state.answered.size(), 10U);
    state.forget_answers_beyond(6);
    EXPECT_EQ(state.answered.size(), 6U);
    EXPECT_FALSE(state.answered.contains("3"));
    EXPECT_TRUE(state.answered.contains("4"));
    state.forget_answers_beyond(3);  // those of one moment go together
    EXPECT_EQ(state.answered.size(), 2U);
    EXPECT_TRUE(state.answered.contains("9"));
}

TEST(SystemStateTest, DeliveriesAreFoundByTheirOrder) {
    SystemState state;
    for (const char* id : {"msg_a", "msg_b", "msg_c"})
        fold(state, 1, to_record(queued(id)));
    const auto ids_after = [&](std::uint64_t order) {
        std::vector<std::string> ids;
        for (const DeliveryRow& row : state.deliveries_after(order))
            ids.push_back(row.webhook.delivery_id);
        return ids;
    };
    using Ids = std::vector<std::string>;
    EXPECT_EQ(ids_after(0), (Ids{"msg_a", "msg_b", "msg_c"}));
    EXPECT_EQ(ids_after(state.deliveries.at("msg_b").order), Ids{"msg_c"});
    fold(state, 2, to_record(WebhookFailed{"msg_a", 1, "no", at(9)}));
    EXPECT_EQ(ids_after(0).size(), 3U);
    fold(state, 3, to_record(WebhookFailed{"msg_a", 2, "no", {}}));
    EXPECT_EQ(ids_after(0), (Ids{"msg_b", "msg_c"}));
    const std::uint64_t seen = state.last_order;
    fold(state, 4, to_record(WebhookRevived{"msg_a"}));
    EXPECT_EQ(ids_after(seen), Ids{"msg_a"});  // as if it were new
    EXPECT_EQ(state.deliveries.at("msg_a").attempts, 0U);
    EXPECT_TRUE(state.dead.empty());
    fold(state, 5, to_record(WebhookDelivered{"msg_b"}));
    EXPECT_EQ(ids_after(0), (Ids{"msg_c", "msg_a"}));
    EXPECT_EQ(SystemState::of(state.snapshot()), state);
}

TEST(SystemStateTest, OfTooManyDeadWebhooksTheLatestAreKept) {
    SystemState state;
    for (std::size_t i = 0; i < limits::kWebhooksDead + 2; ++i) {
        const std::string id = "msg_" + std::to_string(i);
        state.fold(Record{0, at(1), to_record(queued(id))});
        state.fold(Record{0, at(1), to_record(WebhookFailed{id, 1, "no", {}})});
    }
    EXPECT_EQ(state.dead.size(), limits::kWebhooksDead);
    EXPECT_EQ(state.deliveries.size(), limits::kWebhooksDead);
    EXPECT_FALSE(state.deliveries.contains("msg_1"));
    EXPECT_TRUE(state.deliveries.contains("msg_2"));
}

}  // namespace
}  // namespace rouse
