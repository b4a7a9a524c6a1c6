// A durable session whose log somebody else writes to in the middle of a turn.

#include <gtest/gtest.h>

#include "base/env.h"
#include "domain/audit.h"
#include "domain/run_rules.h"
#include "rouse/durable_sessions.h"
#include "store/memory/memory_store.h"
#include "testing/agent_kit.h"
#include "testing/forwarding_store.h"
#include "testing/manual_clock.h"
#include "testing/seeded_random.h"

namespace rouse {
namespace {

using namespace testing;

const SessionId kSession("sess_shared");
const RunId kRivalsRun("run_rival");
constexpr std::size_t kBegin = 3;  // the commit that begins the turn, behind the two of the boot

// Right before the n-th commit, somebody else commits to the same log.
class RivalStore final : public ForwardingStore {
 public:
    using Rival = std::function<Records(const SessionState&)>;
    RivalStore(Store& store, std::size_t before, Rival rival)
        : ForwardingStore(store), before_(before), rival_(std::move(rival)) {}

    void commit(Commit commit, CommitDone done) override {
        if (++commits_ == before_) {
            const auto state = inner_.load(kSession);
            EXPECT_TRUE(state);
            EXPECT_TRUE(
                inner_.commit_and_wait(make_commit(kSession, std::nullopt, rival_(**state))));
        }
        inner_.commit(std::move(commit), std::move(done));
    }
    std::size_t commits() const { return commits_; }

 private:
    std::size_t before_;
    Rival rival_;
    std::size_t commits_ = 0;
};

class RivalTest : public ::testing::Test {
 protected:
    RivalTest() {
        SessionCreated created;
        created.id = kSession;
        EXPECT_TRUE(disk_.commit_and_wait(make_commit(kSession, 0, {created})));
    }

    // One turn with a suspension, and how it went.
    TurnResult play(const std::shared_ptr<RivalStore>& store) {
        const auto sessions = DurableSessions::open(env_, store);
        const auto session = (*sessions)->get(kSession);
        const Counted deploy = suspending("deploy");
        const Counted write = answering("write", "written");
        ScriptEntry ends = says("done: {{result}}");
        ends.when.tool_result = "deploy";
        ends.repeat = true;
        ScriptEntry begins = calls({{"a", "write"}, {"b", "deploy"}});
        begins.repeat = true;
        Agent agent({.model = std::make_shared<WatchedModel>(std::vector{ends, begins}),
                     .tools = {deploy.tool, write.tool}});
        const TurnResult first = agent.respond_and_wait(message("go", *session));
        if (!first) return first;
        return agent.respond_and_wait(answer(*session, {result_for("b", "v1")}));
    }

    std::vector<Record> audited() {
        const auto records = read_records(disk_, kSession);
        LogAudit audit(kSession);
        for (const Record& record : *records)
            EXPECT_EQ(audit.check(record), std::nullopt);
        return *records;
    }

    ManualClock clock_;
    SeededRandom random_{5};
    RealFs fs_;
    Logger log_{LogLevel::off};
    Env env_{clock_, random_, fs_, log_};
    MemoryStore disk_{clock_};
};

TEST_F(RivalTest, AnInnocentAppendBeforeAnyCommitDoesNotDisturbTheTurn) {
    constexpr std::size_t kNever = 1'000'000;
    const auto rename = [](const SessionState&) {
        SessionUpdated renamed;
        renamed.title = "renamed";
        return Records{renamed};
    };
    const auto calm = std::make_shared<RivalStore>(disk_, kNever, rename);
    ASSERT_TRUE(play(calm));
    for (std::size_t before = kBegin; before <= calm->commits(); ++before) {
        const auto store = std::make_shared<RivalStore>(disk_, before, rename);
        const TurnResult done = play(store);
        ASSERT_TRUE(done) << "before commit " << before << ": " << done.error().message;
        EXPECT_EQ(done->text(), "done: v1");
        audited();
    }
    EXPECT_EQ((*disk_.load(kSession))->title, "renamed");
}

TEST_F(RivalTest, ATurnThatSomebodyElseBeganFirstIsLeftAlone) {
    const auto begin = [](const SessionState& state) {
        MessageCommand command;
        command.message = {MessageId("msg_rival"), text_content("me first"), false, {}};
        command.new_run = kRivalsRun;
        command.boot = BootId("boot_rival");
        return plan_message(state, command)->records;
    };
    const TurnResult done = play(std::make_shared<RivalStore>(disk_, kBegin, begin));
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().reason, "interrupted_turn");
    const auto state = disk_.load(kSession);
    EXPECT_TRUE((*state)->run_is_open());
    EXPECT_EQ((*state)->run->run_id, kRivalsRun);
    for (const Record& record : audited()) {
        const auto* started = std::get_if<RunStarted>(&record.body);
        EXPECT_TRUE(started == nullptr || started->run_id == kRivalsRun);
    }
}

}  // namespace
}  // namespace rouse
