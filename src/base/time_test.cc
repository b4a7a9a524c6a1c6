#include "base/time.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace rouse {
namespace {

TEST(TimeTest, PrintsMillisecondsInUtc) {
    EXPECT_EQ(to_rfc3339(from_epoch_ms(0)), "1970-01-01T00:00:00.000Z");
    EXPECT_EQ(to_rfc3339(from_epoch_ms(1'771'666'200'125)), "2026-02-21T09:30:00.125Z");
    EXPECT_EQ(to_rfc3339(from_epoch_ms(-1)), "1969-12-31T23:59:59.999Z");
    EXPECT_EQ(to_rfc3339(from_epoch_ms(951'782'400'000)), "2000-02-29T00:00:00.000Z");
}

TEST(TimeTest, ReadsOtherFractionsAndOffsets) {
    const Timestamp at = from_epoch_ms(1'771'666'200'100);
    for (const char* text : {
             "2026-02-21T09:30:00.1Z",
             "2026-02-21T09:30:00.100Z",
             "2026-02-21t09:30:00.100z",
             "2026-02-21 09:30:00.100Z",
             "2026-02-21T09:30:00.100999999Z",
             "2026-02-21T11:00:00.1+01:30",
             "2026-02-20T23:30:00.1-10:00",
         }) {
        EXPECT_EQ(parse_rfc3339(text), at) << text;
    }
    EXPECT_EQ(parse_rfc3339("2026-02-21T09:30:00Z"), at - Milliseconds(100));
    EXPECT_EQ(parse_rfc3339("2016-12-31T23:59:60Z"), from_epoch_ms(1'483'228'800'000));
}

TEST(TimeTest, RefusesWhatIsNotATime) {
    for (const char* text : {
             "",
             "now",
             "2026-02-21",
             "2026-02-21T09:30:00",
             "2026-02-21T09:30Z",
             "2026-02-29T09:30:00Z",
             "2026-13-01T09:30:00Z",
             "2026-00-01T09:30:00Z",
             "2026-01-00T09:30:00Z",
             "2026-02-21T24:00:00Z",
             "2026-02-21T09:60:00Z",
             "2026-02-21T09:30:61Z",
             "2026-02-21T09:30:00.Z",
             "2026-02-21T09:30:00ZZ",
             "2026-02-21T09:30:00+1:00",
             "2026-02-21T09:30:00+24:00",
             "2026-02-21T09:30:00+01:60",
             "-026-02-21T09:30:00Z",
             "2026--2-21T09:30:00Z",
             "+2026-02-21T09:30:00Z",
             " 2026-02-21T09:30:00Z",
         }) {
        const Result<Timestamp> parsed = parse_rfc3339(text);
        ASSERT_FALSE(parsed) << text;
        EXPECT_EQ(parsed.error().kind, ErrorKind::invalid) << text;
    }
}

// An offset or a leap second must not lead out of the years that can be printed.
TEST(TimeTest, RefusesTimesOutsideTheFourDigitYears) {
    EXPECT_TRUE(parse_rfc3339("0000-01-01T00:00:00.000Z"));
    EXPECT_TRUE(parse_rfc3339("9999-12-31T23:59:59.999Z"));
    EXPECT_FALSE(parse_rfc3339("0000-01-01T00:00:00.000+00:01"));
    EXPECT_FALSE(parse_rfc3339("9999-12-31T23:59:59.999-00:01"));
    EXPECT_FALSE(parse_rfc3339("9999-12-31T23:59:60Z"));
}

RC_GTEST_PROP(TimeTest, ReadsWhatItPrints, ()) {
    const Timestamp first = *parse_rfc3339("0000-01-01T00:00:00.000Z");
    const Timestamp last = *parse_rfc3339("9999-12-31T23:59:59.999Z");
    const Timestamp at =
        from_epoch_ms(*rc::gen::inRange(to_epoch_ms(first), to_epoch_ms(last) + 1));
    const std::string text = to_rfc3339(at);
    RC_ASSERT(text.size() == 24U);
    RC_ASSERT(*parse_rfc3339(text) == at);
}

RC_GTEST_PROP(TimeTest, WhateverItReadsItCanPrintAndReadAgain, ()) {
    std::string text = "2026-02-21T09:30:00.125+01:00";
    const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
    text[at] = *rc::gen::elementOf(std::string("0123456789+-:.TZtz \0x", 21));
    if (const Result<Timestamp> parsed = parse_rfc3339(text)) {
        RC_ASSERT(*parse_rfc3339(to_rfc3339(*parsed)) == *parsed);
    }
}

}  // namespace
}  // namespace rouse
