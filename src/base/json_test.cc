#include "base/json.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "base/limits.h"
#include "testing/seeded_random.h"

namespace rouse {
namespace {

std::string nested(std::size_t depth, std::string_view open, std::string_view close) {
    std::string text;
    for (std::size_t i = 0; i < depth; ++i)
        text += open;
    for (std::size_t i = 0; i < depth; ++i)
        text += close;
    return text;
}

TEST(RawJsonTest, KeepsTheTextOfEveryToken) {  // W13
    for (const char* text : {
             "0.1",
             "1.0",
             "-0",
             "1E5",
             "1e-400",
             "18446744073709551616",
             "-9223372036854775809",
             "3.14159265358979323846264338327950288",
             "null",
             "true",
             "false",
             R"("")",
             R"("\u0041\/\n\ud83d\ude00")",
             R"("grün")",
             R"({"b":1,"a":2,"b":3})",
             R"([[],{},[{}]])",
         }) {
        const Result<RawJson> json = RawJson::parse(text);
        ASSERT_TRUE(json) << text << ": " << json.error().message;
        EXPECT_EQ(json->text(), text);
        EXPECT_FALSE(json->absent());
    }
}

TEST(RawJsonTest, DropsWhiteSpaceBetweenTokensOnly) {  // W13
    const Result<RawJson> json =
        RawJson::parse(" \t\r\n{ \"a b\" :\t[ 1 , \" \\\" : , \\\\\" ] ,\n\"c\":\"\\\\\" } \n");
    ASSERT_TRUE(json);
    EXPECT_EQ(json->text(), R"({"a b":[1," \" : , \\"],"c":"\\"})");
    EXPECT_EQ(RawJson::parse(json->text()), *json);
}

TEST(RawJsonTest, RefusesWhatIsNotJson) {  // T14
    const std::pair<const char*, std::string> cases[] = {
        {"nothing", ""},
        {"white space", " \n"},
        {"infinity by overflow", "1E400"},
        {"minus infinity", "[-1e999]"},
        {"many digits", std::string(400, '9')},
        {"huge exponent", "1e99999999999999999999"},
        {"Infinity", "Infinity"},
        {"NaN", "NaN"},
        {"leading zero", "01"},
        {"plus", "+1"},
        {"bare dot", ".5"},
        {"trailing dot", "5."},
        {"hex", "0x10"},
        {"trailing data", "{} x"},
        {"second value", "1 2"},
        {"trailing comma", "[1,]"},
        {"comment", "/* a */ 1"},
        {"single quotes", "'a'"},
        {"no key", "{1:2}"},
        {"open array", "[1"},
        {"open string", "\"abc"},
        {"half a literal", "tru"},
        {"lone high surrogate", R"("\ud800")"},
        {"lone low surrogate", R"("\udc00")"},
        {"surrogates in the wrong order", R"("\udc00\ud800")"},
        {"unknown escape", R"("\x")"},
        {"half an escape", R"("\u12")"},
        {"bad UTF-8", "\"\xFF\""},
        {"cut UTF-8", "\"\xC3\""},
        {"overlong UTF-8", "\"\xC0\xAF\""},
        {"surrogate in UTF-8", "\"\xED\xA0\x80\""},
        {"beyond Unicode", "\"\xF4\x90\x80\x80\""},
        {"bad UTF-8 in a key", "{\"\xFF\":1}"},
        {"NUL in a string", std::string("\"a\0b\"", 5)},
        {"NUL behind", std::string("1\0", 2)},
        {"NUL in front", std::string("\0001", 2)},
        {"newline in a string", "\"a\nb\""},
        {"byte order mark", "\xEF\xBB\xBF{}"},
    };
    for (const auto& [name, text] : cases) {
        const Result<RawJson> json = RawJson::parse(text);
        ASSERT_FALSE(json) << name;
        EXPECT_EQ(json.error().kind, ErrorKind::invalid) << name;
        EXPECT_EQ(json.error().reason, "invalid_json") << name;
    }
    EXPECT_FALSE(RawJson::parse(std::string_view()));
}

TEST(RawJsonTest, DepthHasALimit) {  // T14
    static_assert(limits::kJsonDepth == 64);
    EXPECT_TRUE(RawJson::parse(nested(64, "[", "]")));
    EXPECT_FALSE(RawJson::parse(nested(65, "[", "]")));
    EXPECT_TRUE(RawJson::parse(nested(63, "{\"a\":", "}").insert(std::size_t{63} * 5, "{}")));
    EXPECT_FALSE(RawJson::parse(nested(64, "{\"a\":", "}").insert(std::size_t{64} * 5, "{}")));
    EXPECT_FALSE(RawJson::parse(std::string(1'000'000, '[')));
}

TEST(RawJsonTest, AbsentIsNotNull) {
    EXPECT_TRUE(RawJson().absent());
    EXPECT_NE(RawJson(), *RawJson::parse("null"));
}

TEST(SplitJsonTest, GivesTheMembersAsTheyStand) {
    std::vector<JsonMember> members;
    ASSERT_TRUE(
        split_object(R"({"a":0.10,"b\"}":[1,{"x":"]"}],"":"}{,","d":{"e":null}})", members));
    ASSERT_EQ(members.size(), 4U);
    EXPECT_EQ(members[0].key, "a");
    EXPECT_EQ(members[0].value, "0.10");
    EXPECT_EQ(members[1].key, R"(b\"})");
    EXPECT_EQ(members[1].value, R"([1,{"x":"]"}])");
    EXPECT_EQ(members[2].key, "");
    EXPECT_EQ(members[2].value, R"("}{,")");
    EXPECT_EQ(members[3].value, R"({"e":null})");
    ASSERT_TRUE(split_object("{}", members));
    EXPECT_TRUE(members.empty());

    std::vector<std::string_view> items;
    ASSERT_TRUE(split_array(R"([1,"a,]",[2,[3]],{},true])", items));
    EXPECT_EQ(items, (std::vector<std::string_view>{"1", R"("a,]")", "[2,[3]]", "{}", "true"}));
    ASSERT_TRUE(split_array("[]", items));
    EXPECT_TRUE(items.empty());
}

TEST(SplitJsonTest, RefusesWhatRawJsonWouldNotPrint) {
    std::vector<JsonMember> members;
    for (const char* text : {"",
                             "{",
                             "}",
                             "[]",
                             "1",
                             "{}x",
                             "{}}",
                             "{,}",
                             R"({"a"})",
                             R"({"a":})",
                             R"({"a":1)",
                             R"({"a":1,})",
                             R"({"a":1]})",
                             R"({"a":1}})",
                             R"({"a":1 })",
                             R"({ "a":1})",
                             R"({"a": 1})",
                             R"({"a":@})",
                             R"({"a":tru})",
                             R"({"a":1"b":2})",
                             R"({"a":1""})",
                             R"({"a":"x)",
                             R"({"a)",
                             R"({"a\)",
                             R"({"a":[1})",
                             R"({a:1})"}) {
        const Result<void> split = split_object(text, members);
        ASSERT_FALSE(split) << text;
        EXPECT_EQ(split.error().kind, ErrorKind::corrupt);
    }
    std::vector<std::string_view> items;
    for (const char* text : {"", "[", "]", "{}", "[,]", "[1,]", "[,1]", "[1", "[1]]", "[]]", "[1}",
                             "[ 1]", "[1 ]", "[\"]", "[[1]", "[-,1]", "[nul]"}) {
        const Result<void> split = split_array(text, items);
        ASSERT_FALSE(split) << text;
        EXPECT_EQ(split.error().kind, ErrorKind::corrupt);
    }
}

// Whatever the bytes are: no crash, and every view that comes back lies inside the text.
void split_anything(const std::string& text) {
    const auto inside = [&](std::string_view view) {
        return view.data() >= text.data() && view.data() + view.size() <= text.data() + text.size();
    };
    std::vector<JsonMember> members;
    if (split_object(text, members)) {
        for (const JsonMember& member : members) {
            ASSERT_TRUE(inside(member.key) && inside(member.value)) << text;
            ASSERT_FALSE(member.value.empty()) << text;
            static_cast<void>(read_json_string(member.value));
            static_cast<void>(read_json_int(member.value));
        }
    }
    std::vector<std::string_view> items;
    if (split_array(text, items)) {
        for (const std::string_view item : items)
            ASSERT_TRUE(inside(item)) << text;
    }
}

TEST(SplitJsonTest, AnyDamageIsSafe) {  // W8
    const std::string object =
        R"({"seq":12,"k\"ind":"run.started","body":{"a":[1,-2.5e3,"\\\u00e9"],"b":{}},"x":null})";
    const std::string array = R"([{"a":"]"},[[],"\\"],-1,true,"{"])";
    std::vector<JsonMember> members;
    std::vector<std::string_view> items;
    ASSERT_TRUE(split_object(object, members));
    ASSERT_TRUE(split_array(array, items));
    for (const std::string& whole : {object, array}) {
        for (std::size_t length = 0; length < whole.size(); ++length) {
            const std::string prefix = whole.substr(0, length);
            EXPECT_FALSE(split_object(prefix, members)) << prefix;
            EXPECT_FALSE(split_array(prefix, items)) << prefix;
        }
        for (std::size_t at = 0; at < whole.size(); ++at) {
            for (int byte = 0; byte < 256; ++byte) {
                std::string damaged = whole;
                damaged[at] = static_cast<char>(byte);
                split_anything(damaged);
            }
            split_anything(whole.substr(0, at) + whole.substr(at + 1));
            split_anything(whole.substr(at));
        }
    }
}

TEST(SplitJsonTest, RandomBytesAreSafe) {
    testing::SeededRandom random(20260221);
    constexpr std::string_view kAlphabet = "{}[]\",:\\ 1a-.tn\n\xFF";
    for (int round = 0; round < 20'000; ++round) {
        std::string text(random.below(24), ' ');
        for (char& c : text)
            c = kAlphabet[random.below(kAlphabet.size())];
        split_anything(text);
        split_anything("{\"" + text + "}");
        split_anything("[" + text + "]");
        // What the checking parser accepts, the splitter must take apart.
        if (const Result<RawJson> json = RawJson::parse(text); json && json->text() == text) {
            std::vector<JsonMember> members;
            std::vector<std::string_view> items;
            EXPECT_EQ(split_object(text, members).has_value(), text.front() == '{') << text;
            EXPECT_EQ(split_array(text, items).has_value(), text.front() == '[') << text;
        }
    }
}

TEST(ReadJsonTest, StringsResolveTheirEscapes) {
    EXPECT_EQ(read_json_string(R"("")"), "");
    EXPECT_EQ(read_json_string(R"("plain grün")"), "plain grün");
    EXPECT_EQ(read_json_string(R"("\"\\\/\b\f\n\r\t")"), "\"\\/\b\f\n\r\t");
    EXPECT_EQ(read_json_string(R"("\u00fc\ud83d\ude00")"), "ü😀");
    EXPECT_EQ(read_json_string(R"("a\u0000b")"), std::string("a\0b", 3));
    for (const char* bad : {"", "\"", "abc", "'a'", R"("a"b")", R"("a\")", R"("\ud800")", "1",
                            "null", "[\"a\"]", "\"a\nb\""}) {
        EXPECT_EQ(read_json_string(bad), std::nullopt) << bad;
    }
}

TEST(ReadJsonTest, NumbersAndFlagsAreReadWhole) {
    EXPECT_EQ(read_json_int("0"), 0);
    EXPECT_EQ(read_json_int("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
    EXPECT_EQ(read_json_int("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
    for (const char* bad :
         {"", "-", "+1", "1.0", "1e3", "9223372036854775808", "\"1\"", " 1", "1 ", "true", "0x1"}) {
        EXPECT_EQ(read_json_int(bad), std::nullopt) << bad;
    }
    EXPECT_EQ(read_json_bool("true"), true);
    EXPECT_EQ(read_json_bool("false"), false);
    for (const char* bad : {"", "True", "1", "null", "\"true\"", "true "}) {
        EXPECT_EQ(read_json_bool(bad), std::nullopt) << bad;
    }
}

// Any text of Unicode characters, control characters and quotes more often than by chance.
rc::Gen<std::string> any_text() {
    const auto character = rc::gen::oneOf(
        rc::gen::elementOf(std::vector<std::string>{"\"", "\\", "/", "\n", "\x1B", "\x7F", "ü",
                                                    "\xE2\x80\xA8", "😀", std::string(1, '\0')}),
        rc::gen::map(rc::gen::inRange(0, 128),
                     [](int byte) { return std::string(1, static_cast<char>(byte)); }));
    return rc::gen::map(rc::gen::container<std::vector<std::string>>(character),
                        [](const std::vector<std::string>& parts) {
                            std::string text;
                            for (const std::string& part : parts)
                                text += part;
                            return text;
                        });
}

TEST(WriteJsonTest, AllNamesButTheFirstStandBehindAComma) {
    std::string out;
    append_json_name(out, "in the middle of an object that others begin");
    EXPECT_EQ(out, R"("in the middle of an object that others begin":)");
    out = "{";
    append_json_name(out, "a");
    out += '1';
    append_json_name(out, "");
    out += '{';
    append_json_name(out, "c");
    out += "[]}";
    append_json_name(out, "d");
    EXPECT_EQ(out, R"({"a":1,"":{"c":[]},"d":)");
}

struct MergeCase {
    const char* name;
    const char* before;
    const char* patch;
    const char* want;
};
class MergePatchTest : public ::testing::TestWithParam<MergeCase> {};

TEST_P(MergePatchTest, FollowsTheNorm) {
    const MergeCase& c = GetParam();
    EXPECT_EQ(merge_patch(c.before, c.patch), c.want);
}
INSTANTIATE_TEST_SUITE_P(
    Rules, MergePatchTest,
    ::testing::Values(
        MergeCase{"Adds", R"({"a":1})", R"({"b":2})", R"({"a":1,"b":2})"},
        MergeCase{"ReplacesInPlace", R"({"a":1,"b":2})", R"({"a":[3]})", R"({"a":[3],"b":2})"},
        MergeCase{"NullRemoves", R"({"a":1,"b":2})", R"({"a":null,"c":null})", R"({"b":2})"},
        MergeCase{"ObjectsAreMerged", R"({"a":{"b":1,"c":2}})", R"({"a":{"b":null,"d":3}})",
                  R"({"a":{"c":2,"d":3}})"},
        MergeCase{"AnObjectReplacesAnotherType", R"({"a":[1]})", R"({"a":{"b":null,"c":1}})",
                  R"({"a":{"c":1}})"},
        MergeCase{"AnotherTypeReplacesAll", R"({"a":1})", "[2]", "[2]"},
        MergeCase{"NothingBefore", "", R"({"a":{"b":null}})", R"({"a":{}})"},
        MergeCase{"TheLastOfANameCounts", R"({"a":0})", R"({"a":1,"b":1,"b":2,"a":3})",
                  R"({"a":3,"b":2})"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(WideMergeTest, ManyMembersAreMergedInOneGo) {
    std::string wide = "{";
    for (int i = 0; i < 200'000; ++i)
        wide += (i > 0 ? ",\"k" : "\"k") + std::to_string(i) + "\":1";
    wide += "}";
    EXPECT_EQ(merge_patch(wide, wide), wide);
}

RC_GTEST_PROP(WriteJsonTest, StringsComeBackAsTheyWent, ()) {
    const std::string text = *any_text();
    std::string out = "before ";
    append_json_string(out, text);
    RC_ASSERT(out.starts_with("before \""));
    const std::string token = out.substr(7);
    RC_ASSERT(token == to_json_string(text));
    RC_ASSERT(read_json_string(token) == text);
    // It is one line of JSON, and nothing that parse() would change.
    RC_ASSERT(token.find('\n') == std::string::npos);
    const Result<RawJson> json = RawJson::parse(token);
    RC_ASSERT(json.has_value());
    RC_ASSERT(json->text() == token);
}

RC_GTEST_PROP(WriteJsonTest, ObjectsOfAnyTextSplitIntoTheSame, ()) {
    const auto pairs = *rc::gen::container<std::vector<std::pair<std::string, std::string>>>(
        rc::gen::pair(any_text(), any_text()));
    std::string object = "{";
    for (const auto& [key, value] : pairs) {
        if (object.size() > 1) object += ',';
        object += to_json_string(key) + ":" + to_json_string(value);
    }
    object += "}";
    std::vector<JsonMember> members;
    RC_ASSERT(split_object(object, members).has_value());
    RC_ASSERT(members.size() == pairs.size());
    for (std::size_t i = 0; i < pairs.size(); ++i) {
        RC_ASSERT(read_json_string("\"" + std::string(members[i].key) + "\"") == pairs[i].first);
        RC_ASSERT(read_json_string(members[i].value) == pairs[i].second);
    }
}

}  // namespace
}  // namespace rouse
