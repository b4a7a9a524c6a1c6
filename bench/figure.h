#pragma once

// One measured figure, beside what it is compared with in the same run.

#include <optional>
#include <string>
#include <vector>

namespace rouse::bench {

enum class Goal { none, at_least, at_most };

struct Figure {
    std::string bench;
    std::string name;
    double value = 0;
    std::string unit;
    double baseline = 0;  // 0: there is none
    Goal direction = Goal::none;
    double goal = 0;  // for the ratio, or for the value when there is no baseline

    double ratio() const { return baseline == 0 ? 0 : value / baseline; }
    bool met() const;
};

// One JSON line for each, then a table for people.
void print(const std::vector<Figure>& figures);

// FULL=1 asks for the long version.
bool full_run();

}  // namespace rouse::bench
