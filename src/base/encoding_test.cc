#include "base/encoding.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <vector>

namespace rouse {
namespace {

using Bytes = std::vector<std::uint8_t>;

TEST(EncodingTest, HexIsLowerCase) {
    EXPECT_EQ(to_hex(Bytes{}), "");
    EXPECT_EQ(to_hex(Bytes{0x00, 0x0F, 0xA0, 0xFF}), "000fa0ff");
}

TEST(EncodingTest, Base32PadsInFront) {
    EXPECT_EQ(to_base32(Bytes{}), "");
    EXPECT_EQ(to_base32(Bytes{0x01}), "01");
    EXPECT_EQ(to_base32(Bytes{0xFF}), "7Z");
    EXPECT_EQ(to_base32(Bytes{0x00, 0x00, 0x00, 0x00, 0x1F}), "0000000Z");
    EXPECT_EQ(to_base32(Bytes(16, 0x00)), std::string(26, '0'));
    EXPECT_EQ(to_base32(Bytes(16, 0xFF)), "7" + std::string(25, 'Z'));
    EXPECT_EQ(to_base32(Bytes{0x00, 0x44, 0x32, 0x14, 0xC7, 0x42, 0x54, 0xB6, 0x35, 0xCF}),
              "0123456789ABCDEF");
    EXPECT_EQ(to_base32(Bytes{0x84, 0x65, 0x3A, 0x56, 0xD7, 0xC6, 0x75, 0xBE, 0x77, 0xDF}),
              "GHJKMNPQRSTVWXYZ");
}

RC_GTEST_PROP(EncodingTest, Base32SortsLikeTheBytes, ()) {
    const auto length = *rc::gen::inRange<std::size_t>(0, 40);
    const auto a = *rc::gen::container<Bytes>(length, rc::gen::arbitrary<std::uint8_t>());
    const auto b = *rc::gen::container<Bytes>(length, rc::gen::arbitrary<std::uint8_t>());
    RC_ASSERT((a < b) == (to_base32(a) < to_base32(b)));
    RC_ASSERT((a == b) == (to_base32(a) == to_base32(b)));
    RC_ASSERT(to_base32(a).size() == (length * 8 + 4) / 5);
}

}  // namespace
}  // namespace rouse
