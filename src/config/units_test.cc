#include "config/units.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "config/value.h"

namespace rouse::config {
namespace {

using namespace std::chrono_literals;

TEST(DurationTest, HasAWholeNumberAndAUnit) {
    EXPECT_EQ(parse_duration("500ms"), 500ms);
    EXPECT_EQ(parse_duration("30s"), 30s);
    EXPECT_EQ(parse_duration("15m"), 15min);
    EXPECT_EQ(parse_duration("2h"), 2h);
    EXPECT_EQ(parse_duration("7d"), 168h);
    EXPECT_EQ(parse_duration("36500d"), 36500 * 24h);
    for (const char* text :
         {"", "5", "h", "-1h", "+1h", "1.5h", "1 h", " 1h", "1h ", "1H", "1h30m", "0s", "never",
          "36501d", "99999999999999999999s", "9223372036854775807d"}) {
        EXPECT_EQ(parse_duration(text), std::nullopt) << text;
    }
}

TEST(DurationTest, IsPrintedInTheLargestExactUnit) {
    EXPECT_EQ(to_duration_text(500ms), "500ms");
    EXPECT_EQ(to_duration_text(1500ms), "1500ms");
    EXPECT_EQ(to_duration_text(90s), "90s");
    EXPECT_EQ(to_duration_text(60s), "1m");
    EXPECT_EQ(to_duration_text(25h), "25h");
    EXPECT_EQ(to_duration_text(48h), "2d");
}

RC_GTEST_PROP(DurationTest, ReadsBackWhatItPrints, ()) {
    const Milliseconds duration(*rc::gen::inRange<std::int64_t>(1, 3'153'600'000'000));
    RC_ASSERT(parse_duration(to_duration_text(duration)) == duration);
}

TEST(BytesTest, HaveAWholeNumberAndABinaryUnit) {
    EXPECT_EQ(parse_bytes("1B"), 1U);
    EXPECT_EQ(parse_bytes("20KiB"), 20480U);
    EXPECT_EQ(parse_bytes("4MiB"), 4U << 20U);
    EXPECT_EQ(parse_bytes("1024GiB"), 1ULL << 40U);
    for (const char* text : {"", "5", "4MB", "4mib", "4 MiB", "0B", "-1B", "1.5KiB", "1025GiB",
                             "18446744073709551615GiB"}) {
        EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
    }
}

RC_GTEST_PROP(BytesTest, ReadBackWhatIsPrinted, ()) {
    const auto bytes = *rc::gen::inRange<std::uint64_t>(1, 1ULL << 40U);
    RC_ASSERT(parse_bytes(to_bytes_text(bytes)) == bytes);
}

TEST(InQuotesTest, IsShortAndHarmless) {
    EXPECT_EQ(in_quotes("a\x1b[2Jb\n"), R"("a\x1b[2Jb\x0a")");
    EXPECT_EQ(in_quotes("\u009b2J \u202e \xff ä"), R"("\u{9b}2J \u{202e} \xff ä")");  // T16
    EXPECT_EQ(in_quotes(std::string(59, 'a') + "äb"), '"' + std::string(59, 'a') + "…\"");
}

}  // namespace
}  // namespace rouse::config
