#include "domain/chain.h"

#include <gtest/gtest.h>

#include "testing/session_driver.h"

namespace rouse {
namespace {

using testing::CallSpec;
using testing::reason_of;
using testing::SessionDriver;

std::vector<std::string> lines_of(SessionDriver& driver) {
    std::vector<std::string> lines;
    Chain chain = Chain::start_of(driver.id());
    for (const Record& record : driver.log()) {
        std::string& line = lines.emplace_back();
        append_line(line, record.seq, record.at, record.body, chain);
        line.pop_back();
    }
    return lines;
}

// How many lines are good, from the first on.
std::size_t good_lines(const SessionId& id, const std::vector<std::string>& lines) {
    Chain chain = Chain::start_of(id);
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const Chain before = chain;
        Record record;
        const Result<void> read = read_next_line(lines[i], i, chain, record);
        if (!read) {
            EXPECT_EQ(read.error().kind, ErrorKind::corrupt);
            EXPECT_EQ(chain, before);  // stays at the last good line
            return i;
        }
    }
    return lines.size();
}

struct ChainTest : ::testing::Test {
    SessionDriver driver{1};
    std::vector<std::string> lines;

    void SetUp() override {
        driver.begin({CallSpec{}});
        driver.commit(driver.settle(driver.pending(0), text_result("done")));
        lines = lines_of(driver);
        ASSERT_EQ(good_lines(driver.id(), lines), lines.size());
    }
};

// Computed by hand from the description: SHA-256(previous ‖ line up to ,"chain"), 32 hex digits.
TEST(ChainFormatTest, LinesLookLikeTheDescription) {
    Chain chain = Chain::start_of(SessionId("sess_123"));
    EXPECT_EQ(chain.hex(), "9ed5a7f025e78ba1ef64fe35c0df24ff");
    SessionCreated created;
    created.id = SessionId("sess_123");
    std::string lines;
    const Timestamp at = *parse_rfc3339("2026-02-21T09:30:00Z");
    append_line(lines, 1, at, created, chain);
    append_line(lines, 2, at + Milliseconds(125),
                RunStarted{RunId("run_9f5"), BootId("boot_20260221_1"), {}, {}}, chain);
    EXPECT_EQ(lines, R"({"seq":1,"ts":"2026-02-21T09:30:00.000Z","kind":"session.created",)"
                     R"("id":"sess_123","chain":"37f878d473399b51c2f67d15d1b2822e"})"
                     "\n"
                     R"({"seq":2,"ts":"2026-02-21T09:30:00.125Z","kind":"run.started",)"
                     R"("run_id":"run_9f5","boot_id":"boot_20260221_1",)"
                     R"("chain":"ef80101d84a9e695d83878b383fd44d5"})"
                     "\n");
    EXPECT_EQ(chain.hex(), "ef80101d84a9e695d83878b383fd44d5");
}

// T21, P6
TEST_F(ChainTest, AnyFlippedBitIsFoundInItsLine) {
    Chain before = Chain::start_of(driver.id());
    Record record;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        for (std::size_t at = 0; at < lines[i].size(); ++at) {
            for (unsigned bit = 0; bit < 8; ++bit) {
                std::string damaged = lines[i];
                damaged[at] = static_cast<char>(damaged[at] ^ (1U << bit));
                Chain chain = before;
                ASSERT_FALSE(read_next_line(damaged, i, chain, record))
                    << "line " << i << ", byte " << at << ", bit " << bit;
            }
        }
        ASSERT_TRUE(read_next_line(lines[i], i, before, record));
    }
}

TEST_F(ChainTest, ALineThatIsMissingSwappedRepeatedOrCutIsFound) {
    for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
        const auto here = static_cast<std::ptrdiff_t>(i);
        std::vector<std::string> dropped = lines;
        dropped.erase(dropped.begin() + here);
        EXPECT_EQ(good_lines(driver.id(), dropped), i);

        std::vector<std::string> swapped = lines;
        std::swap(swapped[i], swapped[i + 1]);
        EXPECT_EQ(good_lines(driver.id(), swapped), i);

        std::vector<std::string> repeated = lines;
        repeated.insert(repeated.begin() + here, lines[i]);
        EXPECT_EQ(good_lines(driver.id(), repeated), i + 1);

        std::vector<std::string> glued = lines;
        glued[i] += lines[i + 1];
        EXPECT_EQ(good_lines(driver.id(), glued), i);

        std::vector<std::string> zeroed = lines;
        zeroed[i].assign(zeroed[i].size(), '\0');
        EXPECT_EQ(good_lines(driver.id(), zeroed), i);

        for (std::size_t length = 0; length < lines[i].size(); ++length) {
            std::vector<std::string> cut = lines;
            cut[i].resize(length);
            ASSERT_EQ(good_lines(driver.id(), cut), i) << length;
        }
    }
}

// A whole line made by somebody who does not know what went before, chain and all.
TEST_F(ChainTest, AnEditedLineWithAChainOfItsOwnIsFound) {
    std::string forged;
    Chain chain = Chain::start_of(SessionId("sess_other"));
    append_line(forged, 3, driver.now(), driver.log()[2].body, chain);
    forged.pop_back();
    std::vector<std::string> edited = lines;
    edited[2] = forged;
    EXPECT_EQ(good_lines(driver.id(), edited), 2U);
}

TEST_F(ChainTest, ALogDoesNotBelongToAnotherSession) {
    EXPECT_EQ(good_lines(SessionId("sess_other"), lines), 0U);
}

// The chain is right but the seq is not: nobody but us could have written that, and it is found.
TEST_F(ChainTest, AWrongSeqIsFoundEvenWithARightChain) {
    for (const Seq seq : {Seq(0), Seq(1), Seq(3), Seq(4)}) {
        Chain writer = Chain::start_of(driver.id());
        std::vector<std::string> written(2);
        append_line(written[0], 1, driver.now(), driver.log()[0].body, writer);
        append_line(written[1], seq, driver.now(), driver.log()[1].body, writer);
        for (std::string& line : written)
            line.pop_back();
        EXPECT_EQ(good_lines(driver.id(), written), 1U) << seq;
    }
}

TEST_F(ChainTest, TheErrorNamesTheSeq) {
    Chain chain = Chain::start_of(driver.id());
    Record record;
    const Result<void> read = read_next_line(lines[1], 0, chain, record);
    ASSERT_FALSE(read);
    EXPECT_EQ(reason_of(read), "broken_chain");
    EXPECT_NE(read.error().message.find("seq 1"), std::string::npos) << read.error().message;
}

TEST(ChainFormatTest, AChainIs32LowerCaseHexDigits) {
    const std::string good = "0123456789abcdef0123456789abcdef";
    EXPECT_EQ(Chain::parse(good)->hex(), good);
    for (const std::string& bad :
         {std::string(), good.substr(1), good + "0", "g" + good.substr(1), "A" + good.substr(1)}) {
        EXPECT_FALSE(Chain::parse(bad)) << bad;
    }
}

}  // namespace
}  // namespace rouse
