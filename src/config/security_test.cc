// What the configuration must not let pass: an exposed server, and secrets where people see them.

#include <gtest/gtest.h>

#include "config/load.h"
#include "config/report.h"

namespace rouse {
namespace {

std::string mistakes_of(const std::string& file,
                        std::map<std::string, std::string> environment = {}) {
    environment.emplace("HOME", "/h");
    return to_text(
        load_config({.file_text = file, .environment = std::move(environment)}).mistakes);
}

TEST(ExposureTest, BeyondThisMachineNeedsTlsOrAProxy) {  // T33
    const std::string alone =
        "rouse.toml:2:10: error: server.listen: listens beyond this machine without TLS: set "
        "tls_cert and tls_key, or behind_proxy = true if a proxy in front does that\n";
    const std::string tls = "tls_cert = \"/c\"\ntls_key = \"/k\"\n";
    for (const char* address : {"0.0.0.0:80", "[::]:80", "10.0.0.1:80", "rouse.example:80"}) {
        const std::string server = "[server]\nlisten = \"" + std::string(address) + "\"\n";
        EXPECT_EQ(mistakes_of(server), alone) << address;
        EXPECT_EQ(mistakes_of(server + tls), "") << address;
        EXPECT_EQ(mistakes_of(server + "behind_proxy = true\n"), "") << address;
    }
    for (const char* address : {"127.0.0.1:0", "127.9.9.9:80", "[::1]:80", "localhost:80"}) {
        EXPECT_EQ(mistakes_of("[server]\nlisten = \"" + std::string(address) + "\"\n"), "");
    }
    // Wherever the two come from.
    EXPECT_EQ(
        mistakes_of("[server]\nbehind_proxy = true\n", {{"ROUSE_SERVER_LISTEN", "0.0.0.0:80"},
                                                        {"ROUSE_SERVER_BEHIND_PROXY", "false"}}),
        "ROUSE_SERVER_LISTEN" + alone.substr(alone.find(": error")));
}

TEST(ExposureTest, ACertificateNeedsItsKey) {
    EXPECT_EQ(mistakes_of("[server]\ntls_cert = \"/c\"\n"),
              "rouse.toml:2:12: error: server.tls_cert: needs tls_key as well\n");
    EXPECT_EQ(mistakes_of("[server]\nlisten = \"0.0.0.0:80\"\ntls_key = \"/k\"\n"),
              "rouse.toml:3:11: error: server.tls_key: needs tls_cert as well\n");
}

TEST(ExposureTest, AddressesHaveAHostAndAPort) {
    for (const char* address :
         {"", "127.0.0.1", ":80", "*:80", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "::1:80",
          "[::1]", "[127.0.0.1]:80", "[::1:80", "127.1:80", "0:80", "a b:80", "http://x:80",
          "127.0.0.1:-1", "-x:80"}) {
        EXPECT_EQ(mistakes_of("[server]\nlisten = \"" + std::string(address) + "\"\n"),
                  "rouse.toml:2:10: error: server.listen: expects an address and a port such as "
                  "\"127.0.0.1:7717\" or \"[::1]:7717\", got \"" +
                      std::string(address) + "\"\n");
    }
}

TEST(ExposureTest, OriginsAreNamedOneByOne) {
    for (const char* origin :
         {"*", "null", "app.example", "https://app.example/", "ftp://app.example",
          "https://*.example", "https://u:p@app.example"}) {
        EXPECT_EQ(mistakes_of("[server]\ncors_origins = [\"" + std::string(origin) + "\"]\n"),
                  "rouse.toml:2:17: error: server.cors_origins[0]: expects an origin such as "
                  "\"https://app.example\"\n");
    }
    EXPECT_EQ(mistakes_of(
                  "[server]\ncors_origins = [\"https://app.example:8443\", \"http://[::1]:3\"]\n"),
              "");
}

TEST(UrlTest, HasAKnownSchemeAndAHost) {
    for (const char* url :
         {"ftp://x.example", "x.example", "https://", "https:///x", "https://:80/", "https://a b/",
          "file:///etc/passwd", "HTTPS://x", "https://x:y/", "https://x.example:65536",
          "https://x\\ny", "https://[::1/", "javascript:x"}) {
        EXPECT_EQ(mistakes_of("[server]\npublic_url = \"" + std::string(url) + "\"\n"),
                  "rouse.toml:2:14: error: server.public_url: expects a URL that starts with "
                  "https:// or http://\n")
            << url;
    }
    for (const char* url : {"https://x.example", "http://127.0.0.1:80/a?b=c#d",
                            "https://[::1]:8443/", "http://service_name:80/ä", "https://x/@y"}) {
        EXPECT_EQ(mistakes_of("[server]\npublic_url = \"" + std::string(url) + "\"\n"), "") << url;
    }
}

// T19: somebody puts the secret itself where the name of its variable belongs, or where no secret
// belongs at all. The message is shown to whoever starts the server and kept in its journal.
TEST(SecretTest, IsNeverPartOfAMessage) {
    const std::string tool =
        "[[tools]]\nname = \"t\"\nkind = \"http\"\nurl = \"https://x\"\nasync = true\n";
    const std::string exec = "[[tools]]\nname = \"t\"\nkind = \"exec\"\ncommand = [\"x\"]\n";
    const std::string hook = "[[webhooks]]\nurl = \"https://x\"\n";
    const std::string no_name = "expects the name of an environment variable, not what is in it\n";
    const std::string misplaced =
        "a secret does not belong here: put it into an environment variable and write "
        "\"env:NAME\"\n";
    struct Case {
        std::string section;
        std::string line;
        std::string want;
    };
    for (const auto& [section, line, want] : {
             Case{tool, "callback_secret_env = \"canary-7d1f\"",
                  "rouse.toml:6:23: error: tools[0].callback_secret_env: " + no_name},
             Case{tool, "callback_secret_env = \"canary\"",
                  "rouse.toml:6:23: error: tools[0].callback_secret_env: the environment variable "
                  "is not set\n"},
             Case{hook, "secret_env = \"whsec_canary-7d1f\"",
                  "rouse.toml:3:14: error: webhooks[0].secret_env: " + no_name},
             Case{hook, "secret_env = 5",
                  "rouse.toml:3:14: error: webhooks[0].secret_env: expects the name of an "
                  "environment variable\n"},
             Case{tool, "headers = { Authorization = \"Bearer canary-7d1f\" }",
                  "rouse.toml:6:29: error: tools[0].headers.Authorization: " + misplaced},
             Case{tool, "headers = { x-api-key = \"canary-7d1f\" }",
                  "rouse.toml:6:25: error: tools[0].headers.x-api-key: " + misplaced},
             Case{exec, "env = { DB_PASSWORD = \"canary-7d1f\" }",
                  "rouse.toml:5:23: error: tools[0].env.DB_PASSWORD: " + misplaced},
             Case{tool, "headers = { A = \"env:canary-7d1f\" }",
                  "rouse.toml:6:17: error: tools[0].headers.A: " + no_name},
             Case{tool, "headers = \"Authorization: canary-7d1f\"",
                  "rouse.toml:6:11: error: tools[0].headers: expects a table of names and strings; "
                  "\"env:NAME\" is read\n"},
             Case{"[server]\n", "public_url = \"https://me:canary-7d1f@x\"",
                  "rouse.toml:2:14: error: server.public_url: a URL here must not hold a user name "
                  "or password\n"},
             Case{"[server]\n", "public_url = \"ftp://me:canary-7d1f@x\"",
                  "rouse.toml:2:14: error: server.public_url: expects a URL that starts with "
                  "https:// or http://\n"},
         }) {
        EXPECT_EQ(mistakes_of(section + line), want);
    }
}

TEST(SecretTest, MustBeInTheEnvironment) {
    const std::string hook = "[[webhooks]]\nurl = \"https://x\"\nsecret_env = \"HOOK_SECRET\"\n";
    const std::string at = "rouse.toml:3:14: error: webhooks[0].secret_env: ";
    EXPECT_EQ(mistakes_of(hook), at + "the environment variable HOOK_SECRET is not set\n");
    EXPECT_EQ(mistakes_of(hook, {{"HOOK_SECRET", ""}}),
              at + "the environment variable HOOK_SECRET is empty\n");
    EXPECT_EQ(mistakes_of(hook, {{"HOOK_SECRET", "x"}}), "");
}

TEST(HeadersTest, CannotSmuggle) {
    const std::string tool = "[[tools]]\nname = \"t\"\nkind = \"http\"\nurl = \"https://x\"\n";
    EXPECT_EQ(
        mistakes_of(tool +
                    "headers = { A = \"b\\r\\nHost: y\", \"a b\" = \"c\", \"\" = \"d\", B = 5 }\n"),
        "rouse.toml:5:17: error: tools[0].headers.A: holds characters that can't stand here\n"
        "rouse.toml:5:33: error: tools[0].headers.a b: is no name of a header\n"
        "rouse.toml:5:46: error: tools[0].headers.: is no name of a header\n"
        "rouse.toml:5:60: error: tools[0].headers.B: expects a string\n");
    EXPECT_EQ(
        mistakes_of(tool + "headers = { A = \"env:X\" }\n", {{"X", "b\r\nHost: y"}}),
        "rouse.toml:5:17: error: tools[0].headers.A: holds characters that can't stand here\n");
    EXPECT_EQ(mistakes_of("[[tools]]\nname = \"t\"\nkind = \"exec\"\ncommand = [\"x\"]\n"
                          "env = { \"A=B\" = \"c\", D = \"a\\nb\", E = \"a\\u0000b\" }\n"),
              "rouse.toml:5:9: error: tools[0].env.A=B: is no name of an environment variable\n"
              "rouse.toml:5:38: error: tools[0].env.E: holds characters that can't stand here\n");
}

}  // namespace
}  // namespace rouse
