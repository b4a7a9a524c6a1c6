#include "cli/names.h"

#include <gtest/gtest.h>

#include "testing/http_fake.h"

namespace rouse::cli {
namespace {

using testing::HttpReply;

const std::string kFirst = "sess_01AAAAAAAAAAAAAAAAAAAAAAAA";
const std::string kSecond = "sess_01AAAAAABBBBBBBBBBBBBBBBBB";
const std::string kOther = "sess_01CCCCCCCCCCCCCCCCCCCCCCCC";

std::string page(const std::vector<std::string>& ids, const std::string& cursor) {
    std::string items;
    for (const std::string& id : ids) {
        if (!items.empty()) items += ',';
        items +=
            R"({"id":")" + id + R"(","status":"idle","updated_at":"2026-01-01T00:00:00.000Z"})";
    }
    return "{\"items\":[" + items + "],\"next_cursor\":" + cursor + "}";
}

std::string call(const std::string& id) {
    return R"({"id":")" + id +
           R"(","sessionID":"sess_1","callID":"c","tool":"t","status":"waiting",)"
           R"("waitsFor":"external","time":{"created":1}})";
}

class NamesTest : public ::testing::Test {
 protected:
    NamesTest() : client_({{.url = fake_.url("")}, -1}) {
        fake_.script("/v1/sessions", {HttpReply::json(page({"sess_demo", kOther}, "\"next\"")),
                                      HttpReply::json(page({kSecond, kFirst}, "null"))});
        fake_.script("/async-tool/pending",
                     {HttpReply::json("{\"pending\":[" + call("pnd_1_ABCDEFGH") + "," +
                                      call("pnd_2_ABCDEFXY") + "],\"next_cursor\":null}")});
    }

    std::string session(const std::string& name) {
        const Result<SessionId> id = find_session(client_, name);
        return id ? id->text() : std::string(id.error().reason);
    }
    std::string pending(const std::string& name) {
        const Result<std::string> id = find_call(client_, name);
        return id ? *id : std::string(id.error().reason);
    }

    testing::HttpFake fake_;
    client::Client client_;
};

TEST_F(NamesTest, AWholeIdIsTakenAsItIs) {
    EXPECT_EQ(session("sess_01ZZZZZZZZZZZZZZZZZZZZZZZZ"), "sess_01ZZZZZZZZZZZZZZZZZZZZZZZZ");
    EXPECT_EQ(session("01ZZZZZZZZZZZZZZZZZZZZZZZZ"), "sess_01ZZZZZZZZZZZZZZZZZZZZZZZZ");
    EXPECT_TRUE(fake_.requests().empty());
}

TEST_F(NamesTest, AUniqueBeginningIsEnough) {
    EXPECT_EQ(session("01AAAAAAB"), kSecond);
    EXPECT_EQ(fake_.requests().size(), 2);
}

TEST_F(NamesTest, TheSearchEndsWhereTheOrderOfTheListEndsIt) {
    EXPECT_EQ(session("01DDDDDD"), "not_found");
    EXPECT_EQ(fake_.requests().size(), 1);
}

TEST_F(NamesTest, SeveralAreNamed) {
    const Result<SessionId> id = find_session(client_, "01AAAAAA");
    ASSERT_FALSE(id);
    EXPECT_EQ(id.error().reason, "usage");
    EXPECT_NE(id.error().message.find(kFirst), std::string::npos);
    EXPECT_NE(id.error().message.find(kSecond), std::string::npos);
}

TEST_F(NamesTest, ShortIdsMustBeWhole) {
    EXPECT_EQ(session("sess_demo"), "sess_demo");
    EXPECT_EQ(session("01AAAAA"), "usage");
}

TEST_F(NamesTest, WhatCannotBeAnIdIsNotAskedFor) {
    EXPECT_EQ(session("../../token"), "usage");
    EXPECT_EQ(session(""), "usage");
    EXPECT_TRUE(fake_.requests().empty());
}

TEST_F(NamesTest, ACallIsFoundByWhatTheListShows) {
    EXPECT_EQ(short_call_id("pnd_1_ABCDEFGHIJKLMN"), "ABCDEFGHIJ");
    EXPECT_EQ(pending("ABCDEFG"), "pnd_1_ABCDEFGH");
    EXPECT_EQ(pending("pnd_x"), "pnd_x");
    EXPECT_EQ(pending("ABCDEF"), "usage");
    EXPECT_EQ(pending("ABC"), "usage");
    EXPECT_EQ(pending("ZZZZZZ"), "unknown_pending_id");
}

}  // namespace
}  // namespace rouse::cli
