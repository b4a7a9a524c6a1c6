#include "base/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "base/json.h"

namespace rouse {
namespace {

std::vector<std::string> lines_of(const std::ostringstream& out) {
    std::vector<std::string> lines;
    std::istringstream in(out.str());
    for (std::string line; std::getline(in, line);)
        lines.push_back(line);
    return lines;
}

// The line is one JSON object; gives back the members behind time and level.
std::string fields_of(const std::string& line) {
    const Result<RawJson> json = RawJson::parse(line);
    if (!json) return json.error().message;
    if (json->text() != line) return "not compact";
    std::vector<JsonMember> members;
    if (!split_object(line, members) || members.size() < 3) return "not an event";
    if (members[0].key != "ts" || members[1].key != "level") return "no time or level";
    return std::string(members[1].value) + line.substr(line.find(",\"event\":"));
}

TEST(LogTest, OneLineIsOneEvent) {
    std::ostringstream out;
    Logger log(LogLevel::debug, out);
    log.info("run.waiting", {{"session", "sess_1"}, {"count", 3}, {"late", true}, {"big", ~0ULL}});
    log.warn("plain");
    log.error("failed", {{"what", std::string("disk")}});
    log.debug("detail", {{"delta", -5}});
    const std::vector<std::string> lines = lines_of(out);
    ASSERT_EQ(lines.size(), 4U);
    EXPECT_EQ(fields_of(lines[0]),
              R"("info","event":"run.waiting","session":"sess_1","count":3,"late":true,)"
              R"("big":18446744073709551615})");
    EXPECT_EQ(fields_of(lines[1]), R"("warn","event":"plain"})");
    EXPECT_EQ(fields_of(lines[2]), R"("error","event":"failed","what":"disk"})");
    EXPECT_EQ(fields_of(lines[3]), R"("debug","event":"detail","delta":-5})");
}

TEST(LogTest, LevelKeepsTheLessUrgentOut) {
    std::ostringstream out;
    Logger log(LogLevel::warn, out);
    log.debug("a");
    log.info("b");
    log.warn("c");
    log.error("d");
    EXPECT_EQ(lines_of(out).size(), 2U);
    std::ostringstream nothing;
    Logger silent(LogLevel::off, nothing);
    silent.error("e");
    EXPECT_EQ(nothing.str(), "");
}

TEST(LogTest, NoTextCanBreakTheLineOrDriveTheTerminal) {  // T16
    std::ostringstream out;
    Logger log(LogLevel::info, out);
    const std::string hostile[] = {
        "a\nb",
        "a\r\nb",
        "\x1B[31mred",
        "quote \" backslash \\",
        std::string("nul\0nul", 7),
        "\x7F",           // DEL
        "\xC2\x9B;31m",   // U+009B: one-character CSI
        "\xE2\x80\xAEx",  // U+202E: right to left from here
        "\xE2\x80\xA8x",  // U+2028: line separator
        "\xE2\x81\xA6x",  // U+2066: isolate
        "\xFF\xFE",       // not UTF-8
        "\xC3",           // cut off
        "\xED\xA0\x80",   // a surrogate
        "%d {} %v",       // a format of the library below
        "grün 😀",
    };
    for (const std::string& text : hostile)
        log.info("event", {{"text", text}});
    const std::vector<std::string> lines = lines_of(out);
    ASSERT_EQ(lines.size(), std::size(hostile));
    for (const std::string& line : lines) {
        EXPECT_TRUE(RawJson::parse(line)) << line;
        EXPECT_TRUE(std::ranges::none_of(line, [](char c) {
            return static_cast<unsigned char>(c) < 0x20 || c == '\x7F';
        })) << line;
        for (const char* trick : {"\xC2\x9B", "\xE2\x80\xAE", "\xE2\x80\xA8", "\xE2\x81\xA6"}) {
            EXPECT_EQ(line.find(trick), std::string::npos) << line;
        }
    }
    EXPECT_NE(lines[0].find(R"("a\nb")"), std::string::npos);
    EXPECT_NE(lines[7].find(R"("\u202ex")"), std::string::npos);
    EXPECT_NE(lines[13].find(R"("%d {} %v")"), std::string::npos);
    EXPECT_NE(lines[14].find("\"grün 😀\""), std::string::npos);
}

TEST(LogTest, SecretsDoNotAppear) {  // T19, P12
    std::ostringstream out;
    Logger log(LogLevel::debug, out);
    const Secret secret("hunter2hunter2");
    log.error("token.refused",
              {{"secret", secret},
               {"token", "rt_01ABC.hunter2hunter2"},
               {"text", "got rt_01ABC.hunter2hunter2, and rt_02.hunter2hunter2!"}});
    std::ostringstream printed;
    printed << secret;
    EXPECT_EQ(printed.str(), "***");
    EXPECT_EQ(out.str().find("hunter2"), std::string::npos) << out.str();
    EXPECT_NE(out.str().find("rt_01ABC.***, and rt_02.***!"), std::string::npos) << out.str();
}

TEST(LogTest, MaskingLeavesTheRestAlone) {
    EXPECT_EQ(mask_tokens(""), "");
    EXPECT_EQ(mask_tokens("rt_"), "rt_");
    EXPECT_EQ(mask_tokens("rt_id"), "rt_id");
    EXPECT_EQ(mask_tokens("rt_id."), "rt_id.");
    EXPECT_EQ(mask_tokens("rt_id. Next"), "rt_id. Next");
    EXPECT_EQ(mask_tokens("rt_id.S"), "rt_id.***");
    EXPECT_EQ(mask_tokens("xrt_id.S-_9 rest"), "xrt_id.*** rest");
    // The first one must not swallow the start of the second and leave its end in the open.
    EXPECT_EQ(mask_tokens("part_x.rt_id.S end."), "part_x.*** end.");
    EXPECT_EQ(mask_tokens("a.b rt"), "a.b rt");
}

}  // namespace
}  // namespace rouse
