#include "runtime/system_log.h"

#include <gtest/gtest.h>

#include "base/limits.h"
#include "store/files/file_store.h"
#include "testing/crashing_fs.h"
#include "testing/forwarding_store.h"
#include "testing/manual_clock.h"
#include "testing/seeded_random.h"

namespace rouse {
namespace {

constexpr const char* kView = "/data/system.json";

RequestAnswered answer_to(std::size_t number, std::size_t bytes) {
    RequestAnswered answered;
    answered.key = "key-" + std::to_string(number);
    answered.body_digest = "digest";
    answered.status = 201;
    answered.answer = RawJson::trusted(to_json_string(std::string(bytes, 'x')));
    return answered;
}

// Notes from where the system log is read.
class WatchedStore final : public testing::ForwardingStore {
 public:
    using ForwardingStore::ForwardingStore;
    Result<std::vector<std::string>> read(const SessionId& log, Seq from,
                                          ReadLimit limit) override {
        if (limit.items > 1) first_read = std::min(first_read, from);
        return inner_.read(log, from, limit);
    }
    std::optional<SystemView> system_view() override { return inner_.system_view(); }
    Result<void> save_system_view(const SystemView& view) override {
        return inner_.save_system_view(view);
    }
    Seq first_read = std::numeric_limits<Seq>::max();
};

class SystemLogTest : public ::testing::Test {
 protected:
    void SetUp() override { boot(); }

    Env env() { return {clock_, random_, fs_, log_}; }

    void boot() {
        system_.reset();
        watched_.reset();
        store_.reset();
        store_ = *FileStore::open(env(), "/data");
        watched_ = std::make_shared<WatchedStore>(*store_);
        system_ = std::make_unique<SystemLog>(env(), watched_);
        ASSERT_TRUE(system_->open());
    }

    void commit(Records records) {
        const Commit commit = make_commit(system_log(), std::nullopt, std::move(records));
        ASSERT_TRUE(store_->commit_and_wait(commit));
        system_->fold(commit);
    }
    void remember(std::size_t answers, std::size_t bytes = 10) {
        constexpr std::size_t kAtOnce = 500;
        Records records;
        for (std::size_t i = 0; i < answers; ++i) {
            records.push_back(to_record(answer_to(next_++, bytes)));
            if (records.size() < kAtOnce && i + 1 < answers) continue;
            commit(std::exchange(records, {}));
        }
    }
    SystemState state() {
        return system_->ask([](const SystemState& state) { return state; });
    }

    testing::ManualClock clock_;
    testing::SeededRandom random_{1};
    testing::CrashingFs fs_;
    Logger log_{LogLevel::off};
    std::unique_ptr<FileStore> store_;
    std::shared_ptr<WatchedStore> watched_;
    std::unique_ptr<SystemLog> system_;
    std::size_t next_ = 0;
};

TEST_F(SystemLogTest, ABootReadsTheViewAndWhatCameAfterIt) {
    remember(limits::kSystemRecordsPerView);
    system_->close();
    const std::optional<SystemView> view = store_->system_view();
    ASSERT_TRUE(view);
    boot();
    remember(7);
    const SystemState before = state();
    boot();
    EXPECT_EQ(state(), before);
    EXPECT_EQ(state().answered.size(), limits::kSystemRecordsPerView + 7);
    EXPECT_EQ(watched_->first_read, view->last_seq + 1);
}

TEST_F(SystemLogTest, AViewIsWrittenWhenAsManyRecordsAreBehindItAsItHasRows) {
    constexpr std::size_t kOnce = limits::kSystemRecordsPerView;
    const auto last_after = [&](std::size_t answers) {
        remember(answers);
        system_->close();
        const Seq last = store_->system_view()->last_seq;
        boot();
        return last;
    };
    const Seq first = last_after(kOnce);
    EXPECT_EQ(last_after(kOnce - 1), first);
    const Seq second = last_after(1);
    EXPECT_GT(second, first);
    EXPECT_EQ(last_after(kOnce), second);
    EXPECT_GT(last_after(kOnce), second);
}

// A snapshot used to be a record, and a server whose state was longer than a commit could not
// start.
TEST_F(SystemLogTest, AStateThatIsLongerThanACommitIsNoObstacle) {
    constexpr std::size_t kBytes = 4000;
    static_assert(kBytes * limits::kSystemRecordsPerView > limits::kCommitBytes);
    remember(limits::kSystemRecordsPerView, kBytes);
    const SystemState before = state();
    boot();
    EXPECT_EQ(state(), before);
    ASSERT_GT(fs_.read_raw(kView)->size(), limits::kCommitBytes);
    boot();
    EXPECT_EQ(state(), before);
}

TEST_F(SystemLogTest, AViewThatIsNotOfThisLogIsNotBelieved) {  // W6
    remember(limits::kSystemRecordsPerView);
    system_->close();
    const SystemState before = state();
    const std::string good = *fs_.read_raw(kView);
    const auto with = [&](std::string_view text, std::string_view other) {
        std::string changed = good;
        changed.replace(changed.find(text), text.size(), other);
        return changed;
    };
    const std::string seq = "\"last_seq\":" + std::to_string(store_->system_view()->last_seq);
    for (const std::string& bad :
         {std::string(), good.substr(0, good.size() / 2), with("\"key\":\"key-", "\"key\":\"kex-"),
          with(seq, "\"last_seq\":3"), with(seq, "\"last_seq\":99999999")}) {
        fs_.write_raw(kView, bad);
        boot();
        EXPECT_EQ(state(), before);
        EXPECT_EQ(watched_->first_read, 1U);
        system_->close();  // it has written another one
        EXPECT_EQ(state(), before);
    }
}

TEST_F(SystemLogTest, AViewOfAnotherFoldIsNotBelieved) {
    remember(limits::kSystemRecordsPerView);
    system_->close();
    const SystemState before = state();
    SystemSnapshot other;
    other.fold = SystemSnapshot::kFold + 1;
    const Seq last = store_->system_view()->last_seq;
    ASSERT_TRUE(store_->save_system_view({last, RawJson::trusted(to_json(other))}));
    boot();
    EXPECT_EQ(state(), before);
    EXPECT_EQ(watched_->first_read, 1U);
}

TEST_F(SystemLogTest, ASnapshotInTheLogIsStillRead) {
    SystemState then;
    then.fold(Record{1, clock_.now(), to_record(answer_to(77, 10))});
    commit({to_record(answer_to(1, 10)), to_record(then.snapshot())});
    remember(1);
    boot();
    EXPECT_EQ(state().answered.size(), 2U);  // the one of the snapshot and the one behind it
    EXPECT_TRUE(state().answered.contains("key-77"));
}

}  // namespace
}  // namespace rouse
