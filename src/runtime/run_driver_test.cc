#include "runtime/run_driver.h"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <thread>

#include "base/limits.h"
#include "testing/agent_kit.h"
#include "testing/slow_store.h"

namespace rouse {
namespace {

using namespace testing;
using namespace std::chrono_literals;

class Followers final : public Companions {
 public:
    Result<Then> join(const SessionState& after, Commit& /*commit*/) override {
        const Seq last = after.last_seq;
        return Then([this, last] { followed = last; });
    }
    Seq followed = 0;  // how far it was told that the log is durable
};

// One session whose run is in the log; the agent says hello and is done.
class RunDriverTest : public SlowStoreTest {
 protected:
    RunDriverTest() {
        AgentDefinition agent;
        agent.name = "demo";
        agent.agent = std::make_shared<Agent>(
            AgentOptions{.model = std::make_shared<ScriptedModel>(std::vector{says("hello")})});
        Catalogue catalogue;
        catalogue.agents.emplace("demo", agent);
        registry_.replace(std::move(catalogue));
        driver_.set_companions(followers_);
        SessionCreated created;
        created.id = id_;
        created.agent = "demo";
        const Records records = {created,
                                 MessageUser{ids_.make<MessageId>(), text_content("Go"), false, {}},
                                 RunStarted{run_, boot_, {}, {}}};
        EXPECT_TRUE(inner_.commit_and_wait(make_commit(id_, Seq{0}, records)));
        driver_.drive(id_);
        boost::asio::co_spawn(loop_, driver_.wait(id_, run_, 1, 1h, {}),
                              [this](const std::exception_ptr&, Result<SharedReport> report) {
                                  told_ = std::move(report);
                              });
        work();
    }

    SessionId id_ = ids_.make<SessionId>();
    RunId run_ = ids_.make<RunId>();
    Registry registry_;
    Followers followers_;
    RunDriver driver_{
        {env_, store_, boot_, registry_, loop_.get_executor(), 4, {}, [] { return false; }}};
    std::optional<Result<SharedReport>> told_;
};

TEST_F(RunDriverTest, NobodyHearsOfAnEndThatIsNotDurable) {  // P1, W2
    ASSERT_EQ(store_->waiting(), 1U) << "the end of the run";
    EXPECT_FALSE(told_);
    EXPECT_EQ(followers_.followed, 0U) << "what follows from it has begun";
    EXPECT_EQ(driver_.in_flight(), 1U);
    let_go();
    ASSERT_TRUE(told_ && *told_ && **told_);
    EXPECT_EQ((**told_)->status, ReportStatus::completed);
    EXPECT_EQ(followers_.followed, *inner_.last_seq(id_));
    EXPECT_EQ(driver_.in_flight(), 0U);
}

TEST_F(RunDriverTest, AnEndThatIsLostIsNoEnd) {
    ASSERT_EQ(store_->waiting(), 1U);
    store_->lose();
    work();
    EXPECT_EQ(followers_.followed, 0U);
    EXPECT_TRUE((*inner_.load(id_))->run_is_open());
    EXPECT_FALSE(told_) << "the log does not know yet how it ended";
    ASSERT_EQ(store_->waiting(), 1U) << "that it failed";
    store_->lose();
    work();
    ASSERT_TRUE(told_ && *told_ && **told_);
    EXPECT_EQ((**told_)->status, ReportStatus::failed);
    EXPECT_EQ(driver_.in_flight(), 0U) << "driven for ever";
}

TEST_F(RunDriverTest, WhoLosesPatienceIsToldSoAndNobodyElse) {
    std::optional<Result<SharedReport>> impatient;
    boost::asio::co_spawn(loop_, driver_.wait(id_, run_, 1, 0ms, {}),
                          [&](const std::exception_ptr&, Result<SharedReport> report) {
                              impatient = std::move(report);
                          });
    loop_.restart();
    while (!impatient)
        loop_.run_one();
    ASSERT_TRUE(*impatient);
    EXPECT_FALSE(**impatient) << "there is no report yet";
    EXPECT_FALSE(told_);
    let_go();
    ASSERT_TRUE(told_ && *told_ && **told_);
    EXPECT_EQ((**told_)->status, ReportStatus::completed);
}

TEST_F(RunDriverTest, WhoGoesIsNotWaitedForAndNobodyElseGoes) {
    std::stop_source gone;
    std::optional<Result<SharedReport>> left;
    boost::asio::co_spawn(
        loop_, driver_.wait(id_, run_, 1, 1h, gone.get_token()),
        [&](const std::exception_ptr&, Result<SharedReport> report) { left = std::move(report); });
    work();
    EXPECT_FALSE(left);
    std::jthread([&] { gone.request_stop(); }).join();
    work();
    ASSERT_TRUE(left && *left);
    EXPECT_FALSE(**left) << "there is no report yet";
    EXPECT_FALSE(told_);
    let_go();
    ASSERT_TRUE(told_ && *told_ && **told_);
}

TEST_F(RunDriverTest, WhatIsNotRememberedIsReadForTheNextRunToGoAhead) {
    let_go();
    const Seq last = *inner_.last_seq(id_);
    EXPECT_TRUE(driver_.may_run_ahead(id_, last + 1));
    EXPECT_FALSE(driver_.may_run_ahead(id_, last + 2)) << "it does not know what comes before";
    EXPECT_FALSE(driver_.may_run_ahead(ids_.make<SessionId>(), 2)) << "nobody knows that one";
}

TEST_F(RunDriverTest, NoCommitWaitsForALongLogToBeRead) {
    let_go();
    driver_.forget_idle();
    const std::string long_text(limits::kLongLog, 'x');
    EXPECT_TRUE(inner_.commit_and_wait(
        make_commit(id_, std::nullopt,
                    {MessageUser{ids_.make<MessageId>(), text_content(long_text), false, {}}})));
    EXPECT_FALSE(driver_.may_run_ahead(id_, *inner_.last_seq(id_) + 1));
}

// A leak, if they held one another.
TEST_F(RunDriverTest, WhoStillWaitsGoesWithTheDriver) {
    let_go();
    told_.reset();
    SessionCreated created;
    created.id = ids_.make<SessionId>();
    const RunId run = ids_.make<RunId>();
    const Records records = {created, RunStarted{run, boot_, {}, {}}};
    EXPECT_TRUE(inner_.commit_and_wait(make_commit(created.id, Seq{0}, records)));
    boost::asio::co_spawn(loop_, driver_.wait(created.id, run, 1, 1h, {}),
                          [this](const std::exception_ptr&, Result<SharedReport> report) {
                              told_ = std::move(report);
                          });
    work();
    EXPECT_FALSE(told_);
}

}  // namespace
}  // namespace rouse
