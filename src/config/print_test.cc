#include "config/print.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <fstream>
#include <iterator>

#include "config/keys.h"
#include "config/load.h"
#include "config/report.h"

namespace rouse {
namespace {

// Every key of every section, none at its default.
constexpr const char* kEverything = R"toml(
[server]
listen = "[::]:7718"
public_url = "https://rouse.example/base"
allowed_hosts = ["rouse.example", "10.0.0.1"]
behind_proxy = true
tls_cert = "~/cert.pem"
tls_key = "~/key.pem"
cors_origins = ["https://app.example"]
log_level = "debug"
[store]
kind = "files"
path = "/var/lib/rouse"
[recovery]
resume = "all"
[limits]
concurrent_runs = 1
model_iterations = 2
turn_time = "never"
call_timeout = "3h"
tool_time = "1500ms"
run_tokens = 27
session_tokens = 28
body_bytes = 1000
header_bytes = "5KiB"
header_fields = 6
header_time = "7s"
request_time = "8s"
idle_time = "9s"
connections = 10
connections_per_address = 11
failed_logins_per_minute = 12
refused_results_per_minute = 13
stream_events = 14
stream_bytes = 15
websocket_message_bytes = 16
websocket_ping = "17s"
webhook_time = "18s"
webhook_answer_bytes = 19
webhook_payload_bytes = 20
shutdown_time = "21s"
[retention]
finished_after = "30d"
[anthropic]
base_url = "https://gateway.example"
api_key_env = "SECRET"
[openai]
base_url = "http://127.0.0.1:11434/v1"
api_key_env = "SECRET"
[[agents]]
name = "helper"
model = "scripted:~/script.jsonl"
system = """Say "no".
\tThen 'yes' \\ \u007f ä."""
tools = ["ask_user", "call", "run", "wait"]
parallel = false
max_iterations = 22
time_limit = "23s"
on_unknown = "ask"
run_tokens = "unlimited"
session_tokens = 34
retries = 0
retry_delay = "35ms"
[[agents]]
name = "b"
model = "openai:x"
base_url = "http://127.0.0.1:11434/v1"
api_key_env = "SECRET"
api = "responses"
headers = { "x-key" = "env:SECRET" }
temperature = 0.25
max_tokens = 36
request = { reasoning = { effort = "low" } }
stream = false
request_timeout = "37s"
idle_timeout = "38s"
ca_file = "~/ca.pem"
[[agents]]
name = "c"
model = "anthropic:y"
temperature = 1
anthropic_version = "2023-06-01"
anthropic_beta = ["a-1", "b-2"]
[[tools]]
name = "call"
kind = "http"
description = "It's \"done\""
parameters = { type = "object", title = "it's", x = [1.0, 2] }
result_schema = '{"maximum": 1E5}'
timeout = "never"
approval = "always"
callback_secret_env = "SECRET"
webhook_url = "https://x.example/settled"
idempotent = true
read_only = false
destructive = true
on_unknown = "error"
async = true
start_timeout = "24s"
url = "https://x.example/start?a=b"
headers = { Authorization = "env:SECRET", "X-Team" = "blue \"1\"" }
[[tools]]
name = "put"
kind = "http"
url = "https://x.example/put"
method = "PUT"
[[tools]]
name = "run"
kind = "exec"
read_only = true
detach_after = "25s"
command = ["/bin/sh", "-c", "echo 'a' \"b\""]
env = { A = "b\nc", KEY = "env:SECRET" }
cwd = "~"
output_bytes = "26KiB"
[[tools]]
name = "wait"
kind = "external"
waits_for = "person"
[[webhooks]]
url = "https://x.example/hook"
secret_env = "SECRET"
events = ["pending.expired", "session.failed"]
)toml";

const std::map<std::string, std::string> kEnvironment = {{"HOME", "/h"}, {"SECRET", "canary-7d1f"}};

ConfigResult load(std::string text) {
    ConfigResult result = load_config({.file_text = std::move(text), .environment = kEnvironment});
    EXPECT_EQ(to_text(result.mistakes), "");
    return result;
}

TEST(PrintTest, WhatIsPrintedLoadsAsTheSame) {
    const ConfigResult first = load(kEverything);
    const ConfigResult again = load(print_config(first.config, first.origins));
    EXPECT_EQ(again.config, first.config);
    EXPECT_EQ(print_config(again.config, {}), print_config(first.config, {}));
    // Nothing is compared with itself only because it was dropped both times.
    EXPECT_NE(first.config.tools[0], ToolConfig{});
    EXPECT_EQ(first.config.agents[0].system, "Say \"no\".\n\tThen 'yes' \\ \x7f ä.");

    const ConfigResult empty = load("");
    EXPECT_EQ(load(print_config(empty.config, empty.origins)).config, empty.config);
}

TEST(PrintTest, TheTestAboveHasEveryKey) {
    const ConfigResult result = load(kEverything);
    config::visit_sections(result.config, [&]<class Section>(const Section& section) {
        const std::string name(config::table_of<Section>().name);
        for (const auto& key : config::table_of<Section>().keys) {
            EXPECT_TRUE(result.origins.contains(name + '.' + std::string(key.name))) << key.name;
            if (key.name == "kind") continue;  // there is but one so far
            EXPECT_NE(key.print(section), key.print(Section{})) << key.name;
        }
    });
    config::visit_lists(result.config, [&]<class Section>(const std::vector<Section>& items) {
        const std::string name(config::table_of<Section>().name);
        for (const auto& key : config::table_of<Section>().keys) {
            bool found = false;
            for (std::size_t i = 0; i < items.size(); ++i) {
                const std::string path = name + '[' + std::to_string(i) + "].";
                found = found || result.origins.contains(path + std::string(key.name));
            }
            EXPECT_TRUE(found) << key.name;
        }
    });
}

RC_GTEST_PROP(PrintTest, AnyTextSurvives, (const std::vector<std::uint16_t>& units)) {
    std::string text;
    for (const std::uint16_t unit : units) {  // characters of one and two bytes
        const unsigned c = unit % 0x7FFU + 1;
        if (c < 0x80) {
            text += static_cast<char>(c);
        } else {
            text += static_cast<char>(0xC0U | (c >> 6U));
            text += static_cast<char>(0x80U | (c & 0x3FU));
        }
    }
    Config config;
    config.store.path = "/x";
    config.agents.push_back(
        {.name = "a", .model = {ModelConfig::Provider::openai, text + "x"}, .system = text});
    config.tools.push_back({.name = "t",
                            .kind = ToolConfig::Kind::exec,
                            .timeout = LimitsConfig{}.tool_time,
                            .command = {"x", text}});
    config.tools[0].env["A"].value = Secret("x" + text);
    const ConfigResult result =
        load_config({.file_text = print_config(config, {{"agents[0].name", {text, 1, 1}}}),
                     .environment = kEnvironment});
    RC_ASSERT(to_text(result.mistakes) == "");
    RC_ASSERT(result.config == config);
}

TEST(PrintTest, SaysWhereAValueCameFrom) {
    const ConfigResult result = load_config(
        {.file_text = "[server]\npublic_url = \"https://x\"\n[limits]\nconnections = 5\n"
                      "[[agents]]\nname = \"a\"\nmodel = \"openai:x\"\n",
         .file_name = "etc/rouse.toml",
         .environment = {{"HOME", "/h"}, {"ROUSE_SERVER_LISTEN", "localhost:80"}},
         .flags = {{"server.log_level", "off"}}});
    EXPECT_EQ(to_text(result.mistakes), "");
    const std::string text = print_config(result.config, result.origins);
    EXPECT_EQ(text.substr(0, text.find("[recovery]")), R"([server]
listen = "localhost:80"  # from ROUSE_SERVER_LISTEN
public_url = "https://x"  # from etc/rouse.toml:2
allowed_hosts = []
behind_proxy = false
cors_origins = []
log_level = "off"  # from the command line

[store]
kind = "files"
path = "/h/.local/share/rouse"

)");
    EXPECT_TRUE(text.contains("\nconnections = 5  # from etc/rouse.toml:4\n"));
    EXPECT_EQ(text.substr(text.find("[[agents]]")), R"([[agents]]
name = "a"  # from etc/rouse.toml:6
model = "openai:x"  # from etc/rouse.toml:7
system = ""
tools = []
parallel = true
max_iterations = 50
time_limit = "1h"
on_unknown = "error"
api = "chat"
stream = true
request_timeout = "1h"
idle_timeout = "5m"
anthropic_version = "2026-10-21"
anthropic_beta = []
retries = 8
retry_delay = "500ms"
run_tokens = "unlimited"
session_tokens = "unlimited"
)");
}

TEST(PrintTest, OfSecretsOnlyTheNamesArePrinted) {  // T19
    const ConfigResult result = load(kEverything);
    EXPECT_EQ(result.config.tools[0].headers.at("Authorization").value.reveal(), "canary-7d1f");
    const std::string text = print_config(result.config, result.origins);
    EXPECT_FALSE(text.contains("canary"));
    EXPECT_TRUE(text.contains("callback_secret_env = \"SECRET\""));
    EXPECT_TRUE(text.contains(R"("Authorization" = "env:SECRET")"));
    EXPECT_TRUE(text.contains(R"("KEY" = "env:SECRET")"));
    EXPECT_TRUE(text.contains("secret_env = \"SECRET\""));
}

TEST(ReportTest, IsTheConfigurationOrAllThatIsWrongWithIt) {
    const ConfigSources good = {.file_text = "[server]\nlisten = \"[::1]:80\"\n",
                                .environment = kEnvironment};
    const ConfigReport valid = check_config(good);
    EXPECT_TRUE(valid.ok);
    const ConfigResult result = load_config(good);
    EXPECT_EQ(valid.text, print_config(result.config, result.origins) + "\n# rouse.toml: valid\n");
    EXPECT_EQ(load(valid.text).config, result.config);

    const ConfigReport wrong =
        check_config({.file_text = "[server]\nlisten = 5\n[sever]\n", .environment = kEnvironment});
    EXPECT_FALSE(wrong.ok);
    EXPECT_EQ(wrong.text,
              "rouse.toml:2:10: error: server.listen: expects an address and a port such as "
              "\"127.0.0.1:7717\" or \"[::1]:7717\", got integer 5\n"
              "rouse.toml:3:2: error: sever: unknown section, did you mean \"server\"?\n"
              "rouse.toml: 2 mistakes\n");

    const ConfigReport none = check_config({.environment = {{"HOME", "/h"}}});
    EXPECT_TRUE(none.ok);
    EXPECT_TRUE(none.text.ends_with("\n# no configuration file: valid\n"));
    const ConfigReport one =
        check_config({.environment = kEnvironment, .flags = {{"server.listen", "x"}}});
    EXPECT_FALSE(one.ok);
    EXPECT_TRUE(one.text.ends_with("\nno configuration file: 1 mistake\n"));
}

// A file that was cut, or in which something was overwritten: a report, whatever it says, that
// shows no secret and nothing that a terminal would act on.
RC_GTEST_PROP(ReportTest, SurvivesAnyDamage, ()) {
    std::string text = kEverything;
    const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
    const auto count = *rc::gen::inRange<std::size_t>(0, 40);
    text.replace(at, count, *rc::gen::arbitrary<std::string>());
    const ConfigReport report = check_config({.file_text = text, .environment = kEnvironment});
    RC_ASSERT(!report.text.contains("canary"));
    RC_ASSERT(report.ok == report.text.ends_with("valid\n"));
    if (report.ok) return;
    for (const char c : report.text)
        RC_ASSERT((static_cast<unsigned char>(c) >= 0x20 && c != 0x7F) || c == '\n');
}

TEST(ChangedKeysTest, AreThoseWithAnotherValue) {
    Config was;
    was.tools.push_back({});
    EXPECT_EQ(changed_keys(was, was), std::vector<std::string>());
    Config now = was;
    now.server.public_url = "https://rouse.example";
    now.limits.concurrent_runs = 1;
    now.tools.front().name = "other";
    now.webhooks.push_back({});
    const std::vector<std::string> changed = {"limits.concurrent_runs", "server.public_url",
                                              "tools", "webhooks"};
    EXPECT_EQ(changed_keys(was, now), changed);
    EXPECT_EQ(changed_keys(now, was), changed);
}

// ---- docs/configuration.md ------------------------------------------------------------------

std::string document() {
    std::ifstream file(ROUSE_SOURCE_DIR "/docs/configuration.md");
    return {std::istreambuf_iterator<char>(file), {}};
}

TEST(DocumentTest, EndsWithTheTablesOfAllKeys) {
    const std::string text = document();
    const std::size_t start = text.find("\n### `[server]`");
    const std::string wanted = text.substr(0, start) + print_config_reference();
    if (text == wanted) return;
    const std::string path = testing::TempDir() + "configuration.md";
    std::ofstream(path) << wanted;
    ADD_FAILURE() << "docs/configuration.md does not match the keys. This one would: " << path;
}

TEST(DocumentTest, ItsExampleLoads) {
    const std::string text = document();
    const std::string open = "```toml\n";
    const std::size_t start = text.find(open);
    ASSERT_NE(start, std::string::npos);
    const std::size_t end = text.find("```", start + open.size());
    const ConfigResult result = load_config(
        {.file_text = text.substr(start + open.size(), end - start - open.size()),
         .environment = {
             {"HOME", "/h"}, {"CI_AUTH", "a"}, {"CI_SECRET", "b"}, {"HOOK_SECRET", "c"}}});
    EXPECT_EQ(to_text(result.mistakes), "");
    EXPECT_EQ(result.config.agents.size(), 1U);
    EXPECT_EQ(result.config.tools.size(), 3U);
    EXPECT_EQ(result.config.webhooks.size(), 1U);
}

}  // namespace
}  // namespace rouse
