#include "cli/text.h"

#include <gtest/gtest.h>

namespace rouse::cli {
namespace {

TEST(PrintableTest, WhatControlsATerminalBecomesVisible) {
    EXPECT_EQ(printable("a\x1b[31mb"), "a\\x1b[31mb");
    EXPECT_EQ(printable("a\nb\tc\rd"), "a\\nb\\tc\\rd");
    EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
    EXPECT_EQ(printable("\x7f"), "\\x7f");
    EXPECT_EQ(printable("\xc2\x9b"), "\\u{9b}") << "the CSI of eight-bit terminals";
    EXPECT_EQ(printable("\x9b"), "\\x9b") << "and as a bare byte";
    EXPECT_EQ(printable("\u202etxt.exe"), "\\u{202e}txt.exe") << "the direction of text";
    EXPECT_EQ(printable("\u2028"), "\\u{2028}");
}

TEST(PrintableTest, TextStaysText) {
    EXPECT_EQ(printable("Grüße, 世界 🚀"), "Grüße, 世界 🚀");
    EXPECT_EQ(printable(""), "");
}

TEST(PrintableTest, LinesStayWhereTheyMay) {
    EXPECT_EQ(printable_lines("a\n\tb\x1b\r"), "a\n\tb\\x1b\\r");
}

TEST(ColumnsTest, CountsWhatATerminalShows) {
    EXPECT_EQ(columns_of("abc"), 3);
    EXPECT_EQ(columns_of("Grüße"), 5);
    EXPECT_EQ(columns_of("世界"), 4);
    EXPECT_EQ(columns_of("e\u0301"), 1);
}

TEST(CutTest, WhatIsTooLongEndsWithAnEllipsis) {
    EXPECT_EQ(cut_to("abcdef", 6), "abcdef");
    EXPECT_EQ(cut_to("abcdef", 5), "abcd…");
    EXPECT_EQ(cut_to("abcdef", 1), "…");
    EXPECT_EQ(cut_to("abcdef", 0), "");
    EXPECT_EQ(cut_to("世界世界", 6), "世界…") << "no half of a character";
}

TEST(ShellWordTest, AShellReadsItAsOneWord) {
    EXPECT_EQ(shell_word("sess_01M7"), "sess_01M7");
    EXPECT_EQ(shell_word("a b"), "'a b'");
    EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
    EXPECT_EQ(shell_word("$(reboot)"), "'$(reboot)'");
    EXPECT_EQ(shell_word(""), "''");
}

}  // namespace
}  // namespace rouse::cli
