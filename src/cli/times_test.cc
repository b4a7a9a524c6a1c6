#include "cli/times.h"

#include <gtest/gtest.h>

namespace rouse::cli {
namespace {

using namespace std::chrono_literals;

TEST(AgeTest, IsInTheUnitThatPeopleUse) {
    const std::pair<Milliseconds, const char*> cases[] = {
        {-5s, "0s"}, {999ms, "0s"}, {59s, "59s"}, {60s, "1m"},         {3599s, "59m"},
        {1h, "1h"},  {47h, "47h"},  {48h, "2d"},  {729 * 24h, "729d"}, {731 * 24h, "2y"}};
    for (const auto& [age, want] : cases)
        EXPECT_EQ(to_age(age), want) << age.count();
}

TEST(AgeTest, ADeadlineIsAheadBehindOrNever) {
    const Timestamp now = from_epoch_ms(1'000'000'000'000);
    EXPECT_EQ(to_deadline(now + 5min, now), "in 5m");
    EXPECT_EQ(to_deadline(now + 2h - 3s, now), "in 2h");
    EXPECT_EQ(to_deadline(now + 90min, now), "in 1h");
    EXPECT_EQ(to_deadline(now - 5min, now), "5m ago");
    EXPECT_EQ(to_deadline(std::nullopt, now), "never");
    EXPECT_EQ(to_day_and_time(now), "2001-09-09 01:46:40");
}

}  // namespace
}  // namespace rouse::cli
