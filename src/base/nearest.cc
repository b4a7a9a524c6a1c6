#include "base/nearest.h"

#include <algorithm>

namespace rouse {
namespace {

constexpr std::size_t kNameBytes = 64;  // nobody means a name that is longer

std::string folded(std::string_view text) {
    std::string out(text.substr(0, kNameBytes));
    for (char& c : out) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
        if (c == '-') c = '_';
    }
    return out;
}

// Optimal string alignment: Levenshtein's distance with swaps of neighbours.
std::size_t distance(const std::string& a, const std::string& b) {
    std::vector<std::vector<std::size_t>> cost(a.size() + 1,
                                               std::vector<std::size_t>(b.size() + 1));
    for (std::size_t i = 0; i <= a.size(); ++i)
        cost[i][0] = i;
    for (std::size_t j = 0; j <= b.size(); ++j)
        cost[0][j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
            std::size_t best =
                std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + change});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                best = std::min(best, cost[i - 2][j - 2] + 1);
            }
            cost[i][j] = best;
        }
    }
    return cost[a.size()][b.size()];
}

std::string listed(std::span<const std::string> names, std::string_view last) {
    std::string out;
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (i > 0) out += i + 1 == names.size() ? last : ", ";
        out += names[i];
    }
    return out;
}

}  // namespace

std::optional<std::string> nearest(std::string_view text, std::span<const std::string> names) {
    const std::string wanted = folded(text);
    std::optional<std::string> best;
    std::size_t fewest = std::max<std::size_t>(1, wanted.size() / 3) + 1;
    for (const std::string& name : names) {
        const std::size_t edits = distance(wanted, folded(name));
        if (edits >= fewest) continue;
        fewest = edits;
        best = name;
    }
    return best;
}

std::string suggestion(std::string_view text, std::span<const std::string> names) {
    if (const auto meant = nearest(text, names)) return ", did you mean \"" + *meant + "\"?";
    return "; there are: " + listed(names, ", ");
}

std::string alternatives(std::span<const std::string> names) {
    return listed(names, " or ");
}

}  // namespace rouse
