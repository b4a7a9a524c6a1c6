// What a log tells of what is over.

#include "domain/history.h"

#include <gtest/gtest.h>

namespace rouse {
namespace {

const RunId kRun("run_1");
const RunId kNext("run_2");

const RunId kAsker("run_parent");

MessageUser message(std::optional<std::string> call = {}, const RunId& asker = kAsker) {
    MessageUser message{MessageId("msg_1"), text_content("hello"), true, {}};
    if (call) message.asked_by = AskedBy{asker, CallId{*call}, {}, 1};
    return message;
}
RunStarted started(const RunId& run, const RunId& continues = {}) {
    return {run, BootId("boot_1"), continues};
}

struct AsksCase {
    std::string name;
    std::vector<RecordBody> log;
    bool want;
};
class AsksTest : public ::testing::TestWithParam<AsksCase> {};

TEST_P(AsksTest, AreAllThatTheRunReads) {
    std::vector<Record> log;
    for (const RecordBody& body : GetParam().log)
        log.push_back({log.size() + 1, {}, body});
    const std::vector<CallId> calls = {{"call_a"}, {"call_b"}};
    EXPECT_EQ(reads_only_asks_of(log, kNext, kAsker, calls), GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    Logs, AsksTest,
    ::testing::Values(
        AsksCase{"One", {message("call_a"), started(kNext)}, true},
        AsksCase{"Both", {message("call_a"), message("call_b"), started(kNext)}, true},
        AsksCase{"AnotherCallToo", {message("call_a"), message("call_c"), started(kNext)}, false},
        AsksCase{"ACallOfThatNameByAnotherRun",
                 {message("call_a"), message("call_b", RunId("run_other")), started(kNext)},
                 false},
        AsksCase{"APersonToo", {message(), message("call_a"), started(kNext)}, false},
        AsksCase{"WhatTheRunBeforeReadDoesNotCount",
                 {message(), started(kRun), message("call_a"), started(kNext)},
                 true},
        AsksCase{"Nothing", {message("call_a"), started(kRun), started(kNext)}, false},
        AsksCase{"OneThatGoesOnReadsWhatTheInterruptedOneRead",
                 {message("call_a"), started(kRun), message(), started(kNext, kRun)},
                 true},
        AsksCase{"AnotherRun", {message("call_a"), started(kRun)}, false}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace rouse
