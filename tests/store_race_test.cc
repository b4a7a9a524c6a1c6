// Many threads on one store of real files: writers, readers, deletions, checkpoints. For TSan above
// all.

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <thread>

#include "base/id_source.h"
#include "domain/session_rules.h"
#include "store/files/file_store.h"
#include "store/files/verify.h"

namespace rouse {
namespace {

class StoreRaceTest : public ::testing::Test {
 protected:
    StoreRaceTest() {
        std::string name = (std::filesystem::temp_directory_path() / "rouse-race-XXXXXX").string();
        EXPECT_NE(::mkdtemp(name.data()), nullptr);
        directory_ = name;
    }
    ~StoreRaceTest() override { std::filesystem::remove_all(directory_); }

    std::unique_ptr<FileStore> open(FileStoreOptions options = {}) {
        options.segment_bytes = 256 << 10;
        options.checkpoint_bytes = 128 << 10;
        options.open_logs = 8;
        options.tail_bytes = 32 << 10;
        options.reserve_bytes = 4 << 10;
        options.cache_bytes = 64 << 10;
        options.journal_kept = Milliseconds(0);
        Result<std::unique_ptr<FileStore>> store = FileStore::open(env_, directory_, options);
        EXPECT_TRUE(store) << (store ? "" : store.error().message);
        return *std::move(store);
    }

    // A session of one record.
    static SessionId create(FileStore& store, IdSource& ids) {
        SessionCreated created;
        created.id = ids.make<SessionId>();
        EXPECT_TRUE(store.commit_and_wait(make_commit(created.id, 0, {created})));
        return created.id;
    }

    SystemClock clock_;
    SystemRandom random_;
    RealFs fs_;
    Logger log_{LogLevel::off};
    Env env_{clock_, random_, fs_, log_};
    std::string directory_;
};

TEST_F(StoreRaceTest, NothingFollowsADeletionThatIsOnItsWayToTheDisk) {
    auto store = open();
    IdSource ids(clock_, random_);
    const SessionId id = create(*store, ids);
    Records removed = plan_delete(**store->load(id))->session;
    removed.emplace_back(SessionUpdated{});  // the deletion need not be the last word
    std::vector<std::future<Result<Committed>>> ends;
    {
        const Store::Hold together(*store, Store::Writer::store);
        for (const Records& records : {removed, Records{SessionUpdated{}}}) {
            std::promise<Result<Committed>> promise;
            ends.push_back(promise.get_future());
            store->commit(make_commit(id, std::nullopt, records),
                          [promise = std::move(promise)](Result<Committed> done) mutable {
                              promise.set_value(std::move(done));
                          });
        }
    }
    EXPECT_TRUE(ends.front().get());
    const Result<Committed> refused = ends.back().get();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().reason, "session_gone");
    EXPECT_EQ(store->load(id).error().reason, "session_gone");
}

TEST_F(StoreRaceTest, HeldCommitsGoToTheDiskTogetherWhenTheyAreLetGo) {  // W2
    auto store = open();
    IdSource ids(clock_, random_);
    for (const Store::Writer writer : {Store::Writer::store, Store::Writer::holder}) {
        std::vector<SessionId> made;
        std::vector<std::promise<Cursor>> promises(2);
        std::vector<std::future<Cursor>> cursors;
        {
            const Store::Hold hold(*store, writer);
            for (std::promise<Cursor>& promise : promises) {
                SessionCreated created;
                created.id = made.emplace_back(ids.make<SessionId>());
                cursors.push_back(promise.get_future());
                store->commit(make_commit(created.id, 0, {created}), [&](Result<Committed> done) {
                    promise.set_value(done ? done->cursor : Cursor{});
                });
            }
            for (const SessionId& id : made)
                EXPECT_EQ(store->last_seq(id).error().reason, "unknown_session");
        }
        const Cursor first = cursors[0].get();
        const Cursor second = cursors[1].get();
        EXPECT_GT(first.epoch, 0U);
        EXPECT_EQ(first.group, second.group);
        EXPECT_LT(first.index, second.index);
        for (const SessionId& id : made)
            EXPECT_EQ(*store->last_seq(id), 1U);
    }
}

TEST_F(StoreRaceTest, WhatWasLetGoIsWrittenThoughTheStoreIsHeldAgain) {
    auto store = open();
    IdSource ids(clock_, random_);
    constexpr int kRounds = 200;
    for (int i = 0; i < kRounds; ++i) {
        SessionCreated created;
        created.id = ids.make<SessionId>();
        std::promise<bool> promise;
        std::future<bool> written = promise.get_future();
        std::optional<Store::Hold> hold(std::in_place, *store, Store::Writer::store);
        store->commit(make_commit(created.id, 0, {created}),
                      [promise = std::move(promise)](const Result<Committed>& done) mutable {
                          promise.set_value(done.has_value());
                      });
        hold.reset();
        const Store::Hold again(*store, Store::Writer::store);
        EXPECT_TRUE(written.get());
    }
}

TEST_F(StoreRaceTest, WhatIsCollectedGoesToTheDiskInGroupsOfBoundedLength) {
    auto store = open();
    IdSource ids(clock_, random_);
    const SessionId id = create(*store, ids);
    constexpr std::size_t kBatch = (256U << 10U) * 3 / 4;  // of a segment, as open() makes them
    constexpr std::size_t kCommits = 5;
    std::vector<std::future<Cursor>> cursors;
    {
        const Store::Hold hold(*store, Store::Writer::store);
        for (std::size_t i = 0; i < kCommits; ++i) {
            std::promise<Cursor> promise;
            cursors.push_back(promise.get_future());
            const MessageUser message{
                ids.make<MessageId>(), text_content(std::string(kBatch * 3 / 8, 'x')), false, {}};
            store->commit(make_commit(id, std::nullopt, {message}),
                          [promise = std::move(promise)](const Result<Committed>& done) mutable {
                              promise.set_value(done ? done->cursor : Cursor{});
                          });
        }
    }
    std::vector<std::uint64_t> groups;
    for (std::future<Cursor>& cursor : cursors)
        groups.push_back(cursor.get().group);
    const std::uint64_t first = groups.front();
    EXPECT_EQ(groups, (std::vector{first, first, first + 1, first + 1, first + 2}));
    EXPECT_EQ(*store->last_seq(id), kCommits + 1);
}

TEST_F(StoreRaceTest, AStoreThatIsHeldWithNothingToWriteCanBeClosed) {
    auto store = open();
    IdSource ids(clock_, random_);
    const SessionId id = create(*store, ids);
    std::optional<Store::Hold> hold(std::in_place, *store, Store::Writer::store);
    std::thread closing([&] { EXPECT_TRUE(store->close()); });
    // Once it refuses, it is closing and waits for whoever holds it.
    for (bool refused = false; !refused;) {
        const MessageUser message{ids.make<MessageId>(), text_content("hello"), false, {}};
        const Result<Committed> done =
            store->commit_and_wait(make_commit(id, std::nullopt, {message}));
        refused = !done && done.error().reason == "store_closed";
    }
    hold.reset();
    closing.join();
}

TEST_F(StoreRaceTest, WritersReadersDeletionsAndCheckpointsDoNotDisturbOneAnother) {
    constexpr int kWriters = 6;
    constexpr int kTurns = 60;
    auto store = open();
    std::atomic<std::uint64_t> heard = 0;
    store->listen({[&](const CommittedLines& lines) { heard += lines.parts.size(); }});
    std::atomic<std::uint64_t> appended = 0;
    std::atomic<int> failures = 0;
    std::atomic<bool> done = false;
    SessionCreated shared;
    shared.id = IdSource(clock_, random_).make<SessionId>();
    ASSERT_TRUE(store->commit_and_wait(make_commit(shared.id, 0, {shared})));
    ++appended;

    const auto write = [&] {
        IdSource ids(clock_, random_);
        for (int turn = 0; turn < kTurns; ++turn) {
            SessionCreated own;
            own.id = ids.make<SessionId>();
            const MessageUser message{ids.make<MessageId>(), text_content("hello"), false, {}};
            Commit commit = make_commit(own.id, 0, {own, message});
            commit.appends.push_back({shared.id, std::nullopt, {message}});
            if (!store->commit_and_wait(std::move(commit))) ++failures;
            appended += 2;
            const auto state = store->load(own.id);
            if (!state || (*state)->last_seq != 2) ++failures;
            if (turn % 3 != 0) continue;
            const Result<DeletePlan> plan = plan_delete(**state);
            Commit gone = make_commit(own.id, 2, plan->session);
            gone.appends.push_back({system_log(), std::nullopt, plan->system});
            if (!store->commit_and_wait(std::move(gone))) ++failures;
            appended += 2;
        }
    };
    const auto read = [&] {
        while (!done) {
            for (const SessionSummary& row : store->list({})) {
                const auto lines = store->read(row.id, 1, 1000);
                if (!lines && lines.error().reason != "session_gone" &&
                    lines.error().kind != ErrorKind::not_found) {
                    ++failures;
                }
            }
            (void)store->pending({});
            (void)store->read_commits({}, 10);
            (void)store->health();
        }
    };
    const auto checkpoint = [&] {
        while (!done) {
            if (!store->checkpoint()) ++failures;
        }
    };
    std::vector<std::thread> writers;
    writers.reserve(kWriters);
    for (int i = 0; i < kWriters; ++i)
        writers.emplace_back(write);
    std::thread reader(read);
    std::thread house(checkpoint);
    for (std::thread& writer : writers)
        writer.join();
    done = true;
    reader.join();
    house.join();

    EXPECT_EQ(failures, 0);
    EXPECT_EQ(heard, appended);
    EXPECT_EQ((*store->load(shared.id))->last_seq, 1U + kWriters * kTurns);
    ASSERT_TRUE(store->close());
    const Result<VerifyReport> report = verify(env_, directory_, VerifyMode::look);
    ASSERT_TRUE(report);
    for (const Finding& finding : report->findings)
        ADD_FAILURE() << finding.file << finding.what;
    EXPECT_EQ((*open()->load(shared.id))->last_seq, 1U + kWriters * kTurns);
}

// P3 at the store: of many commits that expect the same end, one wins.
TEST_F(StoreRaceTest, OfManyCommitsThatExpectTheSameEndOneWins) {
    constexpr int kRounds = 200;
    constexpr int kRacers = 4;
    auto store = open();
    IdSource ids(clock_, random_);
    SessionCreated created;
    created.id = ids.make<SessionId>();
    ASSERT_TRUE(store->commit_and_wait(make_commit(created.id, 0, {created})));
    for (Seq round = 1; round <= kRounds; ++round) {
        std::atomic<int> won = 0;
        std::atomic<int> answered = 0;
        std::vector<std::thread> racers;
        racers.reserve(kRacers);
        for (int i = 0; i < kRacers; ++i) {
            racers.emplace_back([&] {
                const MessageUser message{MessageId("msg_1"), text_content("mine"), false, {}};
                const Result<Committed> result =
                    store->commit_and_wait(make_commit(created.id, round, {message}));
                if (result) ++won;
                if (result || result.error().reason == "log_moved") ++answered;
            });
        }
        for (std::thread& racer : racers)
            racer.join();
        ASSERT_EQ(won, 1);
        ASSERT_EQ(answered, kRacers);
    }
}

TEST_F(StoreRaceTest, ABurstIsClearedAwayThoughItsLastCheckpointCameAtItsEnd) {
    std::promise<void> promise;
    std::future<void> rests = promise.get_future();
    FileStoreOptions options;
    options.on_rest = [&, told = false]() mutable {
        if (!std::exchange(told, true)) promise.set_value();
    };
    auto store = open(std::move(options));
    IdSource ids(clock_, random_);
    SessionCreated created;
    created.id = ids.make<SessionId>();
    ASSERT_TRUE(store->commit_and_wait(make_commit(created.id, 0, {created})));
    for (int i = 0; i < 100; ++i) {
        const MessageUser message{
            ids.make<MessageId>(), text_content(std::string(1000, 'x')), false, {}};
        ASSERT_TRUE(store->commit_and_wait(make_commit(created.id, std::nullopt, {message})));
    }
    ASSERT_TRUE(store->checkpoint());
    EXPECT_EQ(rests.wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

}  // namespace
}  // namespace rouse
