#include "domain/ids.h"

#include <gtest/gtest.h>

#include <set>

#include "base/id_source.h"
#include "testing/manual_clock.h"

namespace rouse {
namespace {

TEST(IdsTest, ASessionIdIsShortAndHasNoUnderscoreInIt) {
    for (const std::string_view good :
         {"sess_123", "sess_a-B-9", "sess_01234567890123456789012345"}) {
        EXPECT_TRUE(parse_session_id(good)) << good;
    }
    for (const std::string_view bad :
         {"", "sess_", "123", "run_1", "sess_a_b", "sess_012345678901234567890123456", "sess_a/b",
          "sess_../x", "sess_a b", "_system", "sess_\xC3\xA9"}) {
        EXPECT_FALSE(parse_session_id(bad)) << bad;
    }
}

// The pending id leads to its session without any table.
TEST(IdsTest, APendingIdNamesItsSession) {
    for (const std::string text : {"sess_123", "sess_a-B-9", "sess_01234567890123456789012345"}) {
        const SessionId session(text);
        const PendingId pending = make_pending_id(session, std::string(32, 'Z'));
        EXPECT_TRUE(PendingId::parse(pending.text())) << pending.text();  // a valid file name
        EXPECT_EQ(*session_of(pending), session);
    }
    for (const std::string_view bad : {"", "pnd_", "pnd_x", "pnd__x", "sess_1", "pnd_a_b_c"}) {
        EXPECT_FALSE(session_of(PendingId(std::string(bad)))) << bad;
    }
}

// S0-84: nobody guesses one.
TEST(IdsTest, PendingIdsHaveTwentyRandomBytes) {
    testing::ManualClock clock;
    SystemRandom random;
    IdSource ids(clock, random);
    std::set<std::string> seen;
    for (int i = 0; i < 1000; ++i) {
        const std::string text = ids.random_text(20);
        EXPECT_EQ(text.size(), 32U);  // 160 bits, five to a letter
        EXPECT_TRUE(seen.insert(text).second);
    }
}

TEST(IdsTest, NobodyCanAskForTheSystemLogByName) {
    EXPECT_FALSE(SessionId::parse(system_log().text()));
}

}  // namespace
}  // namespace rouse
