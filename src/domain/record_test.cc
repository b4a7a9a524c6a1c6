// Every record kind, and every other value that is stored, written and read back: with all of its
// fields, with none that it can do without, and with each of them alone.

#include "domain/record.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "domain/chain.h"
#include "domain/summary.h"

namespace rouse {
namespace {

const Timestamp kAt = from_epoch_ms(1'767'225'600'125);

// ---- values that are not the default ---------------------------------------------------------

template <class T>
void fill(T& value);

Content every_block() {
    TextBlock text{"plain \"quoted\"\n\t\x01 \xE2\x82\xAC \\u0041", {",\"cache\":{\"ttl\":5.0}"}};
    ToolUseBlock use{CallId{"toolu_1"}, "deploy", RawJson::trusted(R"({"n":0.10})"), {",\"x\":1"}};
    ToolResultBlock result{CallId{"toolu_1"}, RawJson::trusted("\"ok\""), true, {",\"y\":[]"}};
    ImageBlock image{RawJson::trusted(R"({"type":"base64","data":"AA=="})"), {",\"z\":null"}};
    UnknownBlock unknown{RawJson::trusted(R"({"signature":"A\/b","type":"thinking","n":1E+2})")};
    return {text, use, result, image, unknown};
}

template <class T>
void fill_fields(T& value) {
    std::apply([&](const auto&... one) { (fill(value.*one.member), ...); }, T::fields());
    if constexpr (codec::WithExtra<T>) value.extra.text = R"(,"x_new":{"a":[1.0,"\u00e9"]},"x":0)";
}

template <class T>
void fill(T& value) {
    if constexpr (codec::kIsOptional<T>) {
        fill(value.emplace());
    } else if constexpr (std::same_as<T, Content>) {
        value = every_block();
    } else if constexpr (codec::kIsVector<T>) {
        value.resize(2);
        for (auto& item : value)
            fill(item);
    } else if constexpr (std::same_as<T, std::string>) {
        value = "a \"text\" with\nlines, \x7F, \xC3\xA9 and \xF0\x9F\x9A\x80\\";
    } else if constexpr (codec::AnyId<T>) {
        value = T(std::string(T::kPrefix) + "01J-x9");
    } else if constexpr (std::same_as<T, CallId>) {
        value.text = "call/1 \"any\" text";
    } else if constexpr (std::same_as<T, Timestamp>) {
        value = kAt;
    } else if constexpr (std::same_as<T, RawJson>) {
        value = RawJson::trusted(R"({"n":0.10,"big":18446744073709551616,"e":-1E-7,"s":"\/"})");
    } else if constexpr (std::same_as<T, bool>) {
        value = true;
    } else if constexpr (std::integral<T>) {
        value = 2'000'000'000;
    } else if constexpr (std::is_enum_v<T>) {
        value = static_cast<T>(std::size(kEnumNames<T>) - 1);
    } else {
        fill_fields(value);
    }
}

// Sets what must be there; an empty list may stay empty.
template <class T>
void fill_required(T& value) {
    const auto set = [&](const auto& one) {
        if (one.presence != Presence::required) return;
        auto& member = value.*one.member;
        using Member = std::remove_reference_t<decltype(member)>;
        if constexpr (codec::Fielded<Member>) {
            fill_required(member);
        } else if constexpr (!codec::kIsVector<Member>) {
            fill(member);
        }
    };
    std::apply([&](const auto&... one) { (set(one), ...); }, T::fields());
}

// All, none, and each field alone.
template <class T>
std::vector<T> samples() {
    std::vector<T> made(2);
    fill_fields(made[0]);
    fill_required(made[1]);
    const auto one_more = [&](const auto& one) {
        if (one.presence == Presence::required) return;
        T& value = made.emplace_back();
        fill_required(value);
        fill(value.*one.member);
    };
    std::apply([&](const auto&... one) { (one_more(one), ...); }, T::fields());
    return made;
}

// Calls `visit` with a value of each record type that has a kind of its own.
template <class Variant>
struct Each;
template <class... Bodies>
struct Each<std::variant<Bodies...>> {
    static void visit(const auto& visit_one) {
        const auto visit_known = [&]<class T>(std::type_identity<T>) {
            if constexpr (requires { T::kKind; }) visit_one(T{});
        };
        (visit_known(std::type_identity<Bodies>{}), ...);
    }
};
void each_kind(const auto& visit_one) {
    Each<RecordBody>::visit(visit_one);
}

std::string line_of(const RecordBody& body) {
    std::string line;
    Chain chain = Chain::start_of(SessionId("sess_1"));
    append_line(line, 7, kAt, body, chain);
    line.pop_back();
    return line;
}

// ---- round trips -----------------------------------------------------------------------------

TEST(RecordTest, EveryKindIsReadBackAsItWasWrittenAndWrittenAgainByteForByte) {
    std::size_t count = 0;
    each_kind([&](const auto& kind) {
        using Body = std::remove_cvref_t<decltype(kind)>;
        for (const Body& body : samples<Body>()) {
            ++count;
            const std::string line = line_of(body);
            const Result<Record> parsed = parse_record(line);
            ASSERT_TRUE(parsed) << line << "\n" << parsed.error().message;
            EXPECT_EQ(parsed->seq, 7U);
            EXPECT_EQ(parsed->at, kAt);
            ASSERT_TRUE(std::holds_alternative<Body>(parsed->body)) << line;
            EXPECT_EQ(std::get<Body>(parsed->body), body) << line;
            EXPECT_EQ(line_of(parsed->body), line);
        }
    });
    EXPECT_GT(count, 100U);
}

template <class T>
void expect_round_trips() {
    for (const T& value : samples<T>()) {
        const std::string text = to_json(value);
        EXPECT_TRUE(RawJson::parse(text)) << text;
        const Result<T> back = from_json<T>(text, "value");
        ASSERT_TRUE(back) << text;
        EXPECT_EQ(*back, value) << text;
        EXPECT_EQ(to_json(*back), text);
    }
}

// The snapshot, the index row, and their parts.
TEST(RecordTest, EveryStoredValueIsReadBackAsItWasWritten) {
    expect_round_trips<SessionState>();
    expect_round_trips<SessionSummary>();
    expect_round_trips<RunFacts>();
    expect_round_trips<PendingSummary>();
    expect_round_trips<PendingCall>();
    expect_round_trips<Token>();
    expect_round_trips<rouse::Run>();
    expect_round_trips<Wait>();
    expect_round_trips<Recovery>();
    expect_round_trips<ToolResult>();
}

// What we write is JSON that others can read, too.
TEST(RecordTest, EveryLineIsOneValidJsonObjectWithoutLineBreaks) {
    each_kind([](const auto& kind) {
        using Body = std::remove_cvref_t<decltype(kind)>;
        for (const Body& body : samples<Body>()) {
            const std::string line = line_of(body);
            const Result<RawJson> json = RawJson::parse(line);
            ASSERT_TRUE(json) << line;
            EXPECT_EQ(json->text(), line);  // compact already
            EXPECT_EQ(line.find('\n'), std::string::npos);
        }
    });
}

// S3-24, S3-25, S3-69, and the table of kinds in the design.
TEST(RecordTest, KindsAreThoseOfTheFormat) {
    std::set<std::string> kinds;
    each_kind([&](const auto& kind) { kinds.insert(std::string(kind.kKind)); });
    const std::set<std::string> want = {
        "session.created",   "session.updated",   "session.forked",     "session.compacted",
        "session.deleted",   "message.user",      "message.assistant",  "message.system",
        "run.started",       "run.waiting",       "run.resumed",        "run.redriven",
        "run.retrying",      "run.completed",     "run.failed",         "run.cancelled",
        "run.interrupted",   "tool.started",      "tool.completed",     "tool.failed",
        "pending.created",   "pending.waiting",   "pending.processing", "pending.progress",
        "pending.expiring",  "pending.completed", "pending.failed",     "pending.expired",
        "pending.cancelled", "pending.approved",  "token.minted",       "token.consumed",
        "token.revoked",     "token.expired",     "inbox.received",     "inbox.presented",
        "inbox.handled",     "inbox.dropped",     "outbox.sent",        "boot.started",
        "boot.recovered",    "boot.stopped",      "status.derived",     "context.repaired"};
    EXPECT_EQ(kinds, want);
}

// ---- the bytes on disk -----------------------------------------------------------------------

// S3-18 S3-19 S3-20 S3-21 S3-22 S3-23 S3-25, with the ids of S3-80.
TEST(RecordTest, RecordsLookLikeTheFormat) {
    const RunId run("run_9f5");
    const WaitId wait("wait_1");
    const TokenId token("rt_5f0");
    const std::vector<std::pair<RecordBody, std::string>> cases = {
        {MessageUser{MessageId("msg_u1"), text_content("Hi"), false, {}},
         R"("kind":"message.user","message_id":"msg_u1","content":[{"type":"text","text":"Hi"}])"},
        {RunStarted{run, BootId("boot_20260221_1"), {}, {}},
         R"("kind":"run.started","run_id":"run_9f5","boot_id":"boot_20260221_1")"},
        {RunWaiting{run, wait, WaitKind::tool_result, token, kAt, {}, {}},
         R"("kind":"run.waiting","run_id":"run_9f5","wait_id":"wait_1","wait_kind":"tool_result",)"
         R"("resume_token_id":"rt_5f0","deadline_at":"2026-01-01T00:00:00.125Z")"},
        {RunInterrupted{run, InterruptReason::process_exit, false, {}},
         R"("kind":"run.interrupted","run_id":"run_9f5","reason":"process_exit")"},
        {StatusDerived{SessionStatus::interrupted_waiting, {}},
         R"("kind":"status.derived","status":"interrupted_waiting")"},
        {TokenMinted{token, "abc", run, wait, WaitKind::person, std::nullopt, {}},
         R"("kind":"token.minted","token_id":"rt_5f0","hash":"abc","run_id":"run_9f5",)"
         R"("wait_id":"wait_1","wait_kind":"person")"},
        {TokenConsumed{token, wait, ResumeReason::result, {}, {}},
         R"("kind":"token.consumed","token_id":"rt_5f0","wait_id":"wait_1","reason":"result")"},
        {RunResumed{run, BootId("boot_1"), wait, ResumeReason::expired, {}},
         R"("kind":"run.resumed","run_id":"run_9f5","boot_id":"boot_1","wait_id":"wait_1",)"
         R"("reason":"expired")"},
    };
    for (const auto& [body, text] : cases) {
        EXPECT_EQ(render_body(body), text);
        const std::string start = R"({"seq":7,"ts":"2026-01-01T00:00:00.125Z",)" + text;
        EXPECT_TRUE(line_of(body).starts_with(start + R"(,"chain":")")) << line_of(body);
        // A reader may hand it over without its chain.
        const Result<Record> parsed = parse_record(start + "}");
        ASSERT_TRUE(parsed);
        EXPECT_EQ(parsed->body, body);
    }
}

// ---- what a later version wrote (T32) --------------------------------------------------------

TEST(RecordTest, UnknownKindsSurvive) {
    const std::string line =
        R"({"seq":3,"ts":"2026-01-01T00:00:00.125Z","kind":"executor.ready","url":"http:\/\/x",)"
        R"("n":1.50,"nested":{"chain":"no","a":[1,2.0]},"kind2":null})";
    const Result<Record> parsed = parse_record(line);
    ASSERT_TRUE(parsed);
    const auto* unknown = std::get_if<UnknownRecord>(&parsed->body);
    ASSERT_NE(unknown, nullptr);
    EXPECT_EQ(kind_of(parsed->body), "executor.ready");
    EXPECT_EQ(R"({"seq":3,"ts":"2026-01-01T00:00:00.125Z",)" + render_body(parsed->body) + "}",
              line);
    EXPECT_EQ(*parsed, *parse_record(line_of(parsed->body).replace(0, 8, R"({"seq":3)")));
}

TEST(RecordTest, UnknownFieldsSurviveWhereverTheyStand) {
    const std::string body =
        R"("kind":"session.created","id":"sess_1","provider":{"type":"anthropic","model":"m",)"
        R"("region":"eu"},"parent":{"session_id":"sess_0","depth":2},"budget":{"usd":0.50})";
    const std::string line = R"({"seq":1,"ts":"2026-01-01T00:00:00.125Z",)" + body + "}";
    const Result<Record> parsed = parse_record(line);
    ASSERT_TRUE(parsed);
    EXPECT_EQ(std::get<SessionCreated>(parsed->body).provider.type, "anthropic");
    EXPECT_EQ(render_body(parsed->body), body);
}

// W13: what came from outside keeps the text of every token.
TEST(RecordTest, NumbersKeepTheirText) {
    for (const std::string_view number :
         {"0.1", "0.10", "1e5", "1E+5", "-0", "-0.0", "18446744073709551616",
          "1.7976931348623157e308", "0.30000000000000004", "123456789012345678901234567890"}) {
        const std::string content = "[{\"n\":" + std::string(number) + "}]";
        PendingCompleted body{PendingId("pnd_1_2"), CallId{"c"}, {}, "digest", {}};
        body.result.content = *RawJson::parse(content);
        MessageAssistant said{MessageId("msg_1"), {}, {}, {}, {}, {}, {}};
        said.content.emplace_back(ToolUseBlock{CallId{"c"}, "t", *RawJson::parse(content), {}});
        for (const RecordBody& record : {RecordBody(body), RecordBody(said)}) {
            const std::string line = line_of(record);
            EXPECT_NE(line.find(content), std::string::npos) << line;
            EXPECT_EQ(line_of(parse_record(line)->body), line);
        }
    }
}

// ---- what is not a record --------------------------------------------------------------------

TEST(RecordTest, MalformedLinesAreCorrupt) {
    const std::string ts = R"("ts":"2026-01-01T00:00:00.125Z")";
    for (const std::string& line : {
             std::string(),
             std::string("null"),
             std::string("{}"),
             std::string("[]"),
             std::string(64, '\0'),
             "{" + ts + R"(,"seq":1,"kind":"x"})",     // another order
             R"({"seq":1,)" + ts + "}",                // no kind
             R"({"seq":0,)" + ts + R"(,"kind":"x"})",  // seqs begin at 1
             R"({"seq":-1,)" + ts + R"(,"kind":"x"})",
             R"({"seq":1.0,)" + ts + R"(,"kind":"x"})",
             R"({"seq":"1",)" + ts + R"(,"kind":"x"})",
             R"({"seq":99999999999999999999,)" + ts + R"(,"kind":"x"})",
             std::string(R"({"seq":1,"ts":"yesterday","kind":"x"})"),
             std::string(R"({"seq":1,"ts":17672256,"kind":"x"})"),
             R"({"seq":1,)" + ts + R"(,"kind":7})",
             R"({"seq":1,)" + ts + R"(,"kind":"run.completed","run_id":7})",
             R"({"seq":1,)" + ts + R"(,"kind":"run.completed","run_id":"../../etc"})",
             R"({"seq":1,)" + ts + R"(,"kind":"run.completed","run_id":"sess_1"})",
             R"({"seq":1,)" + ts + R"(,"kind":"status.derived","status":"busy"})",
             R"({"seq":1,)" + ts + R"(,"kind":"x"}{"seq":2})",  // two objects on a line
         }) {
        const Result<Record> parsed = parse_record(line);
        ASSERT_FALSE(parsed) << line;
        EXPECT_EQ(parsed.error().kind, ErrorKind::corrupt) << line;
    }
}

TEST(RecordTest, EveryPrefixOfALineIsCorrupt) {
    each_kind([](const auto& kind) {
        using Body = std::remove_cvref_t<decltype(kind)>;
        const std::string line = line_of(samples<Body>().front());
        for (std::size_t length = 0; length < line.size(); ++length) {
            ASSERT_FALSE(parse_record(std::string_view(line).substr(0, length))) << length;
        }
    });
}

// The line without one of its members.
std::string without(const std::string& line, std::size_t index) {
    std::vector<JsonMember> members;
    EXPECT_TRUE(split_object(line, members));
    std::string out = "{";
    for (std::size_t i = 0; i < members.size(); ++i) {
        if (i == index) continue;
        if (out.size() > 1) out += ',';
        out += "\"" + std::string(members[i].key) + "\":" + std::string(members[i].value);
    }
    return out + "}";
}

TEST(RecordTest, AMissingFieldIsCorruptExactlyWhenItIsRequired) {
    each_kind([](const auto& kind) {
        using Body = std::remove_cvref_t<decltype(kind)>;
        std::set<std::string_view> required_names;
        const auto note = [&](const auto& one) {
            if (one.presence == Presence::required) required_names.insert(one.name);
        };
        std::apply([&](const auto&... one) { (note(one), ...); }, Body::fields());

        const std::string line = line_of(samples<Body>().front());
        std::vector<JsonMember> members;
        ASSERT_TRUE(split_object(line, members));
        for (std::size_t i = 3; i < members.size(); ++i) {
            EXPECT_EQ(parse_record(without(line, i)).has_value(),
                      !required_names.contains(members[i].key))
                << Body::kKind << " without " << members[i].key;
        }
    });
}

}  // namespace
}  // namespace rouse
