#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace rouse {
namespace {

Result<int> half(int number) {
    if (number % 2 != 0)
        return Error(ErrorKind::invalid, "odd", "halving " + std::to_string(number));
    return number / 2;
}

Result<void> check_quarter(int number) {
    const Result<int> first = half(number);
    if (!first) return first.error();
    if (Result<int> second = half(*first); !second) return second.error();
    return {};
}

TEST(ResultTest, ErrorTravelsUpUntouched) {
    EXPECT_TRUE(check_quarter(4));
    const Result<void> failed = check_quarter(6);
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error(), Error(ErrorKind::invalid, "odd", "halving 3"));
}

TEST(ResultTest, HoldsWhatCannotBeCopied) {
    Result<std::unique_ptr<int>> made = std::make_unique<int>(7);
    ASSERT_TRUE(made);
    const std::unique_ptr<int> taken = *std::move(made);
    EXPECT_EQ(*taken, 7);
}

TEST(ResultTest, KindsHaveTheNamesOfTheirEnumerators) {
    EXPECT_EQ(to_string(ErrorKind::invalid), "invalid");
    EXPECT_EQ(to_string(ErrorKind::not_found), "not_found");
    EXPECT_EQ(to_string(ErrorKind::conflict), "conflict");
    EXPECT_EQ(to_string(ErrorKind::precondition), "precondition");
    EXPECT_EQ(to_string(ErrorKind::denied), "denied");
    EXPECT_EQ(to_string(ErrorKind::unavailable), "unavailable");
    EXPECT_EQ(to_string(ErrorKind::timeout), "timeout");
    EXPECT_EQ(to_string(ErrorKind::cancelled), "cancelled");
    EXPECT_EQ(to_string(ErrorKind::corrupt), "corrupt");
    EXPECT_EQ(to_string(ErrorKind::io), "io");
    EXPECT_EQ(to_string(ErrorKind::internal), "internal");
}

}  // namespace
}  // namespace rouse
