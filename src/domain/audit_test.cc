#include "domain/audit.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "testing/session_driver.h"

namespace rouse {
namespace {

using testing::CallSpec;
using testing::SessionDriver;

std::string first_problem(const SessionId& id, const std::vector<Record>& log) {
    LogAudit audit(id);
    for (const Record& record : log) {
        if (std::optional<std::string> problem = audit.check(record)) return *problem;
    }
    return "";
}

// The log of a whole turn, with a wait in it.
struct AuditTest : ::testing::Test {
    SessionDriver driver{1};
    std::vector<Record> log;

    void SetUp() override {
        driver.begin({CallSpec{}});
        driver.commit(driver.settle(driver.pending(0), text_result("done")));
        driver.commit(driver.say(0));
        driver.commit(driver.complete());
        log = driver.log();
        ASSERT_EQ(first_problem(driver.id(), log), "");
    }
    std::size_t find(std::string_view kind) const {
        const auto found =
            std::ranges::find(log, kind, [](const Record& record) { return kind_of(record.body); });
        EXPECT_NE(found, log.end()) << kind;
        return static_cast<std::size_t>(found - log.begin());
    }
    std::vector<Record> without(std::string_view kind) const {
        std::vector<Record> rest = log;
        rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(find(kind)));
        return renumbered(std::move(rest));
    }
    std::vector<Record> with_twice(std::string_view kind) const {
        std::vector<Record> more = log;
        const std::size_t at = find(kind);
        more.insert(more.begin() + static_cast<std::ptrdiff_t>(at), log[at]);
        return renumbered(std::move(more));
    }
    static std::vector<Record> renumbered(std::vector<Record> records) {
        for (std::size_t i = 0; i < records.size(); ++i)
            records[i].seq = i + 1;
        return records;
    }
    void expect_problem(const std::vector<Record>& bad, std::string_view part) const {
        const std::string problem = first_problem(driver.id(), bad);
        EXPECT_NE(problem.find(part), std::string::npos) << '"' << problem << '"';
    }
};

// P3
TEST_F(AuditTest, FindsAResumeWithoutItsConsumption) {
    expect_problem(without("token.consumed"), "without its token being consumed");
}

TEST_F(AuditTest, FindsASecondConsumptionOfAWait) {
    expect_problem(with_twice("token.consumed"), "consumed a second time");
}

TEST_F(AuditTest, FindsASecondResume) {
    expect_problem(with_twice("run.resumed"), "without its token being consumed");
}

TEST_F(AuditTest, FindsSomethingBetweenConsumptionAndResume) {
    std::vector<Record> bad = log;
    SessionUpdated update;
    update.title = "in between";
    bad.insert(bad.begin() + static_cast<std::ptrdiff_t>(find("run.resumed")),
               Record{0, {}, update});
    expect_problem(renumbered(bad), "without its token being consumed");
}

TEST_F(AuditTest, FindsACallWithoutResultInAFinishedTurn) {
    std::vector<Record> bad = without("pending.completed");
    std::erase_if(bad, [](const Record& r) {  // the next model step would hide it
        return r.seq > 5 && kind_of(r.body) == "message.assistant";
    });
    expect_problem(renumbered(bad), "has no result");
}

TEST_F(AuditTest, FindsASecondEndOfARun) {
    expect_problem(with_twice("run.completed"), "ends a second time");
}

TEST_F(AuditTest, FindsTheLogOfAnotherSession) {
    EXPECT_EQ(first_problem(SessionId("sess_other"), log), "the log is another session's");
    expect_problem(without("session.created"), "another session's");
}

}  // namespace
}  // namespace rouse
