#include "base/utf8.h"

#include <gtest/gtest.h>

namespace rouse {
namespace {

TEST(Utf8Test, WhatIsNoCharacterBecomesTheReplacementCharacter) {
    struct Case {
        std::string_view bytes, text;
    };
    const Case cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"gr\u00FC\u00DFe \u20AC \U0001F600", "gr\u00FC\u00DFe \u20AC \U0001F600"},
        {std::string_view("a\0b", 3), std::string_view("a\0b", 3)},
        {"a\xFF"
         "b",
         "a\uFFFDb"},
        {"\x80", "\uFFFD"},
        {"\xC3", "\uFFFD"},
        {"\xE2\x82z", "\uFFFD\uFFFDz"},
        {"\xC0\xAF", "\uFFFD\uFFFD"},
        {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},
        {"\xF4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD"},
    };
    for (const Case& c : cases)
        EXPECT_EQ(to_utf8(c.bytes), c.text);
}

TEST(Utf8Test, HeadsAndTailsEndBetweenCharacters) {
    const std::string_view text = "a\u20ACb";  // 1 + 3 + 1 bytes
    const std::string_view heads[] = {"", "a", "a", "a", "a\u20AC", text, text};
    const std::string_view tails[] = {"", "b", "b", "b", "\u20ACb", text, text};
    for (std::size_t limit = 0; limit < std::size(heads); ++limit) {
        EXPECT_EQ(utf8_head(text, limit), heads[limit]) << limit;
        EXPECT_EQ(utf8_tail(text, limit), tails[limit]) << limit;
    }
}

}  // namespace
}  // namespace rouse
