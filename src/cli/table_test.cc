#include "cli/table.h"

#include <gtest/gtest.h>

namespace rouse::cli {
namespace {

Table example() {
    Table table({"ID", "STATUS", "TITLE"});
    table.add({"1", Cell("waiting", Colour::yellow), "Grüße"});
    table.add({"22", "", "a much longer title"});
    table.add({"3", "世界", ""});
    return table;
}

TEST(TableTest, ColumnsAreAlignedAndLinesEndWithText) {
    EXPECT_EQ(example().render({}),
              "ID  STATUS   TITLE\n"
              "1   waiting  Grüße\n"
              "22           a much longer title\n"
              "3   世界\n");
}

TEST(TableTest, LinesFitTheTerminal) {
    EXPECT_EQ(example().render({.width = 20}),
              "ID  STATUS   TITLE\n"
              "1   waiting  Grüße\n"
              "22           a much…\n"
              "3   世界\n");
    EXPECT_EQ(example().render({.width = 7}),
              "ID  ST…\n"
              "1   wa…\n"
              "22\n"
              "3   世…\n");
}

TEST(TableTest, ColoursTakeNoRoom) {
    EXPECT_EQ(example().render({.colours = true}),
              "\x1b[2mID\x1b[0m  \x1b[2mSTATUS\x1b[0m   \x1b[2mTITLE\x1b[0m\n"
              "1   \x1b[33mwaiting\x1b[0m  Grüße\n"
              "22           a much longer title\n"
              "3   世界\n");
}

TEST(TableTest, NothingInACellReachesTheTerminal) {
    Table table;
    table.add({"\x1b[2Jgone\n", "x"});
    EXPECT_EQ(table.render({}), "\\x1b[2Jgone\\n  x\n");
}

}  // namespace
}  // namespace rouse::cli
