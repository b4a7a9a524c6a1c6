#include "base/digest.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/encoding.h"

namespace rouse {
namespace {

TEST(DigestTest, Sha256MatchesTheStandard) {  // FIPS 180-4 examples
    EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(sha256_hex("abc"),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(DigestTest, Sha256TakesThePartsAsOneText) {
    EXPECT_EQ(to_hex(sha256({"a", "", "bc"})), sha256_hex("abc"));
    EXPECT_EQ(to_hex(sha256({})), sha256_hex(""));
}

TEST(DigestTest, Crc32cMatchesTheStandard) {  // RFC 3720, B.4
    EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
    EXPECT_EQ(crc32c(""), 0U);
    EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);
    EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
    std::string rising;
    for (char c = 0; c < 32; ++c)
        rising += c;
    EXPECT_EQ(crc32c(rising), 0x46DD794EU);
}

RC_GTEST_PROP(DigestTest, Crc32cGoesOnFromASeed, (const std::string& a, const std::string& b)) {
    RC_ASSERT(crc32c(b, crc32c(a)) == crc32c(a + b));
}

TEST(DigestTest, Crc32cSeesEveryFlippedBit) {  // W1
    std::string text = "one frame of a journal, as short as it may be";
    const std::uint32_t whole = crc32c(text);
    for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
        const auto mask = static_cast<char>(1U << (bit % 8));
        text[bit / 8] = static_cast<char>(text[bit / 8] ^ mask);
        EXPECT_NE(crc32c(text), whole) << bit;
        text[bit / 8] = static_cast<char>(text[bit / 8] ^ mask);
    }
}

TEST(DigestTest, ConstantTimeComparisonIsAComparison) {  // T5
    EXPECT_TRUE(equal_in_constant_time("", ""));
    EXPECT_TRUE(equal_in_constant_time("secret", "secret"));
    EXPECT_FALSE(equal_in_constant_time("secret", "secreT"));
    EXPECT_FALSE(equal_in_constant_time("secret", "Secret"));
    EXPECT_FALSE(equal_in_constant_time("secret", "secre"));
    EXPECT_FALSE(equal_in_constant_time("secret", ""));
    EXPECT_FALSE(equal_in_constant_time(std::string_view("a\0b", 3), std::string_view("a\0c", 3)));
}

}  // namespace
}  // namespace rouse
