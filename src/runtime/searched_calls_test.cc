#include "runtime/searched_calls.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

namespace rouse {
namespace {

using namespace std::chrono_literals;

constexpr SearchedCalls::Time kStart{};

SessionId session(int number) {
    return SessionId("sess_" + std::string(1, static_cast<char>('a' + number)));
}

TEST(SearchedCallsTest, LooksEverywhereFirst) {
    const SearchedCalls searched;
    EXPECT_EQ(searched.where_to_look({"build"}, kStart), SessionId());
    EXPECT_EQ(searched.where_to_look({}, kStart), SessionId());
}

TEST(SearchedCallsTest, DoesNotLookWhereNothingWas) {
    SearchedCalls searched;
    searched.looked({"build"}, std::nullopt, kStart);
    EXPECT_EQ(searched.where_to_look({"build"}, kStart), std::nullopt);
    EXPECT_EQ(searched.where_to_look({"test"}, kStart), SessionId()) << "nobody looked for it";
    EXPECT_EQ(searched.where_to_look({}, kStart), SessionId());
    searched.looked({"test"}, session(3), kStart);
    EXPECT_EQ(searched.where_to_look({"build", "test"}, kStart), session(3));
}

TEST(SearchedCallsTest, LooksWhereACallCameUp) {
    SearchedCalls searched;
    searched.looked({"build"}, std::nullopt, kStart);
    searched.looked({}, session(5), kStart);
    searched.comes_up("test", session(1));
    EXPECT_EQ(searched.where_to_look({"build"}, kStart), std::nullopt);
    EXPECT_EQ(searched.where_to_look({}, kStart), session(1));
    searched.comes_up("build", session(2));
    EXPECT_EQ(searched.where_to_look({"build"}, kStart), session(2));
    searched.comes_up("build", session(4));
    EXPECT_EQ(searched.where_to_look({"build"}, kStart), session(2));
}

TEST(SearchedCallsTest, LooksEverywhereAgainAfterAWhile) {
    SearchedCalls searched;
    searched.looked({"build"}, std::nullopt, kStart);
    searched.looked({"build"}, std::nullopt, kStart + 59s);
    EXPECT_EQ(searched.where_to_look({"build"}, kStart + 59s), std::nullopt);
    EXPECT_EQ(searched.where_to_look({"build"}, kStart + 60s), SessionId());
    searched.looked({"build"}, session(2), kStart + 60s);
    EXPECT_EQ(searched.where_to_look({"build"}, kStart + 119s), session(2));
}

TEST(SearchedCallsTest, NamesWithoutAToolDoNotPileUp) {
    SearchedCalls searched;
    for (int i = 0; i < 100'000; ++i)
        searched.looked({"no tool " + std::to_string(i)}, std::nullopt, kStart);
    EXPECT_FALSE(searched.empty());
    EXPECT_EQ(searched.where_to_look({"no tool 1"}, kStart), SessionId());
}

// Whatever waits is found by whoever looks from there on.
RC_GTEST_PROP(SearchedCallsProperty, PassesOverNothing, ()) {
    const SearchedCalls::Tools names{"a", "b", "c"};
    const std::vector<SearchedCalls::Tools> askings{{}, {"a"}, {"b"}, {"a", "b"}, {"b", "c"}};
    std::set<std::pair<SessionId, std::string>> waiting;
    SearchedCalls searched;
    SearchedCalls::Time now = kStart;
    const int steps = *rc::gen::inRange(1, 200);
    for (int step = 0; step < steps; ++step) {
        const std::string tool = *rc::gen::elementOf(names);
        const SessionId one = session(*rc::gen::inRange(0, 8));
        switch (*rc::gen::inRange(0, 5)) {
            case 0:
            case 1:
                waiting.emplace(one, tool);
                searched.comes_up(tool, one);
                break;
            case 2: waiting.erase({one, tool}); break;
            case 3: now += *rc::gen::elementOf(std::vector{0s, 1s, 59s, 60s}); break;
            default: {
                const SearchedCalls::Tools tools = *rc::gen::elementOf(askings);
                const auto is_wanted = [&](const auto& call) {
                    return tools.empty() || std::ranges::find(tools, call.second) != tools.end();
                };
                const auto first = std::ranges::find_if(waiting, is_wanted);
                const auto from = searched.where_to_look(tools, now);
                if (first == waiting.end()) {
                    if (from) searched.looked(tools, std::nullopt, now);
                    break;
                }
                RC_ASSERT(from.has_value());
                RC_ASSERT(*from <= first->first);
                searched.looked(tools, first->first, now);
            }
        }
    }
}

}  // namespace
}  // namespace rouse
