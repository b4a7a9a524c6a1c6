// The contract that every Store keeps, whatever it is made of.

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/env.h"
#include "base/id_source.h"
#include "domain/fold.h"
#include "domain/session_rules.h"
#include "domain/wait_rules.h"
#include "store/files/file_store.h"
#include "store/memory/memory_store.h"
#include "testing/crashing_fs.h"
#include "testing/manual_clock.h"
#include "testing/seeded_random.h"

namespace rouse {
namespace {

const BootId kBoot("boot_1");

// A store of some kind with everything it stands on.
class Backend {
 public:
    virtual ~Backend() = default;
    virtual Store& store() = 0;

    testing::ManualClock clock;
    testing::SeededRandom random{1};
    Logger log{LogLevel::off};
};

class MemoryBackend final : public Backend {
 public:
    Store& store() override { return store_; }

 private:
    MemoryStore store_{clock};
};

class FilesBackend final : public Backend {
 public:
    explicit FilesBackend(FileStoreOptions::Threads threads) {
        FileStoreOptions options;
        options.threads = threads;
        options.segment_bytes = 64 << 10;
        options.checkpoint_bytes = 48 << 10;
        options.open_logs = 3;
        options.tail_bytes = 16 << 10;
        options.reserve_bytes = 4 << 10;
        store_ = FileStore::open(Env{clock, random, fs_, log}, "/data", options);
    }
    Store& store() override { return **store_; }

 private:
    testing::CrashingFs fs_;
    Result<std::unique_ptr<FileStore>> store_;
};

struct BackendCase {
    std::string name;
    std::function<std::unique_ptr<Backend>()> make;
};

class StoreContractTest : public ::testing::TestWithParam<BackendCase> {
 protected:
    StoreContractTest() : backend_(GetParam().make()), ids_(backend_->clock, backend_->random) {
        backend_->clock.set(from_epoch_ms(1'800'000'000'000));
    }

    Store& store() { return backend_->store(); }
    testing::ManualClock& clock() { return backend_->clock; }

    SessionId create(SessionCreated session = {}) {
        session.id = ids_.make<SessionId>();
        EXPECT_TRUE(commit(session.id, 0, {session}));
        return session.id;
    }
    Result<Committed> commit(const SessionId& id, std::optional<Seq> expected, Records records) {
        return store().commit_and_wait(make_commit(id, expected, std::move(records)));
    }
    MessageUser message(std::string text) {
        return {ids_.make<MessageId>(), text_content(std::move(text)), false, {}};
    }
    // A run that waits for one call until `expires`.
    PendingId park(const SessionId& id, std::optional<Timestamp> expires) {
        const RunId run = ids_.make<RunId>();
        EXPECT_TRUE(commit(id, std::nullopt, {message("go"), RunStarted{run, kBoot, {}, {}}}));
        PendingCreated call;
        call.pending_id = make_pending_id(id, ids_.random_text(20));
        call.call_id = {"call_1"};
        call.run_id = run;
        call.tool = "deploy";
        call.expires_at = expires;
        ParkCommand park;
        park.run_id = run;
        park.wait_id = ids_.make<WaitId>();
        park.token = {ids_.make<TokenId>(), hash_of_secret(ids_.secret())};
        park.calls = {call};
        EXPECT_TRUE(commit(id, std::nullopt, *plan_park(**store().load(id), park)));
        return call.pending_id;
    }

    std::unique_ptr<Backend> backend_;
    IdSource ids_;
};

TEST_P(StoreContractTest, ACommitIsReadBackAsItWasWritten) {
    const SessionId id = create();
    const Result<Committed> committed = commit(id, 1, {message("one"), message("two")});
    ASSERT_TRUE(committed);
    EXPECT_EQ(committed->appends[0].first, 2U);
    EXPECT_EQ(committed->appends[0].last, 3U);
    const auto records = read_records(store(), id);
    ASSERT_TRUE(records);
    ASSERT_EQ(records->size(), 3U);
    for (Seq seq = 1; seq <= 3; ++seq)
        EXPECT_EQ((*records)[seq - 1].seq, seq);  // S3-17
}

TEST_P(StoreContractTest, LoadEqualsTheFoldOfWhatReadGives) {  // W14
    const SessionId id = create();
    park(id, std::nullopt);
    SessionState state;
    const auto records = read_records(store(), id);
    ASSERT_TRUE(records);
    for (const Record& record : *records)
        fold(state, record);
    EXPECT_EQ(state, **store().load(id));
}

TEST_P(StoreContractTest, ALoadedStateDoesNotChangeUnderItsReader) {  // S2-85
    const SessionId id = create();
    const auto before = *store().load(id);
    const Seq seen = before->last_seq;
    ASSERT_TRUE(commit(id, 1, {message("later")}));
    EXPECT_EQ(before->last_seq, seen);
    EXPECT_EQ((*store().load(id))->last_seq, seen + 1);
}

TEST_P(StoreContractTest, AnExpectedEndThatMovedIsAConflictAndWritesNothing) {
    const SessionId id = create();
    ASSERT_TRUE(commit(id, 1, {message("first")}));
    const Result<Committed> late = commit(id, 1, {message("second")});
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().reason, "log_moved");
    EXPECT_EQ(read_records(store(), id)->size(), 2U);
}

TEST_P(StoreContractTest, ACommitOverTwoLogsIsAllOrNothing) {  // P2
    const SessionId a = create();
    const SessionId b = create();
    Commit commit;
    commit.appends.push_back({a, 1, {message("to a")}});
    commit.appends.push_back({b, 7, {message("to b")}});
    EXPECT_EQ(store().commit_and_wait(std::move(commit)).error().reason, "log_moved");
    EXPECT_EQ(read_records(store(), a)->size(), 1U);

    Commit both;
    both.appends.push_back({a, 1, {message("to a")}});
    both.appends.push_back({b, std::nullopt, {message("to b")}});
    ASSERT_TRUE(store().commit_and_wait(std::move(both)));
    EXPECT_EQ(read_records(store(), a)->size(), 2U);
    EXPECT_EQ(read_records(store(), b)->size(), 2U);
}

TEST_P(StoreContractTest, RefusesWhatMakesNoSense) {
    const SessionId id = create();
    const SessionId stranger = ids_.make<SessionId>();
    EXPECT_EQ(commit(id, 1, {}).error().reason, "empty_commit");
    EXPECT_EQ(store().commit_and_wait(Commit{}).error().reason, "empty_commit");
    EXPECT_EQ(commit(stranger, std::nullopt, {message("hello")}).error().reason, "unknown_session");
    EXPECT_EQ(store().load(stranger).error().reason, "unknown_session");
    EXPECT_EQ(store().read(stranger, 1, 10).error().reason, "unknown_session");
    Commit twice;
    twice.appends.push_back({id, std::nullopt, {message("a")}});
    twice.appends.push_back({id, std::nullopt, {message("b")}});
    EXPECT_EQ(store().commit_and_wait(std::move(twice)).error().reason, "duplicate_log");
    EXPECT_EQ(read_records(store(), id)->size(), 1U);
}

TEST_P(StoreContractTest, ADeletedSessionIsGoneAndStaysGone) {
    const SessionId id = create();
    park(id, std::nullopt);
    DeletePlan plan = *plan_delete(**store().load(id));
    Commit commit;
    commit.appends.push_back({id, std::nullopt, plan.session});
    commit.appends.push_back({system_log(), std::nullopt, plan.system});
    ASSERT_TRUE(store().commit_and_wait(std::move(commit)));
    EXPECT_EQ(store().load(id).error().reason, "session_gone");
    EXPECT_EQ(store().read(id, 1, 10).error().reason, "session_gone");
    SessionCreated again;
    again.id = id;
    EXPECT_EQ(this->commit(id, 0, {again}).error().reason, "session_gone");
    EXPECT_TRUE(store().list({}).empty());
    EXPECT_TRUE(store().pending({}).empty());
}

TEST_P(StoreContractTest, ListsNewestFirstInPages) {
    std::vector<SessionId> ids;
    for (int i = 0; i < 7; ++i) {
        clock().advance(Milliseconds(1));
        ids.push_back(create());
    }
    SessionFilter filter;
    filter.limit = 3;
    std::vector<SessionId> seen;
    for (;;) {
        const std::vector<SessionSummary> page = store().list(filter);
        if (page.empty()) break;
        for (const SessionSummary& row : page)
            seen.push_back(row.id);
        filter.before = page.back().id;
    }
    std::ranges::reverse(ids);
    EXPECT_EQ(seen, ids);
}

TEST_P(StoreContractTest, ListsByEachFilter) {
    SessionCreated one;
    one.agent = "helper";
    one.task_id = "task_1";
    one.alias = "ann";
    one.external_id = "ext";
    const SessionId a = create(one);
    const SessionId b = create();
    park(b, clock().now() + Milliseconds(1000));

    const auto only = [&](SessionFilter filter) {
        filter.boot = kBoot;
        filter.now = clock().now();
        std::vector<SessionId> found;
        for (const SessionSummary& row : store().list(filter))
            found.push_back(row.id);
        return found;
    };
    using Ids = std::vector<SessionId>;
    SessionFilter filter;
    filter.agent = "helper";
    EXPECT_EQ(only(filter), Ids{a});
    filter = {};
    filter.task_id = "task_1";
    EXPECT_EQ(only(filter), Ids{a});
    filter = {};
    filter.alias = "ann";
    EXPECT_EQ(only(filter), Ids{a});
    filter = {};
    filter.external_id = "ext";
    EXPECT_EQ(only(filter), Ids{a});
    filter = {};
    filter.suspended = true;  // S2-19
    EXPECT_EQ(only(filter), Ids{b});
    filter.suspended = false;
    EXPECT_EQ(only(filter), Ids{a});
    filter = {};
    filter.status = SessionStatus::waiting;
    EXPECT_EQ(only(filter), Ids{b});
    clock().advance(std::chrono::hours(2));
    EXPECT_EQ(only(filter), Ids{});
    filter.status = SessionStatus::interrupted_waiting;
    EXPECT_EQ(only(filter), Ids{b});
}

TEST_P(StoreContractTest, NamesFollowTheirSessions) {
    using Ids = std::vector<SessionId>;
    const auto named = [&](const std::string& alias) {
        SessionFilter filter;
        filter.alias = alias;
        Ids found;
        for (const SessionSummary& row : store().list(filter))
            found.push_back(row.id);
        return found;
    };
    SessionCreated ann;
    ann.alias = "ann";
    const SessionId before = create(ann);  // known before anybody asks
    EXPECT_EQ(named("ann"), Ids{before});
    const SessionId after = create(ann);
    EXPECT_EQ(named("ann"), (Ids{after, before}));
    SessionUpdated renamed;
    renamed.alias = "bea";
    ASSERT_TRUE(commit(before, std::nullopt, {renamed}));
    EXPECT_EQ(named("ann"), Ids{after});
    EXPECT_EQ(named("bea"), Ids{before});
    for (int i = 0; i < 200; ++i)  // past a checkpoint
        ASSERT_TRUE(commit(after, std::nullopt, {message(std::string(1000, 'x'))}));
    EXPECT_EQ(named("ann"), Ids{after});
    renamed.alias = "ann";  // and back, twice in a row
    ASSERT_TRUE(commit(before, std::nullopt, {renamed, renamed}));
    EXPECT_EQ(named("ann"), (Ids{after, before}));
    EXPECT_EQ(named("bea"), Ids{});
    ASSERT_TRUE(commit(after, std::nullopt, {SessionDeleted{}}));
    EXPECT_EQ(named("ann"), Ids{before});
}

TEST_P(StoreContractTest, ChildrenAreFoundByTheirParent) {
    using Ids = std::vector<SessionId>;
    const auto children_of = [&](const SessionId& parent) {
        SessionFilter filter;
        filter.parent = parent;
        Ids found;
        for (const SessionSummary& row : store().list(filter))
            found.push_back(row.id);
        return found;
    };
    const SessionId parent = create();
    const SessionId childless = create();
    SessionCreated child;
    child.parent.emplace().session_id = parent;
    const SessionId before = create(child);  // known before anybody asks
    EXPECT_EQ(children_of(parent), Ids{before});
    const SessionId after = create(child);
    EXPECT_EQ(children_of(parent), (Ids{after, before}));
    EXPECT_EQ(children_of(childless), Ids{});
    ASSERT_TRUE(commit(before, std::nullopt, {SessionDeleted{}}));
    EXPECT_EQ(children_of(parent), Ids{after});
    ASSERT_TRUE(commit(parent, std::nullopt, {SessionDeleted{}}));
    EXPECT_EQ(children_of(parent), Ids{after});  // it may still have to be stopped
}

TEST_P(StoreContractTest, TheTaskOfADeletedSessionIsKnown) {
    SessionCreated of_task;
    of_task.task_id = "task-1";
    const SessionId gone = create(of_task);
    const SessionId other = create();
    EXPECT_EQ(store().task_of(gone), "task-1");
    EXPECT_EQ(store().task_of(other), "");
    EXPECT_EQ(store().task_of(SessionId("sess_none")), "");
    ASSERT_TRUE(commit(gone, std::nullopt, {SessionDeleted{}}));
    EXPECT_EQ(store().task_of(gone), "task-1");
    for (int i = 0; i < 200; ++i)  // past a checkpoint
        ASSERT_TRUE(commit(other, std::nullopt, {message(std::string(1000, 'x'))}));
    EXPECT_EQ(store().task_of(gone), "task-1");
}

TEST_P(StoreContractTest, FindsOpenPendingCallsBySessionStatusAndExpiry) {  // S0-47 S0-48 S0-49
    const SessionId a = create();
    const SessionId b = create();
    const PendingId soon = park(a, clock().now() + Milliseconds(10));
    const PendingId never = park(b, std::nullopt);

    const auto ids = [&](const PendingFilter& filter) {
        std::vector<PendingId> found;
        for (const OpenPending& one : store().pending(filter)) {
            found.push_back(one.call.pending_id);
        }
        return found;
    };
    using Ids = std::vector<PendingId>;
    EXPECT_EQ(ids({}), (Ids{std::min(soon, never), std::max(soon, never)}));
    PendingFilter filter;
    filter.session = a;
    EXPECT_EQ(ids(filter), Ids{soon});
    filter = {};
    filter.tasks = {"another"};
    EXPECT_EQ(ids(filter), Ids{});
    filter.tasks.push_back((*store().load(a))->task_id);
    EXPECT_EQ(ids(filter).size(), 2U);
    filter = {};
    filter.expires_by = clock().now() + Milliseconds(10);
    EXPECT_EQ(ids(filter), Ids{soon});
    filter = {};
    filter.status = PendingStatus::processing;
    EXPECT_EQ(ids(filter), Ids{});
    ASSERT_TRUE(commit(b, std::nullopt,
                       *plan_claim(**store().load(b), never, "w", clock().now() + Milliseconds(5),
                                   clock().now())));
    EXPECT_EQ(ids(filter), Ids{never});
    const SettlePlan settled =
        *plan_settle(**store().load(a), soon, text_result("done"), kBoot, clock().now());
    ASSERT_TRUE(commit(a, std::nullopt, settled.records));
    EXPECT_EQ(ids({}), Ids{never});
}

TEST_P(StoreContractTest, VisitsExactlyTheSessionsWithAnOpenRun) {
    const SessionId idle = create();
    const SessionId waiting = create();
    park(waiting, std::nullopt);
    std::vector<SessionId> seen;
    store().visit_active([&](const SessionSummary& row) { seen.push_back(row.id); });
    EXPECT_EQ(seen, std::vector<SessionId>{waiting});
}

TEST_P(StoreContractTest, TellsOfEveryCommitInOrderBeforeItsCallback) {
    std::vector<CommittedLines> heard;
    store().listen({[&](const CommittedLines& lines) { heard.push_back(lines); }});
    const SessionId id = create();
    for (int i = 0; i < 5; ++i) {
        ASSERT_TRUE(commit(id, std::nullopt, {message("m")}));
        EXPECT_EQ(heard.size(), static_cast<std::size_t>(i + 2));
    }
    const auto replayed = store().read_commits({}, 100);
    ASSERT_TRUE(replayed);
    ASSERT_EQ(replayed->size(), heard.size());
    for (std::size_t i = 0; i < heard.size(); ++i) {
        EXPECT_EQ((*replayed)[i].cursor, heard[i].cursor);
        EXPECT_EQ((*replayed)[i].parts[0].lines, heard[i].parts[0].lines);
    }
    const auto behind = store().read_commits(heard[2].cursor, 2);
    ASSERT_EQ(behind->size(), 2U);
    EXPECT_EQ((*behind)[0].cursor, heard[3].cursor);
    const Cursor last = heard.back().cursor;
    EXPECT_TRUE(store().read_commits(last, 100)->empty());
    for (const Cursor& ahead :
         {Cursor{last.epoch, last.group + 1, 0}, Cursor{last.epoch + 1, 0, 0}})
        EXPECT_EQ(store().read_commits(ahead, 100).error().reason, "cursor_ahead");
}

TEST_P(StoreContractTest, ReadsNoFurtherThanTheLineThatFillsThePage) {  // P11
    const SessionId id = create();
    const Cursor start = store().read_commits({}, 1)->front().cursor;
    for (int i = 0; i < 4; ++i)
        ASSERT_TRUE(commit(id, std::nullopt, {message(std::string(1000, 'x'))}));
    for (const auto& [bytes, lines] : {std::pair(1, 1), {900, 1}, {1500, 2}, {100'000, 4}}) {
        const ReadLimit limit(100, static_cast<std::size_t>(bytes));
        const auto read = store().read(id, 2, limit);
        ASSERT_TRUE(read);
        EXPECT_EQ(read->size(), static_cast<std::size_t>(lines)) << bytes;
        EXPECT_EQ(limit.is_reached(read->size(), total_bytes(*read)), lines < 4);
        EXPECT_EQ(store().read_commits(start, limit)->size(), read->size()) << bytes;
    }
    EXPECT_EQ(store().read(id, 2, {2, 100'000})->size(), 2U);
}

TEST_P(StoreContractTest, AClockThatGoesBackDoesNotTakeTheLogAlong) {  // W11, T30
    const SessionId id = create();
    clock().advance(std::chrono::hours(-24));
    ASSERT_TRUE(commit(id, 1, {message("earlier?")}));
    const auto records = *read_records(store(), id);
    EXPECT_GE(records[1].at, records[0].at);
}

// For the stores that many threads may call.
class StoreThreadsTest : public StoreContractTest {};

TEST_P(StoreThreadsTest, ManyWritersEachGetTheirOwnSeqWithoutGaps) {  // S2-83 S3-55 S3-72
    constexpr int kThreads = 8;
    constexpr int kEach = 50;
    const SessionId shared = create();
    std::vector<SessionId> own;
    for (int i = 0; i < kThreads; ++i)
        own.push_back(create());
    std::vector<std::thread> threads;
    std::atomic<int> failed = 0;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0; i < kEach; ++i) {
                Commit commit;
                const MessageUser text{
                    MessageId("msg_" + std::to_string(t) + "x" + std::to_string(i)),
                    text_content("x"),
                    false,
                    {}};
                commit.appends.push_back(
                    {own[static_cast<std::size_t>(t)], static_cast<Seq>(i + 1), {text}});
                commit.appends.push_back({shared, std::nullopt, {text}});
                if (!store().commit_and_wait(std::move(commit))) ++failed;
                (void)store().load(shared);
                (void)store().list({});
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(failed, 0);
    const auto records = *read_records(store(), shared);
    ASSERT_EQ(records.size(), 1U + kThreads * kEach);
    for (std::size_t i = 0; i < records.size(); ++i)
        EXPECT_EQ(records[i].seq, i + 1);
}

const BackendCase kMemory{"Memory", [] { return std::make_unique<MemoryBackend>(); }};
const BackendCase kFiles{
    "Files", [] { return std::make_unique<FilesBackend>(FileStoreOptions::Threads::own); }};
const BackendCase kFilesInOneThread{
    "FilesInOneThread",
    [] { return std::make_unique<FilesBackend>(FileStoreOptions::Threads::none); }};

INSTANTIATE_TEST_SUITE_P(Backends, StoreContractTest,
                         ::testing::Values(kMemory, kFiles, kFilesInOneThread),
                         [](const auto& test) { return test.param.name; });
INSTANTIATE_TEST_SUITE_P(Backends, StoreThreadsTest, ::testing::Values(kMemory, kFiles),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace rouse
