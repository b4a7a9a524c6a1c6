#include "config/load.h"

#include <gtest/gtest.h>

#include "config/keys.h"
#include "config/report.h"

namespace rouse {
namespace {

using namespace std::chrono_literals;

const std::map<std::string, std::string> kHome = {{"HOME", "/h"}};

ConfigResult load(std::string text, std::map<std::string, std::string> environment = kHome,
                  std::vector<std::pair<std::string, std::string>> flags = {}) {
    environment.emplace("HOME", "/h");
    ConfigResult result = load_config({.file_text = std::move(text),
                                       .environment = std::move(environment),
                                       .flags = std::move(flags)});
    EXPECT_EQ(to_text(result.mistakes), "");
    return result;
}

TEST(LoadTest, NothingAtAllIsAConfiguration) {
    const ConfigResult result = load_config({.environment = kHome});
    EXPECT_EQ(to_text(result.mistakes), "");
    Config defaults;
    defaults.store.path = "/h/.local/share/rouse";
    EXPECT_EQ(result.config, defaults);
    EXPECT_TRUE(result.origins.empty());
    EXPECT_EQ(load("").config, defaults);
    EXPECT_EQ(load("# nothing\n[server]\n[limits]\n").config, defaults);
}

TEST(LoadTest, DefaultsAreThoseOfTheDocuments) {
    const Config config = load("").config;
    EXPECT_EQ(config.server.listen.text(), "127.0.0.1:7717");
    EXPECT_EQ(config.recovery.resume, RecoveryConfig::Resume::active);
    EXPECT_EQ(config.limits.concurrent_runs, 64U);
    EXPECT_EQ(config.limits.body_bytes, 4U << 20U);
    EXPECT_EQ(config.limits.header_bytes, 16U << 10U);
    EXPECT_EQ(config.limits.call_timeout, 24h);
    EXPECT_EQ(config.retention.finished_after, std::nullopt);
}

TEST(LoadTest, TheExampleOfTheContractLoads) {
    const Config config = load(R"(
[server]
listen = "127.0.0.1:7717"
[store]
kind = "files"
path = "~/.local/share/rouse"
[recovery]
resume = "active"
[limits]
concurrent_runs = 64
[retention]
finished_after = "never"
[[agents]]
name = "helper"
model = "anthropic:claude-…"
system = "…"
tools = ["ask_user", "deploy"]
parallel = true
[[tools]]
name = "deploy"
kind = "http"
url = "https://ci.example/start"
async = true
timeout = "2h"
approval = "never"
callback_secret_env = "DEPLOY_SECRET"
description = "Deploy a preview"
parameters = { type = "object", properties = { branch = { type = "string" } }, required = ["branch"] }
[[webhooks]]
url = "https://ops.example/hook"
secret_env = "HOOK_SECRET"
events = ["session.waiting"]
)",
                               {{"DEPLOY_SECRET", "d"}, {"HOOK_SECRET", "h"}})
                              .config;
    EXPECT_EQ(config.store.path, "/h/.local/share/rouse");
    ASSERT_EQ(config.agents.size(), 1U);
    EXPECT_EQ(config.agents[0].model.provider, ModelConfig::Provider::anthropic);
    EXPECT_EQ(config.agents[0].model.name, "claude-…");
    EXPECT_EQ(config.agents[0].tools, (std::vector<std::string>{"ask_user", "deploy"}));
    ASSERT_EQ(config.tools.size(), 1U);
    EXPECT_EQ(config.tools[0].timeout, 2h);
    EXPECT_EQ(config.tools[0].callback_secret, (SecretText{"DEPLOY_SECRET", Secret("d")}));
    EXPECT_EQ(
        config.tools[0].parameters,
        R"({"type":"object","properties":{"branch":{"type":"string"}},"required":["branch"]})");
    ASSERT_EQ(config.webhooks.size(), 1U);
    EXPECT_EQ(config.webhooks[0].secret.value.reveal(), "h");
    EXPECT_EQ(config.webhooks[0].events, std::vector{WebhookEvent::session_waiting});
}

TEST(LoadTest, FlagsBeatTheEnvironmentBeatsTheFileBeatsDefaults) {
    const std::string file =
        "[limits]\nconcurrent_runs = 1\nheader_fields = 2\nstream_events = 3\n";
    const ConfigResult result =
        load(file, {{"ROUSE_LIMITS_CONCURRENT_RUNS", "10"}, {"ROUSE_LIMITS_HEADER_FIELDS", "20"}},
             {{"limits.concurrent_runs", "99"}, {"limits.concurrent_runs", "100"}});
    EXPECT_EQ(result.config.limits.concurrent_runs, 100U);  // the last flag
    EXPECT_EQ(result.config.limits.header_fields, 20U);
    EXPECT_EQ(result.config.limits.stream_events, 3U);
    EXPECT_EQ(result.config.limits.connections, 10'000U);
    EXPECT_EQ(result.origins.at("limits.concurrent_runs"), (ConfigPlace{"command line", 0, 0}));
    EXPECT_EQ(result.origins.at("limits.header_fields"),
              (ConfigPlace{"ROUSE_LIMITS_HEADER_FIELDS", 0, 0}));
    EXPECT_EQ(result.origins.at("limits.stream_events"), (ConfigPlace{"rouse.toml", 4, 17}));
    EXPECT_FALSE(result.origins.contains("limits.connections"));
}

// What the table prints as a default is what its readers take, key by key, also without quotes.
TEST(LoadTest, EveryKeyOfASectionCanBeSetInTheEnvironmentAndByAFlag) {
    const Config defaults = load("").config;
    std::map<std::string, std::string> environment = kHome;
    std::vector<std::pair<std::string, std::string>> flags;
    config::visit_sections(defaults, [&]<class Section>(const Section& section) {
        const std::string name(config::table_of<Section>().name);
        for (const auto& key : config::table_of<Section>().keys) {
            std::string text = key.print(section).value_or("");
            if (text.empty() && key.name.ends_with("_env")) continue;  // names no variable
            if (text.starts_with('"') || text.starts_with('['))
                text = text.substr(1, text.size() - 2);
            environment[config::variable_name(name, key.name)] = text;
            flags.emplace_back(name + '.' + std::string(key.name), text);
        }
    });
    EXPECT_GT(flags.size(), 30U);
    const ConfigResult from_environment = load("", environment);
    EXPECT_EQ(from_environment.config, defaults);
    EXPECT_EQ(from_environment.origins.size(), flags.size());
    const ConfigResult from_flags = load("", {}, flags);
    EXPECT_EQ(from_flags.config, defaults);
    EXPECT_EQ(from_flags.origins.size(), flags.size());
}

TEST(LoadTest, TheEnvironmentHoldsScalarsAndLists) {
    const Config config =
        load("[server]\nallowed_hosts = [\"x.example\"]\npublic_url = \"https://x\"\n",
             {{"ROUSE_SERVER_LISTEN", "[::1]:80"},
              {"ROUSE_SERVER_ALLOWED_HOSTS", "a.example , b.example"},
              {"ROUSE_SERVER_CORS_ORIGINS", ""},
              {"ROUSE_SERVER_PUBLIC_URL", ""},
              {"ROUSE_SERVER_BEHIND_PROXY", "true"},
              {"ROUSE_SERVER_LOG_LEVEL", "debug"},
              {"ROUSE_STORE_PATH", "~/sessions"},
              {"ROUSE_RECOVERY_RESUME", "off"},
              {"ROUSE_LIMITS_BODY_BYTES", "8MiB"},
              {"ROUSE_LIMITS_STREAM_BYTES", "65536"},
              {"ROUSE_RETENTION_FINISHED_AFTER", "30d"}})
            .config;
    EXPECT_EQ(config.server.listen, (ListenAddress{"::1", 80}));
    EXPECT_EQ(config.server.listen.text(), "[::1]:80");
    EXPECT_EQ(config.server.allowed_hosts, (std::vector<std::string>{"a.example", "b.example"}));
    EXPECT_TRUE(config.server.cors_origins.empty());
    EXPECT_EQ(config.server.public_url, "");
    EXPECT_TRUE(config.server.behind_proxy);
    EXPECT_EQ(config.server.log_level, LogLevel::debug);
    EXPECT_EQ(config.store.path, "/h/sessions");
    EXPECT_EQ(config.recovery.resume, RecoveryConfig::Resume::off);
    EXPECT_EQ(config.limits.body_bytes, 8U << 20U);
    EXPECT_EQ(config.limits.stream_bytes, 65536U);
    EXPECT_EQ(config.retention.finished_after, 30 * 24h);
}

TEST(LoadTest, VariablesOfOthersAreLeftAlone) {
    load("[[webhooks]]\nurl = \"https://x\"\nsecret_env = \"ROUSE_SERVER_HOOK\"\n",
         {{"ROUSE_LOG_LEVEL", "loud"},
          {"ROUSE_SERVER", "x"},
          {"ROUSE_TOOLS_X", "x"},
          {"ROUSE_SERVER_HOOK", "a secret that the file names"},
          // What Kubernetes sets for services named rouse-server and rouse-store.
          {"ROUSE_SERVER_PORT", "tcp://10.0.0.1:7717"},
          {"ROUSE_SERVER_PORT_7717_TCP_ADDR", "10.0.0.1"},
          {"ROUSE_SERVER_SERVICE_HOST", "10.0.0.1"},
          {"ROUSE_STORE_SERVICE_PORT", "80"},
          {"ROUSE_STORE_SERVICE_PORT_HTTP", "80"}});
}

TEST(LoadTest, DataLiesWhereTheUserKeepsData) {
    const auto path = [](std::map<std::string, std::string> environment) {
        return load_config({.environment = std::move(environment)}).config.store.path;
    };
    EXPECT_EQ(path({{"HOME", "/h"}, {"XDG_DATA_HOME", "/x"}}), "/x/rouse");
    EXPECT_EQ(path({{"HOME", "/h"}, {"XDG_DATA_HOME", "relative"}}), "/h/.local/share/rouse");
    EXPECT_EQ(path({{"XDG_DATA_HOME", "/x"}}), "/x/rouse");
    EXPECT_EQ(path({{"ROUSE_STORE_PATH", "/y"}}), "/y");
    EXPECT_EQ(load("[store]\npath = \"~\"").config.store.path, "/h");
    EXPECT_EQ(load("[store]\npath = \"a/~/b\"").config.store.path, "a/~/b");
}

TEST(LoadTest, AnAgentHasTheLimitsOfTheServerUnlessItSaysOtherwise) {
    const Config config = load(R"(
[[agents]]
name = "a"
model = "scripted:~/a.jsonl"
[[agents]]
name = "b"
model = "openai:gpt:x"
max_iterations = 3
time_limit = "never"
[limits]
model_iterations = 7
)",
                               {{"ROUSE_LIMITS_TURN_TIME", "9m"}})
                              .config;
    EXPECT_EQ(config.agents[0].model, (ModelConfig{ModelConfig::Provider::scripted, "/h/a.jsonl"}));
    EXPECT_EQ(config.agents[0].max_iterations, 7U);
    EXPECT_EQ(config.agents[0].time_limit, 9min);
    EXPECT_EQ(config.agents[1].model, (ModelConfig{ModelConfig::Provider::openai, "gpt:x"}));
    EXPECT_EQ(config.agents[1].max_iterations, 3U);
    EXPECT_EQ(config.agents[1].time_limit, std::nullopt);
}

TEST(LoadTest, ACallHasTheTimeThatFitsItsTool) {
    const auto timeout = [](const std::string& tool) {
        return load(
                   "[limits]\ncall_timeout = \"never\"\ntool_time = \"1m\"\n[[tools]]\nname = "
                   "\"x\"\n" +
                   tool)
            .config.tools[0]
            .timeout;
    };
    EXPECT_EQ(timeout("kind = \"external\""), std::nullopt);
    EXPECT_EQ(timeout("kind = \"http\"\nurl = \"http://x\""), 1min);
    EXPECT_EQ(timeout("kind = \"http\"\nurl = \"http://x\"\nasync = true"), std::nullopt);
    EXPECT_EQ(timeout("kind = \"exec\"\ncommand = [\"x\"]\ndetach_after = \"1s\""), std::nullopt);
    EXPECT_EQ(timeout("kind = \"external\"\ntimeout = \"3s\""), 3s);
    EXPECT_EQ(timeout("kind = \"exec\"\ncommand = [\"x\"]\ntimeout = \"never\""), std::nullopt);
}

TEST(LoadTest, SchemasKeepTheirValuesAndTheirOrder) {
    const auto parameters = [](const std::string& text) {
        return load("[[tools]]\nname = \"x\"\nkind = \"external\"\n" + text)
            .config.tools[0]
            .parameters;
    };
    EXPECT_EQ(
        parameters(R"(parameters = { z = 0x10, a = [ 1.0, -2.5, 1e100, 9223372036854775807 ], )"
                   R"(t = true, "k \"y" = "é\n\u0000", n = { }, e = [ ] })"),
        R"({"z":16,"a":[1.0,-2.5,1e+100,9223372036854775807],)"
        R"("t":true,"k \"y":"é\n\u0000","n":{},"e":[]})");
    EXPECT_EQ(parameters("[tools.parameters]\ntype = \"object\"\n"
                         "[tools.parameters.properties.b]\ntype = \"string\"\n"
                         "[tools.parameters.properties.a]\nminimum = 1\n"),
              R"({"type":"object","properties":{"b":{"type":"string"},"a":{"minimum":1}}})");
    // JSON keeps the text of its tokens.
    EXPECT_EQ(parameters(R"(parameters = ' { "maximum" : 1E5, "a": 18446744073709551616 } ')"),
              R"({"maximum":1E5,"a":18446744073709551616})");
    EXPECT_EQ(parameters(""), "");
}

TEST(LoadTest, TextsOfHeadersAndVariablesMayComeFromTheEnvironment) {
    const Config config = load(R"(
[[tools]]
name = "a"
kind = "http"
url = "https://x"
headers = { Authorization = "env:CI_AUTH", X-Team = "blue" }
[[tools]]
name = "b"
kind = "exec"
command = ["x"]
env = { TOKENIZERS_PARALLELISM = "false", API_KEY = "env:CI_AUTH" }
)",
                               {{"CI_AUTH", "Bearer t"}})
                              .config;
    EXPECT_EQ(config.tools[0].headers.at("Authorization"),
              (SecretText{"CI_AUTH", Secret("Bearer t")}));
    EXPECT_EQ(config.tools[0].headers.at("X-Team"), (SecretText{"", Secret("blue")}));
    EXPECT_EQ(config.tools[1].env.at("API_KEY").value.reveal(), "Bearer t");
    EXPECT_EQ(config.tools[1].env.at("TOKENIZERS_PARALLELISM").value.reveal(), "false");
}

TEST(LoadTest, WebhooksTellEverythingUnlessTheySay) {
    const Config config =
        load("[[webhooks]]\nurl = \"https://x\"\nsecret_env = \"S\"\n", {{"S", "s"}}).config;
    EXPECT_EQ(config.webhooks[0].events.size(), 8U);
    EXPECT_EQ(to_string(config.webhooks[0].events.front()), "session.waiting");
    EXPECT_EQ(to_string(config.webhooks[0].events.back()), "pending.expired");
}

TEST(ListenAddressTest, KnowsWhatStaysOnThisMachine) {
    for (const char* host : {"127.0.0.1", "127.1.2.3", "::1", "localhost"}) {
        EXPECT_TRUE((ListenAddress{host, 1}).loopback()) << host;
    }
    for (const char* host : {"0.0.0.0", "::", "128.0.0.1", "10.0.0.1", "fe80::1", "rouse.example",
                             "localhost.example", "::ffff:10.0.0.1"}) {
        EXPECT_FALSE((ListenAddress{host, 1}).loopback()) << host;
    }
}

TEST(ProcessEnvironmentTest, HasWhatThisProcessHas) {
    setenv("ROUSE_TEST_VARIABLE", "a=b", 1);
    EXPECT_EQ(process_environment().at("ROUSE_TEST_VARIABLE"), "a=b");
}

}  // namespace
}  // namespace rouse
