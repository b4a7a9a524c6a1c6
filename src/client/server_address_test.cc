#include "client/server_address.h"

#include <gtest/gtest.h>

#include <map>

#include "testing/crashing_fs.h"

namespace rouse::client {
namespace {

using Environment = std::map<std::string, std::string>;

Variable in(const Environment& environment) {
    return [environment](const char* name) {
        const auto found = environment.find(name);
        return found == environment.end() ? std::string() : found->second;
    };
}

class ServerAddressTest : public ::testing::Test {
 protected:
    ServerAddressTest() {
        for (const char* folder : {"/h", "/h/.local", "/h/.local/share", "/h/.local/share/rouse",
                                   "/x", "/x/rouse", "/d"})
            EXPECT_TRUE(fs_.make_directory(folder));
        EXPECT_TRUE(fs_.replace_file("/h/.local/share/rouse/token", "of-home\n"));
        EXPECT_TRUE(fs_.replace_file("/x/rouse/token", "of-xdg\n"));
        EXPECT_TRUE(fs_.replace_file("/d/token", "of-data\r\n"));
    }

    std::string find(const ServerFlags& flags, Environment environment) {
        environment.emplace("HOME", "/h");
        const Result<ServerAddress> found = find_server(flags, in(environment), fs_);
        if (!found) return std::string(found.error().reason);
        return found->url + " " + found->token.reveal();
    }

    testing::CrashingFs fs_;
};

TEST_F(ServerAddressTest, FlagsComeBeforeTheEnvironmentAndThatBeforeTheDataDirectory) {
    EXPECT_EQ(find({}, {}), "http://127.0.0.1:7717 of-home");
    const Environment set = {{"ROUSE_URL", "https://rouse.example/"}, {"ROUSE_TOKEN", "of-env"}};
    EXPECT_EQ(find({}, set), "https://rouse.example of-env");
    EXPECT_EQ(find({"http://one:1", "of-flag", ""}, set), "http://one:1 of-flag");
    EXPECT_EQ(find({"", "of-flag", "/d/token"}, set), "https://rouse.example of-data");
}

TEST_F(ServerAddressTest, TheTokenOfTheDataDirectoryGoesToThisMachineOnly) {
    EXPECT_EQ(find({"http://localhost:99", "", ""}, {}), "http://localhost:99 of-home");
    EXPECT_EQ(find({"http://[::1]:99", "", ""}, {}), "http://[::1]:99 of-home");
    EXPECT_EQ(find({"http://rouse.example", "", ""}, {}), "http://rouse.example ");
    EXPECT_EQ(find({"http://127.0.0.1.evil.example", "", ""}, {}),
              "http://127.0.0.1.evil.example ");
}

TEST_F(ServerAddressTest, TheDataDirectoryIsTheConfigurations) {
    EXPECT_EQ(find({}, {{"XDG_DATA_HOME", "/x"}}), "http://127.0.0.1:7717 of-xdg");
    EXPECT_EQ(find({}, {{"XDG_DATA_HOME", "x"}}), "http://127.0.0.1:7717 of-home");
    EXPECT_EQ(find({}, {{"ROUSE_STORE_PATH", "/d"}}), "http://127.0.0.1:7717 of-data");
    EXPECT_EQ(data_directory(in({{"HOME", "/h"}, {"ROUSE_STORE_PATH", "~/s"}})), "/h/s");
    EXPECT_EQ(data_directory(in({})), "");
}

TEST_F(ServerAddressTest, ASchemeMayBeLeftOut) {
    EXPECT_EQ(find({"127.0.0.1:7811", "t", ""}, {}), "http://127.0.0.1:7811 t");
}

TEST_F(ServerAddressTest, WhatIsNoAddressIsAMistakeOfTheCaller) {
    EXPECT_EQ(find({"ftp://x", "", ""}, {}), "usage");
    EXPECT_EQ(find({"http://", "", ""}, {}), "usage");
    EXPECT_EQ(find({"http://user@host", "", ""}, {}), "usage");
    EXPECT_EQ(find({"http://127.0.0.1?@host", "", ""}, {}), "usage");
}

TEST_F(ServerAddressTest, AMissingTokenFileIsToldWhenItWasAskedFor) {
    const Result<ServerAddress> found = find_server({"", "", "/no/token"}, in({}), fs_);
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().kind, ErrorKind::not_found);
}

}  // namespace
}  // namespace rouse::client
