#include "bench/figure.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace rouse::bench {
namespace {

std::string number_or_null(bool there, double number) {
    return there ? fmt::format("{:.4g}", number) : "null";
}

}  // namespace

bool Figure::met() const {
    const double judged = baseline == 0 ? value : ratio();
    if (direction == Goal::at_least) return judged >= goal;
    return direction != Goal::at_most || judged <= goal;
}

void print(const std::vector<Figure>& figures) {
    for (const Figure& f : figures) {
        const bool compared = f.baseline != 0;
        const bool judged = f.direction != Goal::none;
        fmt::print(
            "{{\"bench\":\"{}\",\"figure\":\"{}\",\"value\":{:.6g},\"unit\":\"{}\",\"baseline\":{},"
            "\"ratio\":{},\"goal\":{},\"met\":{}}}\n",
            f.bench, f.name, f.value, f.unit, number_or_null(compared, f.baseline),
            number_or_null(compared, f.ratio()), number_or_null(judged, f.goal),
            judged ? (f.met() ? "true" : "false") : "null");
    }
    fmt::print("\n{:<44} {:>12} {:<10} {:>12} {:>8}  {}\n", "figure", "value", "unit", "baseline",
               "ratio", "goal");
    for (const Figure& f : figures) {
        std::string goal;
        if (f.direction != Goal::none) {
            goal = fmt::format("{} {:g}: {}", f.direction == Goal::at_least ? ">=" : "<=", f.goal,
                               f.met() ? "met" : "MISSED");
        }
        fmt::print("{:<44} {:>12.4g} {:<10} {:>12} {:>8}  {}\n", f.name, f.value, f.unit,
                   f.baseline == 0 ? "" : fmt::format("{:.4g}", f.baseline),
                   f.baseline == 0 ? "" : fmt::format("{:.2f}", f.ratio()), goal);
    }
    std::fflush(stdout);
}

bool full_run() {
    const char* full = std::getenv("FULL");
    return full != nullptr && std::string_view(full) == "1";
}

}  // namespace rouse::bench
