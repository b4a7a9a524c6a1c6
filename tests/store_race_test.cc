// Many threads on one store of real files: writers, readers, deletions, checkpoints. For TSan above
// all.

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <latch>
#include <thread>

#include "base/id_source.h"
#include "base/limits.h"
#include "domain/session_rules.h"
#include "store/files/file_store.h"
#include "store/files/verify.h"
#include "testing/forwarding_fs.h"

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

    static MessageUser some_words(IdSource& ids, std::size_t letters) {
        return {ids.make<MessageId>(), text_content(std::string(letters, 'x')), false, {}};
    }
    // Makes the log a long one, of so many lines more.
    static constexpr Seq kMuch = 40;
    static void say_much(FileStore& store, IdSource& ids, const SessionId& id) {
        for (Seq i = 0; i < kMuch; ++i) {
            const MessageUser words = some_words(ids, limits::kLongLog / kMuch);
            EXPECT_TRUE(store.commit_and_wait(make_commit(id, std::nullopt, {words})));
        }
    }

    SystemClock clock_;
    SystemRandom random_;
    RealFs fs_;
    Logger log_{LogLevel::off};
    Env env_{clock_, random_, fs_, log_};
    std::string directory_;
};

// A file system whose reads of one file wait until they are let go.
class HoldingFs final : public testing::ForwardingFs {
 public:
    using ForwardingFs::ForwardingFs;
    Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
        Result<std::unique_ptr<File>> file = ForwardingFs::open(path, mode);
        if (!file || mode != OpenMode::read || held.empty() || !path.contains(held)) return file;
        return std::make_unique<HeldFile>(*std::move(file), *this);
    }
    std::string held;
    std::latch reads{1};
    std::latch let_go{1};

 private:
    class HeldFile final : public testing::ForwardingFile {
     public:
        HeldFile(std::unique_ptr<File> file, HoldingFs& fs)
            : ForwardingFile(std::move(file)), fs_(fs) {}
        Result<std::size_t> read_some_at(std::uint64_t offset, std::span<char> into) override {
            if (!waited_) fs_.reads.count_down();
            waited_ = true;
            fs_.let_go.wait();
            return ForwardingFile::read_some_at(offset, into);
        }

     private:
        HoldingFs& fs_;
        bool waited_ = false;
    };
};

TEST_F(StoreRaceTest, NobodyWaitsForALongLogThatSomebodyReads) {
    IdSource ids(clock_, random_);
    SessionId id;
    {
        auto store = open();
        id = create(*store, ids);
        say_much(*store, ids, id);
        ASSERT_TRUE(store->close());
    }
    HoldingFs held(fs_);
    Result<std::unique_ptr<FileStore>> opened =
        FileStore::open({clock_, random_, held, log_}, directory_);
    ASSERT_TRUE(opened);
    FileStore& store = **opened;
    EXPECT_TRUE(store.loads_slowly(id));
    held.held = id.text();
    auto loads = std::async(std::launch::async, [&] { return store.load(id); });
    held.reads.wait();
    const SessionId other = create(store, ids);
    EXPECT_EQ((*store.load(other))->last_seq, 1U);
    EXPECT_EQ(store.list({}).size(), 2U);
    held.let_go.count_down();
    EXPECT_EQ((*loads.get())->last_seq, kMuch + 1);
    EXPECT_FALSE(store.loads_slowly(id));
}

TEST_F(StoreRaceTest, ALogThatLeavesItsPackWhileItIsReadIsReadWhereItWent) {
    IdSource ids(clock_, random_);
    HoldingFs held(fs_);
    FileStoreOptions options;
    options.threads = FileStoreOptions::Threads::none;
    options.open_logs = 1;
    Result<std::unique_ptr<FileStore>> opened =
        FileStore::open({clock_, random_, held, log_}, directory_, options);
    ASSERT_TRUE(opened);
    FileStore& store = **opened;
    const SessionId id = create(store, ids);
    for (int other = 0; other < 3; ++other)
        (void)create(store, ids);
    const std::filesystem::path own = directory_ + "/sessions/" + id.text() + ".messages.jsonl";
    ASSERT_FALSE(std::filesystem::exists(own));

    held.held = "/packs/";
    auto reads = std::async(std::launch::async, [&] { return store.read(id, 1, 10); });
    held.reads.wait();
    held.held.clear();
    EXPECT_TRUE(store.commit_and_wait(make_commit(id, 1, {some_words(ids, 10)})));
    EXPECT_TRUE(store.checkpoint());
    EXPECT_TRUE(std::filesystem::exists(own));
    held.let_go.count_down();
    const Result<std::vector<std::string>> lines = reads.get();
    ASSERT_TRUE(lines) << lines.error().message;
    ASSERT_EQ(lines->size(), 2U);
    EXPECT_TRUE(parse_record(lines->front()));
}

TEST_F(StoreRaceTest, ALongLogIsLoadedWhileItGrowsAndGoes) {
    IdSource ids(clock_, random_);
    constexpr int kRounds = 6;
    std::vector<SessionId> logs;
    {
        auto store = open();
        for (int i = 0; i < kRounds; ++i) {
            logs.push_back(create(*store, ids));
            say_much(*store, ids, logs.back());
        }
        ASSERT_TRUE(store->close());
    }
    const auto store = open();
    for (int round = 0; round < kRounds; ++round) {
        const SessionId& id = logs[static_cast<std::size_t>(round)];
        const bool goes = round % 2 == 1;
        std::latch begin(4);
        std::vector<std::thread> readers;
        for (int reader = 0; reader < 3; ++reader) {
            readers.emplace_back([&] {
                begin.arrive_and_wait();
                for (Seq seen = 0;;) {
                    const auto state = store->load(id);
                    if (!state) {
                        EXPECT_EQ(state.error().reason, "session_gone");
                        return;
                    }
                    EXPECT_GE((*state)->last_seq, std::max<Seq>(seen, kMuch + 1));
                    seen = (*state)->last_seq;
                    if (!goes && seen == kMuch + 2) return;
                }
            });
        }
        begin.arrive_and_wait();
        const Records last = goes ? Records{SessionDeleted{id}} : Records{some_words(ids, 10)};
        EXPECT_TRUE(store->commit_and_wait(make_commit(id, std::nullopt, last)));
        for (std::thread& reader : readers)
            reader.join();
    }
    EXPECT_TRUE(store->health().damaged.empty());
    ASSERT_TRUE(store->close());
    const auto report = verify(env_, directory_, VerifyMode::look);
    EXPECT_TRUE(report && report->clean());
}

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
