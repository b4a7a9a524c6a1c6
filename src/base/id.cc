#include "base/id.h"

#include <algorithm>

namespace rouse {

bool is_valid_id_text(std::string_view text) {
    const auto is_alphanumeric = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    };
    if (text.empty() || text.size() > 64 || !is_alphanumeric(text.front())) return false;
    return std::ranges::all_of(text,
                               [&](char c) { return is_alphanumeric(c) || c == '_' || c == '-'; });
}

}  // namespace rouse
