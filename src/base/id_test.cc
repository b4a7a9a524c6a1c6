#include "base/id.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <unordered_set>

#include "base/id_source.h"
#include "testing/manual_clock.h"
#include "testing/seeded_random.h"

namespace rouse {
namespace {

using testing::ManualClock;
using testing::SeededRandom;

struct ThingTag {
    static constexpr std::string_view prefix = "thing_";
};
using ThingId = Id<ThingTag>;

// Counts the bytes that it hands out, all of them zero.
class CountingRandom final : public Random {
 public:
    void fill(std::span<std::uint8_t> bytes) override {
        std::ranges::fill(bytes, std::uint8_t{0});
        count += bytes.size();
    }
    std::size_t count = 0;
};

TEST(IdTest, PatternLeavesNothingThatAFileNameCouldMisread) {  // T15
    for (const std::string& good :
         {std::string("a"), std::string("Z9"), std::string("sess_01ABC"), std::string("a-b_c-"),
          std::string("9"), std::string(64, 'x')}) {
        EXPECT_TRUE(is_valid_id_text(good)) << good;
    }
    for (const std::string& bad :
         {std::string(),        std::string("."),       std::string(".."),
          std::string("../x"),  std::string("a/b"),     std::string("/etc/passwd"),
          std::string("a\\b"),  std::string("%2e%2e"),  std::string("..%2f"),
          std::string("a.b"),   std::string("a:b"),     std::string("a b"),
          std::string(" a"),    std::string("a\n"),     std::string("-a"),
          std::string("_a"),    std::string("a\0b", 3), std::string("a\0", 2),
          std::string("ä"),     std::string("\xFF"),    std::string("a\x1B"),
          std::string(65, 'x'), std::string(256, 'x')}) {
        EXPECT_FALSE(is_valid_id_text(bad)) << bad;
    }
}

TEST(IdTest, EveryByteIsJudged) {  // T15
    for (int byte = 0; byte < 256; ++byte) {
        const bool letter_or_digit = byte < 128 && std::isalnum(byte) != 0;
        const std::string text = {'a', static_cast<char>(byte), 'a'};
        EXPECT_EQ(is_valid_id_text(text), letter_or_digit || byte == '_' || byte == '-') << byte;
        EXPECT_EQ(is_valid_id_text(text.substr(1)), letter_or_digit) << byte;
    }
}

TEST(IdTest, ParseWantsThePrefixAndSomethingBehindIt) {
    EXPECT_EQ(ThingId::parse("thing_1")->text(), "thing_1");
    for (const char* bad : {"", "thing_", "thing", "other_1", "Thing_1", "xthing_1", "thing_a/b",
                            "thing_..", " thing_1"}) {
        const Result<ThingId> id = ThingId::parse(bad);
        ASSERT_FALSE(id) << bad;
        EXPECT_EQ(id.error().kind, ErrorKind::invalid);
        EXPECT_EQ(id.error().reason, "invalid_id");
    }
    EXPECT_TRUE(ThingId::parse("thing_" + std::string(58, 'x')));
    EXPECT_FALSE(ThingId::parse("thing_" + std::string(59, 'x')));
}

TEST(IdTest, ComparesAndHashesByText) {
    EXPECT_LT(ThingId("thing_1"), ThingId("thing_2"));
    EXPECT_TRUE(ThingId().empty());
    const std::unordered_set<ThingId> ids = {ThingId("thing_1"), ThingId("thing_1")};
    EXPECT_EQ(ids.size(), 1U);
}

TEST(IdSourceTest, IdIsThePrefixAndAUlid) {
    ManualClock clock(from_epoch_ms(1'469'918'176'385));
    CountingRandom random;
    IdSource ids(clock, random);
    // The time of the example in the ULID specification.
    EXPECT_EQ(ids.make<ThingId>().text(), "thing_01ARYZ6S410000000000000000");
    EXPECT_EQ(random.count, 10U);
    EXPECT_TRUE(ThingId::parse(ids.make<ThingId>().text()));
}

TEST(IdSourceTest, IdsSortByTime) {
    ManualClock clock(from_epoch_ms(0));
    SeededRandom random(1);
    IdSource ids(clock, random);
    ThingId last = ids.make<ThingId>();
    for (int bit = 1; bit < 47; ++bit) {
        clock.set(from_epoch_ms((std::int64_t{1} << bit) - 1));
        const ThingId before = ids.make<ThingId>();
        clock.advance(Milliseconds(1));
        const ThingId after = ids.make<ThingId>();
        EXPECT_LT(before, after);
        EXPECT_LT(last, after);
        last = after;
        EXPECT_EQ(after.text().size(), ThingId::kPrefix.size() + 26);
    }
}

TEST(IdSourceTest, IdsOfOneMillisecondSortInTheOrderOfTheirMaking) {
    ManualClock clock;
    SeededRandom random(7);
    IdSource ids(clock, random);
    ThingId last = ids.make<ThingId>();
    for (int i = 0; i < 100'000; ++i) {  // more than 16 bits count
        const ThingId next = ids.make<ThingId>();
        ASSERT_LT(last, next) << i;
        last = next;
    }
    clock.advance(-Milliseconds(5));
    EXPECT_LT(last, ids.make<ThingId>());
}

TEST(IdSourceTest, IdsOfOneMillisecondDifferBetweenSources) {
    ManualClock clock;
    SeededRandom random(7);
    std::set<ThingId> seen;
    for (int i = 0; i < 10'000; ++i)
        seen.insert(IdSource(clock, random).make<ThingId>());
    EXPECT_EQ(seen.size(), 10'000U);
}

TEST(IdSourceTest, UnguessablePartsAreRandomBytesAlone) {  // S0-84, T5
    ManualClock clock;
    CountingRandom counting;
    IdSource counted(clock, counting);
    EXPECT_EQ(counted.random_text(24).size(), 39U);
    EXPECT_EQ(counting.count, 24U);
    EXPECT_EQ(counted.secret().reveal().size(), 52U);
    EXPECT_EQ(counting.count, 24U + 32U);

    SystemRandom system;
    IdSource ids(clock, system);
    std::set<std::string> seen;
    for (int i = 0; i < 1'000; ++i) {
        seen.insert(ids.random_text(24));
        seen.insert(ids.secret().reveal());
    }
    EXPECT_EQ(seen.size(), 2'000U);
}

TEST(IdSourceTest, SystemRandomFillsEveryByte) {
    SystemRandom random;
    std::array<std::uint8_t, 300> all{};  // more than one getrandom() call is bound to fill
    std::array<std::uint8_t, 300> once{};
    for (int round = 0; round < 20; ++round) {
        random.fill(once);
        for (std::size_t i = 0; i < all.size(); ++i)
            all[i] |= once[i];
    }
    EXPECT_EQ(std::ranges::count(all, 0), 0);
    random.fill({});
}

}  // namespace
}  // namespace rouse
