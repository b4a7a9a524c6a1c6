// Every mistake, with the place and the words that a person sees.

#include <gtest/gtest.h>

#include "config/load.h"
#include "config/report.h"

namespace rouse {
namespace {

struct MistakeCase {
    const char* name;
    std::string file;
    std::string want;
    std::map<std::string, std::string> environment = {};
    std::vector<std::pair<std::string, std::string>> flags = {};
};

std::string mistakes_of(const MistakeCase& c) {
    std::map<std::string, std::string> environment = c.environment;
    environment.emplace("HOME", "/h");
    environment.emplace("SECRET", "canary");
    return to_text(load_config({.file_text = c.file,
                                .file_name = "rouse.toml",
                                .environment = environment,
                                .flags = c.flags})
                       .mistakes);
}

class MistakeTest : public testing::TestWithParam<MistakeCase> {};

TEST_P(MistakeTest, IsReportedWithItsPlace) {
    EXPECT_EQ(mistakes_of(GetParam()), GetParam().want);
}

const auto kCaseName = [](const auto& test) { return test.param.name; };

// An item with all it needs, for cases about something else.
const std::string kHttp = "[[tools]]\nname = \"t\"\nkind = \"http\"\nurl = \"https://x\"\n";
const std::string kExec = "[[tools]]\nname = \"t\"\nkind = \"exec\"\ncommand = [\"x\"]\n";
const std::string kExternal = "[[tools]]\nname = \"t\"\nkind = \"external\"\n";
const std::string kAgent = "[[agents]]\nname = \"a\"\nmodel = \"openai:x\"\n";
const std::string kWebhook = "[[webhooks]]\nurl = \"https://x\"\nsecret_env = \"SECRET\"\n";

INSTANTIATE_TEST_SUITE_P(
    Syntax, MistakeTest,
    testing::Values(
        MistakeCase{"OpenHeader", "[server]\n[limits\n",
                    "rouse.toml:2:8: error: not TOML: table header: expected ']', saw '\\n'\n"},
        MistakeCase{"KeyTwice", "[limits]\nconnections = 1\nconnections = 2\n",
                    "rouse.toml:3:15: error: not TOML: key-value pair: cannot redefine existing "
                    "integer 'connections'\n"},
        MistakeCase{"NoQuotes", "[server]\nlisten = here\n",
                    "rouse.toml:2:10: error: not TOML: value: could not determine value type\n"},
        MistakeCase{"NoUtf8", "[server]\nlisten = \"\xff\"\n",
                    "rouse.toml:2:10: error: not TOML: invalid utf-8 sequence\n"},
        // What toml++ itself does not survive.
        MistakeCase{"NoKeyInAHeader", "[}\n",
                    "rouse.toml:1:2: error: not TOML: key: expected bare key starting character or "
                    "string delimiter, saw '}'\n"},
        MistakeCase{"NoValueInAnArray", "a = [1, }\n",
                    "rouse.toml:1:9: error: not TOML: value: could not determine value type\n"},
        MistakeCase{"LettersBeyondAscii", "[limits]\ngröße = 5\n",
                    "rouse.toml:2:3: error: not TOML: key-value pair: expected '=', saw 'ö'\n"},
        MistakeCase{"TheRestIsStillChecked",
                    "[server\n",
                    "rouse.toml:1:8: error: not TOML: table header: expected ']', saw '\\n'\n"
                    "ROUSE_LIMITS_CONNECTIONS: error: limits.connections: expects a number from 1 "
                    "to 1000000, got \"many\"\n"
                    "command line: error: server.listen: expects an address and a port such as "
                    "\"127.0.0.1:7717\" or \"[::1]:7717\", got \"here\"\n",
                    {{"ROUSE_LIMITS_CONNECTIONS", "many"}},
                    {{"server.listen", "here"}}}),
    kCaseName);

INSTANTIATE_TEST_SUITE_P(
    Names, MistakeTest,
    testing::Values(
        MistakeCase{"Section", "[sever]\n",
                    "rouse.toml:1:2: error: sever: unknown section, did you mean \"server\"?\n"},
        MistakeCase{"SectionInCapitals", "[Server]\n",
                    "rouse.toml:1:2: error: Server: unknown section, did you mean \"server\"?\n"},
        MistakeCase{"List", "[[agent]]\n",
                    "rouse.toml:1:3: error: agent: unknown section, did you mean \"agents\"?\n"},
        MistakeCase{"SectionLikeNone", "[banana]\n",
                    "rouse.toml:1:2: error: banana: unknown section; there are: server, store, "
                    "recovery, limits, retention, anthropic, openai, agents, tools, webhooks\n"},
        MistakeCase{"Key", "[server]\n  listn = 5\n",
                    "rouse.toml:2:3: error: server.listn: unknown key, did you mean \"listen\"?\n"},
        MistakeCase{"KeyLikeNone", "[store]\nbanana = 5\n",
                    "rouse.toml:2:1: error: store.banana: unknown key; there are: kind, path\n"},
        MistakeCase{"KeyInNoSection", "listen = \"127.0.0.1:80\"\n",
                    "rouse.toml:1:1: error: listen: unknown key; it belongs to [server]\n"},
        MistakeCase{"KeyInTheWrongSection", "[store]\nlisten = \"127.0.0.1:80\"\n",
                    "rouse.toml:2:1: error: store.listen: unknown key; it belongs to [server]\n"},
        MistakeCase{"EscapesInAName", "[server]\n\"\\u001b[2J\" = 5\n",
                    "rouse.toml:2:1: error: server.\\x1b[2J: unknown key; there are: listen, "
                    "public_url, allowed_hosts, behind_proxy, tls_cert, tls_key, cors_origins, "
                    "log_level\n"},
        MistakeCase{"KeyOfATool", kHttp + "heders = {}\n",
                    "rouse.toml:5:1: error: tools[0].heders: unknown key, did you mean "
                    "\"headers\"?\n"},
        // "command" is near, but not for this kind.
        MistakeCase{"OnlyKeysOfItsKindAreSuggested", kExternal + "comand = []\n",
                    "rouse.toml:4:1: error: tools[0].comand: unknown key; there are: name, kind, "
                    "description, parameters, result_schema, timeout, approval, "
                    "callback_secret_env, webhook_url, idempotent, read_only, destructive, "
                    "waits_for\n"},
        MistakeCase{"KeyOfAnotherKind", kExternal + "command = [\"x\"]\nurl = 5\nasync = true\n",
                    "rouse.toml:4:1: error: tools[0].command: is a key of exec tools; this one is "
                    "external\n"
                    "rouse.toml:5:1: error: tools[0].url: is a key of http tools; this one is "
                    "external\n"
                    "rouse.toml:6:1: error: tools[0].async: is a key of http or exec tools; this "
                    "one is external\n"},
        MistakeCase{"WithoutAKindAllKeysFit",
                    "[[tools]]\nname = \"t\"\ncomand = []\nurl = \"https://x\"\n",
                    "rouse.toml:1:1: error: tools[0].kind: is missing: [[tools]] needs it\n"
                    "rouse.toml:3:1: error: tools[0].comand: unknown key, did you mean "
                    "\"command\"?\n"},
        MistakeCase{"Variable",
                    "",
                    "ROUSE_SERVER_LISTN: error: unknown variable, did you mean "
                    "\"ROUSE_SERVER_LISTEN\"?\n",
                    {{"ROUSE_SERVER_LISTN", "x"}}},
        MistakeCase{"VariableLikeNone",
                    "",
                    "ROUSE_STORE_BANANA: error: unknown variable; there are: KIND, PATH\n",
                    {{"ROUSE_STORE_BANANA", "x"}}},
        MistakeCase{"Flag",
                    "",
                    "command line: error: server.lisetn: unknown key, did you mean "
                    "\"server.listen\"?\n"
                    "command line: error: agents.x: unknown key\n",
                    {},
                    {{"server.lisetn", "x"}, {"agents.x", "x"}}}),
    kCaseName);

INSTANTIATE_TEST_SUITE_P(
    Types, MistakeTest,
    testing::Values(
        MistakeCase{"Duration", "[limits]\ntool_time = 5\nidle_time = \"soon\"\nturn_time = 1.5\n",
                    "rouse.toml:2:13: error: limits.tool_time: expects a duration such as \"2h\", "
                    "got integer 5\n"
                    "rouse.toml:3:13: error: limits.idle_time: expects a duration such as \"2h\", "
                    "got \"soon\"\n"
                    "rouse.toml:4:13: error: limits.turn_time: expects a duration such as \"2h\", "
                    "or \"never\", got float 1.5\n"},
        MistakeCase{"NeverOnlyWhereItMakesSense", "[limits]\ntool_time = \"never\"\n",
                    "rouse.toml:2:13: error: limits.tool_time: expects a duration such as \"2h\", "
                    "got \"never\"\n"},
        MistakeCase{"Number",
                    "[limits]\nconnections = \"5\"\nstream_events = 0\nheader_fields = -1\n"
                    "concurrent_runs = 1000001\n",
                    "rouse.toml:2:15: error: limits.connections: expects a number from 1 to "
                    "1000000, got \"5\"\n"
                    "rouse.toml:3:17: error: limits.stream_events: expects a number from 1 to "
                    "1000000, got integer 0\n"
                    "rouse.toml:4:17: error: limits.header_fields: expects a number from 1 to "
                    "1000000, got integer -1\n"
                    "rouse.toml:5:19: error: limits.concurrent_runs: expects a number from 1 to "
                    "1000000, got integer 1000001\n"},
        MistakeCase{"Bytes", "[limits]\nbody_bytes = \"4MB\"\nstream_bytes = -1\n",
                    "rouse.toml:2:14: error: limits.body_bytes: expects a size in bytes such as "
                    "65536 or \"4MiB\", got \"4MB\"\n"
                    "rouse.toml:3:16: error: limits.stream_bytes: expects a size in bytes such as "
                    "65536 or \"4MiB\", got integer -1\n"},
        MistakeCase{"Flag", "[server]\nbehind_proxy = \"yes\"\n",
                    "rouse.toml:2:16: error: server.behind_proxy: expects true or false, got "
                    "\"yes\"\n"},
        MistakeCase{"FlagInTheEnvironment",
                    "",
                    "ROUSE_SERVER_BEHIND_PROXY: error: server.behind_proxy: expects true or false, "
                    "got \"1\"\n",
                    {{"ROUSE_SERVER_BEHIND_PROXY", "1"}}},
        MistakeCase{"Text", kAgent + "system = 1979-05-27\n",
                    "rouse.toml:4:10: error: agents[0].system: expects a string, got a date or "
                    "time\n"},
        MistakeCase{"TextWithNul", kAgent + "system = \"a\\u0000b\"\n",
                    "rouse.toml:4:10: error: agents[0].system: must not hold a NUL character\n"},
        MistakeCase{"TextThatIsNotUtf8",
                    "",
                    "ROUSE_STORE_PATH: error: store.path: must be UTF-8\n",
                    {{"ROUSE_STORE_PATH", "/\xff"}}},
        MistakeCase{"List", "[server]\nallowed_hosts = \"x.example\"\n",
                    "rouse.toml:2:17: error: server.allowed_hosts: expects an array, each item a "
                    "host name such as \"rouse.example\", got \"x.example\"\n"},
        MistakeCase{"ItemsOfAList",
                    "[server]\nallowed_hosts = [\"x.example\", 5, \"http://y\", \"127.1\"]\n",
                    "rouse.toml:2:31: error: server.allowed_hosts[1]: expects a host name such as "
                    "\"rouse.example\", got integer 5\n"
                    "rouse.toml:2:34: error: server.allowed_hosts[2]: expects a host name such as "
                    "\"rouse.example\", got \"http://y\"\n"
                    "rouse.toml:2:46: error: server.allowed_hosts[3]: expects a host name such as "
                    "\"rouse.example\", got \"127.1\"\n"},
        MistakeCase{"SectionThatIsNoTable", "server = 5\nlimits = []\n",
                    "rouse.toml:1:10: error: server: stands in the file once, as a table: write "
                    "[server]\n"
                    "rouse.toml:2:10: error: limits: stands in the file once, as a table: write "
                    "[limits]\n"},
        MistakeCase{"SectionThatIsAList", "[[server]]\n",
                    "rouse.toml:1:1: error: server: stands in the file once, as a table: write "
                    "[server]\n"},
        MistakeCase{"ListThatIsNone", "tools = [5]\n[agents]\nname = \"a\"\n",
                    "rouse.toml:1:10: error: tools[0]: expects a table: write [[tools]], got "
                    "integer 5\n"
                    "rouse.toml:2:1: error: agents: is a list: write [[agents]]\n"}),
    kCaseName);

INSTANTIATE_TEST_SUITE_P(
    Values, MistakeTest,
    testing::Values(
        MistakeCase{"Choice", "[recovery]\nresume = \"some\"\n[server]\nlog_level = \"WARN\"\n",
                    "rouse.toml:2:10: error: recovery.resume: expects off, active or all, got "
                    "\"some\"\n"
                    "rouse.toml:4:13: error: server.log_level: expects debug, info, warn, error or "
                    "off, got \"WARN\"\n"},
        MistakeCase{"ChoicesOfATool",
                    kHttp + "method = \"post\"\napproval = true\non_unknown = \"guess\"\n",
                    "rouse.toml:5:10: error: tools[0].method: expects GET, POST, PUT, PATCH or "
                    "DELETE, got \"post\"\n"
                    "rouse.toml:6:12: error: tools[0].approval: expects never or always, got "
                    "boolean true\n"
                    "rouse.toml:7:14: error: tools[0].on_unknown: expects error or ask, got "
                    "\"guess\"\n"},
        MistakeCase{"StoreOfALaterVersion", "[store]\nkind = \"sqlite\"\n",
                    "rouse.toml:2:8: error: store.kind: \"sqlite\" is not available in this "
                    "version; there is \"files\"\n"},
        MistakeCase{"AnotherUsersHome", "[store]\npath = \"~bob/x\"\n",
                    "rouse.toml:2:8: error: store.path: expects ~ or ~/…, the home directory of "
                    "the one who runs the server; write any other in full\n"},
        MistakeCase{"Model",
                    "[[agents]]\nname = \"a\"\nmodel = \"gpt-x\"\n[[agents]]\nname = \"b\"\n"
                    "model = \"openai:\"\n[[agents]]\nname = \"c\"\nmodel = \"antropic:x\"\n",
                    "rouse.toml:3:9: error: agents[0].model: expects scripted:<file>, "
                    "anthropic:<model> or openai:<model>, got \"gpt-x\"\n"
                    "rouse.toml:6:9: error: agents[1].model: expects scripted:<file>, "
                    "anthropic:<model> or openai:<model>, got \"openai:\"\n"
                    "rouse.toml:9:9: error: agents[2].model: expects scripted:<file>, "
                    "anthropic:<model> or openai:<model>, got \"antropic:x\"\n"},
        MistakeCase{
            "KeysOfAnotherProvider",
            kAgent + "anthropic_version = \"x\"\nanthropic_beta = [\"y\"]\n" +
                "[[agents]]\nname = \"b\"\nmodel = \"anthropic:x\"\napi = \"responses\"\n" +
                "[[agents]]\nname = \"c\"\nmodel = \"scripted:x\"\nbase_url = "
                "\"https://x\"\n",
            "rouse.toml:4:21: error: agents[0].anthropic_version: is for anthropic models\n"
            "rouse.toml:5:18: error: agents[0].anthropic_beta: is for anthropic models\n"
            "rouse.toml:9:7: error: agents[1].api: is for openai models\n"
            "rouse.toml:13:12: error: agents[2].base_url: is for models of a provider; this "
            "one is scripted\n"},
        MistakeCase{
            "TemperatureThatAnthropicRefuses",
            "[[agents]]\nname = \"a\"\nmodel = \"anthropic:x\"\ntemperature = 1\n",
            "rouse.toml:4:15: error: agents[0].temperature: is taken by Anthropic only with "
            "anthropic_version = \"2023-06-01\"\n"},
        MistakeCase{
            "NumbersOfAModel",
            kAgent + "temperature = 3\nmax_tokens = 0\nretries = -1\nrun_tokens = \"many\"\n"
                     "request = \"[]\"\n",
            "rouse.toml:4:15: error: agents[0].temperature: expects a number from 0 to 2, got "
            "integer 3\n"
            "rouse.toml:5:14: error: agents[0].max_tokens: expects a number from 1 to "
            "1000000, got integer 0\n"
            "rouse.toml:6:11: error: agents[0].retries: expects a number from 0 to 100, got "
            "integer -1\n"
            "rouse.toml:7:14: error: agents[0].run_tokens: expects a number of tokens, or "
            "\"unlimited\", got \"many\"\n"
            "rouse.toml:8:11: error: agents[0].request: must be a JSON object\n"},
        MistakeCase{"Name", "[[agents]]\nname = \"a b\"\nmodel = \"openai:x\"\n",
                    "rouse.toml:2:8: error: agents[0].name: expects a name of letters, digits, _ "
                    "and -, at most 64, got \"a b\"\n"},
        MistakeCase{"Event", kWebhook + "events = [\"session.waiting\", \"session.done\"]\n",
                    "rouse.toml:4:30: error: webhooks[0].events[1]: expects session.waiting, "
                    "session.resumed, session.completed, session.failed, session.interrupted, "
                    "pending.created, pending.expiring or pending.expired, got \"session.done\"\n"},
        MistakeCase{"NoEvent", kWebhook + "events = []\n",
                    "rouse.toml:4:10: error: webhooks[0].events: must name an event; leave it out "
                    "for all\n"},
        MistakeCase{"Schema", kExternal + "parameters = '[1]'\nresult_schema = '{'\n",
                    "rouse.toml:4:14: error: tools[0].parameters: a JSON Schema must be a JSON "
                    "object\n"
                    "rouse.toml:5:17: error: tools[0].result_schema: is not acceptable as JSON at "
                    "byte 1: incomplete JSON\n"},
        MistakeCase{"SchemaThatIsNone",
                    kExternal + "parameters = { type = \"objekt\" }\n"
                                "result_schema = { \"$ref\" = \"#\" }\n",
                    "rouse.toml:4:14: error: tools[0].parameters: is no JSON Schema: Unrecognised "
                    "JSON type name 'objekt'\n"
                    "rouse.toml:5:17: error: tools[0].result_schema: is no JSON Schema: it refers "
                    "to itself without end\n"},
        MistakeCase{"SchemaOfAnotherType", kExternal + "parameters = [1]\n",
                    "rouse.toml:4:14: error: tools[0].parameters: expects a JSON Schema as a table "
                    "or as a string of JSON, got an array\n"},
        MistakeCase{
            "WhatJsonDoesNotHave",
            kExternal + "parameters = { a = [1979-05-27], b = { c = inf, d = 07:32:00 } }\n",
            "rouse.toml:4:21: error: tools[0].parameters: JSON has no dates: write a "
            "string\n"
            "rouse.toml:4:44: error: tools[0].parameters: JSON has no inf and no nan\n"
            "rouse.toml:4:53: error: tools[0].parameters: JSON has no dates: write a "
            "string\n"}),
    kCaseName);

INSTANTIATE_TEST_SUITE_P(
    Required, MistakeTest,
    testing::Values(
        MistakeCase{"OfAnAgent", "[[agents]]\n",
                    "rouse.toml:1:1: error: agents[0].name: is missing: [[agents]] needs it\n"
                    "rouse.toml:1:1: error: agents[0].model: is missing: [[agents]] needs it\n"},
        MistakeCase{"OfATool", "[[tools]]\n",
                    "rouse.toml:1:1: error: tools[0].name: is missing: [[tools]] needs it\n"
                    "rouse.toml:1:1: error: tools[0].kind: is missing: [[tools]] needs it\n"},
        MistakeCase{
            "OfEachKind",
            "[[tools]]\nname = \"a\"\nkind = \"http\"\n[[tools]]\nname = \"b\"\nkind = \"exec\"\n",
            "rouse.toml:1:1: error: tools[0].url: is missing: [[tools]] needs it when kind "
            "is \"http\"\n"
            "rouse.toml:4:1: error: tools[1].command: is missing: [[tools]] needs it when "
            "kind is \"exec\"\n"},
        MistakeCase{"OfAWebhook", "[[webhooks]]\n",
                    "rouse.toml:1:1: error: webhooks[0].url: is missing: [[webhooks]] needs it\n"
                    "rouse.toml:1:1: error: webhooks[0].secret_env: is missing: [[webhooks]] needs "
                    "it\n"},
        MistakeCase{"Empty", "[[tools]]\nname = \"\"\nkind = \"http\"\nurl = \"\"\n",
                    "rouse.toml:2:8: error: tools[0].name: expects a name of letters, digits, _ "
                    "and -, at most 64, got \"\"\n"
                    "rouse.toml:4:7: error: tools[0].url: must not be empty\n"},
        MistakeCase{"EmptyCommand", "[[tools]]\nname = \"t\"\nkind = \"exec\"\ncommand = []\n",
                    "rouse.toml:4:11: error: tools[0].command: must name a program\n"}),
    kCaseName);

INSTANTIATE_TEST_SUITE_P(
    Whole, MistakeTest,
    testing::Values(
        MistakeCase{"NamesTwice", kAgent + kAgent + kHttp + kExec,
                    "rouse.toml:5:8: error: agents[1].name: \"a\" has been used in line 2\n"
                    "rouse.toml:12:8: error: tools[1].name: \"t\" has been used in line 8\n"},
        MistakeCase{
            "UnknownTool",
            kAgent + "tools = [\"ask_usr\", \"t\", \"tt\", \"banana\"]\n" + kExternal,
            "rouse.toml:4:10: error: agents[0].tools[0]: no tool is named \"ask_usr\", did "
            "you mean \"ask_user\"?\n"
            "rouse.toml:4:26: error: agents[0].tools[2]: no tool is named \"tt\", did you "
            "mean \"t\"?\n"
            "rouse.toml:4:32: error: agents[0].tools[3]: no tool is named \"banana\"; there "
            "are: ask_user, wait_until, start_session, broadcast, t\n"},
        MistakeCase{"ToolTwice", kAgent + "tools = [\"broadcast\", \"broadcast\"]\n",
                    "rouse.toml:4:23: error: agents[0].tools[1]: \"broadcast\" is named twice\n"},
        MistakeCase{"BuiltInName", "[[tools]]\nname = \"wait_until\"\nkind = \"external\"\n",
                    "rouse.toml:2:8: error: tools[0].name: \"wait_until\" is the name of a "
                    "built-in tool\n"},
        MistakeCase{"AsyncWithoutBody", kHttp + "async = true\nmethod = \"GET\"\n",
                    "rouse.toml:6:10: error: tools[0].method: is always POST for async tools\n"},
        MistakeCase{"EmptyPath", "[store]\npath = \"\"\n",
                    "rouse.toml:2:8: error: store.path: must not be empty\n"},
        MistakeCase{"EmptyPathInTheEnvironment",
                    "",
                    "ROUSE_STORE_PATH: error: store.path: must not be empty\n",
                    {{"ROUSE_STORE_PATH", ""}}},
        MistakeCase{"AsyncKeys",
                    kHttp + "start_timeout = \"1s\"\ncallback_secret_env = \"SECRET\"\n",
                    "rouse.toml:5:17: error: tools[0].start_timeout: is for async tools: set async "
                    "= true\n"
                    "rouse.toml:6:23: error: tools[0].callback_secret_env: is for async tools: set "
                    "async = true\n"},
        MistakeCase{"AsyncAndDetached", kExec + "async = true\ndetach_after = \"1s\"\n",
                    "rouse.toml:6:16: error: tools[0].detach_after: is for tools that are not "
                    "async\n"},
        MistakeCase{"ReadOnlyAndDestructive", kExec + "read_only = true\ndestructive = true\n",
                    "rouse.toml:6:15: error: tools[0].destructive: contradicts read_only\n"},
        MistakeCase{"ABodyLargerThanACommit", "[limits]\nbody_bytes = 16777217\n",
                    "rouse.toml:2:14: error: limits.body_bytes: must be at most \"16MiB\"\n"},
        MistakeCase{
            "WhatIsWrongIsNotReportedTwice",
            "[[tools]]\nname = \"t\"\nkind = \"exec\"\ncommand = [5]\nasync = 1\nstart_timeout = "
            "\"1s\"\n",
            "rouse.toml:4:12: error: tools[0].command[0]: expects a string, got integer 5\n"
            "rouse.toml:5:9: error: tools[0].async: expects true or false, got integer 1\n"},
        MistakeCase{"NoHome",
                    "",
                    "environment: error: store.path: is missing: without HOME and "
                    "XDG_DATA_HOME there is no default\n",
                    {{"HOME", ""}}},
        MistakeCase{"NoHomeForATilde",
                    "[store]\npath = \"~/x\"\n",
                    "rouse.toml:2:8: error: store.path: ~ can't be resolved: the environment "
                    "variable HOME is not set\n",
                    {{"HOME", ""}}}),
    kCaseName);

}  // namespace
}  // namespace rouse
