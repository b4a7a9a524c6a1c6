#pragma once

// Identifiers with types of their own, so that a RunId cannot stand where a SessionId is meant.

#include <compare>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace rouse {

// The one pattern of all ids: ^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$. Whatever passes is safe as a file
// name: no dot, slash, colon, blank, NUL or leading dash or underscore.
bool is_valid_id_text(std::string_view text);

// Tag supplies `prefix` ("sess_"), which every id of this type starts with.
template <class Tag>
class Id {
 public:
    static constexpr std::string_view kPrefix = Tag::prefix;

    Id() = default;
    explicit Id(std::string text) : text_(std::move(text)) {}

    static bool is_valid(std::string_view text) {
        return text.starts_with(kPrefix) && text.size() > kPrefix.size() && is_valid_id_text(text);
    }

    // For text from outside. invalid: not an id of this type.
    static Result<Id> parse(std::string_view text) {
        if (!is_valid(text)) {
            return Error(ErrorKind::invalid, "invalid_id",
                         "not an id of the form " + std::string(kPrefix) + "…");
        }
        return Id(std::string(text));
    }

    const std::string& text() const { return text_; }
    bool empty() const { return text_.empty(); }
    friend auto operator<=>(const Id&, const Id&) = default;

 private:
    std::string text_;
};

}  // namespace rouse

template <class Tag>
struct std::hash<rouse::Id<Tag>> {
    std::size_t operator()(const rouse::Id<Tag>& id) const {
        return std::hash<std::string>{}(id.text());
    }
};
