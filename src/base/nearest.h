#pragma once

// What somebody who wrote a wrong name probably meant.

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rouse {

// For any range of names.
bool is_one_of(std::string_view text, const auto& names) {
    return std::ranges::find(names, text) != std::ranges::end(names);
}

// The one of `names` that is fewest edits away from `text`, if these are few for its length. An
// edit is a letter added, lost, changed or swapped with its neighbour; case does not count, and a
// dash is an underscore.
std::optional<std::string> nearest(std::string_view text, std::span<const std::string> names);

// `, did you mean "listen"?`, or else all of them: `; there are: listen, public_url`.
std::string suggestion(std::string_view text, std::span<const std::string> names);

// "a, b or c"
std::string alternatives(std::span<const std::string> names);

}  // namespace rouse
