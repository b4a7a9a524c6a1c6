#include "base/schema_check.h"

#include <gtest/gtest.h>

namespace rouse {
namespace {

Result<void> check(const std::string& schema, const std::string& value) {
    const Result<SchemaCheck> compiled = SchemaCheck::compile(RawJson::trusted(schema));
    if (!compiled) return compiled.error();
    return compiled->check(RawJson::trusted(value));
}

std::string quoted(const std::string& text) {
    return '"' + text + '"';
}

TEST(SchemaCheckTest, SaysWhatDoesNotFitAndWhere) {
    const Result<void> fits =
        check(R"({"properties":{"n":{"type":"integer"}},"required":["m"]})", R"({"n":"one"})");
    ASSERT_FALSE(fits);
    EXPECT_NE(fits.error().message.find("input[n]"), std::string::npos) << fits.error().message;
    EXPECT_NE(fits.error().message.find("m"), std::string::npos);
}

TEST(SchemaCheckTest, TakesAnyKindOfValue) {
    EXPECT_TRUE(check(R"({"type":"array","items":{"type":"string"}})", R"(["a"])"));
    EXPECT_FALSE(check(R"({"type":"array","items":{"type":"string"}})", "[1]"));
    EXPECT_TRUE(check(R"({"type":"string"})", R"("a")"));
}

TEST(SchemaCheckTest, AToolsInputIsAnObject) {
    EXPECT_FALSE(SchemaCheck().check_object(RawJson::trusted("[1]")));
    EXPECT_FALSE(SchemaCheck().check_object(RawJson()));
    EXPECT_TRUE(SchemaCheck().check_object(RawJson::trusted("{}")));
}

// T14: std::regex would go a call deeper for each character.
TEST(SchemaCheckTest, LongTextsMeetPatterns) {
    const std::string letters(1'000'000, 'a');
    EXPECT_TRUE(check(R"({"pattern":"^[a-z]+$"})", quoted(letters)));
    EXPECT_FALSE(check(R"({"pattern":"^[a-z]+$"})", quoted(letters + "1")));
    EXPECT_TRUE(check(R"({"pattern":"^https?://[a-z./]+$"})", quoted("https://" + letters)));
    const std::string digits(1'000'000, '7');
    EXPECT_TRUE(check(R"({"format":"date-time"})", quoted("2026-11-18T05:00:00." + digits + "Z")));
    EXPECT_TRUE(check(R"({"patternProperties":{"^a+$":{"type":"integer"}}})",
                      "{" + quoted(letters) + ":1}"));
}

// T14
TEST(SchemaCheckTest, APatternThatBacktracksWithoutEndIsGivenUp) {
    EXPECT_FALSE(check(R"({"pattern":"^(a+)+$"})", quoted(std::string(64, 'a') + "!")));
}

TEST(SchemaCheckTest, PatternsLookAtTheWholeText) {
    EXPECT_FALSE(check(R"({"pattern":"^[a-z]+$"})", R"("main\nrm")"));
    EXPECT_FALSE(check(R"({"pattern":"^[a-z]+$"})", R"("main\n")"));
    EXPECT_FALSE(check(R"({"pattern":"^.+$"})", R"("a\nb")"));
}

TEST(SchemaCheckTest, WhatIsNoSchemaIsSaidAtOnce) {
    for (
        const std::string schema :
        {R"({"type":"objekt"})", R"({"$ref":"http://127.0.0.1:1/x"})", R"({"pattern":"("})",
         R"({"patternProperties":{"(":{}}})", R"({"properties":{"a":{"pattern":"["}}})",
         R"({"$ref":"#"})", R"({"allOf":[{"$ref":"#"}]})",
         R"({"definitions":{"a":{"$ref":"#/definitions/b"},"b":{"not":{"$ref":"#/definitions/a"}}},)"
         R"("properties":{"x":{"$ref":"#/definitions/a"}}})",
         R"({"dependencies":{"a":{"$ref":"#"}}})"}) {
        const Result<SchemaCheck> compiled = SchemaCheck::compile(RawJson::trusted(schema));
        ASSERT_FALSE(compiled) << schema;
        EXPECT_EQ(compiled.error().reason, "invalid_schema") << schema;
    }
}

// A tree refers to itself, one step into the value each time.
TEST(SchemaCheckTest, ASchemaMayReferToItselfForThePartsOfAValue) {
    const std::string tree = R"({"type":"object","properties":{"left":{"$ref":"#"}},)"
                             R"("additionalProperties":false})";
    EXPECT_TRUE(check(tree, R"({"left":{"left":{}}})"));
    EXPECT_FALSE(check(tree, R"({"left":{"left":{"right":{}}}})"));
}

}  // namespace
}  // namespace rouse
