#include "net/retry_after.h"

#include <gtest/gtest.h>

namespace rouse {
namespace {

std::optional<std::int64_t> wait_of(HttpHeaders headers) {
    HttpResponse response;
    response.headers = std::move(headers);
    const auto wait = retry_after_of(response);
    if (!wait) return std::nullopt;
    return wait->count();
}

TEST(RetryAfterTest, SecondsMillisecondsAndDatesAreRead) {
    EXPECT_EQ(wait_of({}), std::nullopt);
    EXPECT_EQ(wait_of({{"retry-after", "2"}}), 2000);
    EXPECT_EQ(wait_of({{"retry-after", "0.5"}}), 500);
    EXPECT_EQ(wait_of({{"retry-after", "1"}, {"retry-after-ms", "240"}}), 240);
    EXPECT_EQ(wait_of({{"retry-after", "1"}, {"retry-after-ms", "soon"}}), 1000);
    EXPECT_EQ(wait_of({{"date", "Mon, 16 Nov 2026 10:00:00 GMT"},
                       {"retry-after", "Mon, 16 Nov 2026 10:00:30 GMT"}}),
              30'000);
    EXPECT_EQ(wait_of({{"date", "Mon, 16 Nov 2026 10:00:00 GMT"},
                       {"retry-after", "Mon, 16 Nov 2026 09:00:00 GMT"}}),
              0);
}

TEST(RetryAfterTest, WhatIsNoTimeIsNone) {
    for (const char* text : {"", "-1", "nan", "inf", "soon", "1s", "Mon, 16 Nov 2026 10:00:30 GMT"})
        EXPECT_EQ(wait_of({{"retry-after", text}}), std::nullopt) << text;
    EXPECT_EQ(wait_of({{"retry-after", "1e300"}}), 86'400'000);
}

}  // namespace
}  // namespace rouse
