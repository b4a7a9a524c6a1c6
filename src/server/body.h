#pragma once

// Reads a request's JSON object member by member. What is missing, of the wrong type or unknown is
// one clear problem that names the place; nothing is taken silently.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/time.h"
#include "domain/message.h"
#include "server/http.h"

namespace rouse::server {

class Body {
 public:
    // `at` is where the object stands in the request's body: "" for all of it.
    Body(std::string_view text, std::string at = {});

    std::optional<std::string> text(std::string_view name);
    std::optional<std::string> text_or_null(std::string_view name);  // null: an empty one
    std::string text_or_empty(std::string_view name) { return text(name).value_or(""); }
    std::string required_text(std::string_view name);
    std::optional<std::int64_t> integer(std::string_view name);
    std::optional<bool> flag(std::string_view name);
    std::vector<std::string> texts(std::string_view name);
    std::optional<Timestamp> time(std::string_view name);
    RawJson object(std::string_view name);
    RawJson any(std::string_view name);
    template <class Enum>
    std::optional<Enum> choice(std::string_view name) {
        const std::optional<std::string> given = text(name);
        if (!given) return std::nullopt;
        if (const std::optional<Enum> value = parse_enum<Enum>(*given)) return value;
        std::string known;
        for (const std::string_view one : kEnumNames<Enum>)
            known += (known.empty() ? "" : ", ") + std::string(one);
        complain(name, "must be one of: " + known);
        return std::nullopt;
    }
    // A string, or blocks.
    Content content(std::string_view name);
    // {content, is_error?, display?, metadata?} or {title, output, metadata?}.
    std::optional<ToolResult> tool_result(std::string_view name);
    std::vector<JsonMember> members(std::string_view name);  // of an object

    bool has(std::string_view name) const;
    void complain(std::string_view name, std::string what);

    // The first thing that is wrong, unknown members among them. Asked last.
    std::optional<Problem> problem();

 private:
    const JsonMember* find(std::string_view name);

    RawJson text_;
    std::string at_;
    std::vector<JsonMember> members_;
    std::vector<std::string_view> known_;
    std::optional<Problem> problem_;
};

// As Body::tool_result, for a value that stands alone.
std::optional<ToolResult> read_tool_result(std::string_view text, std::string at,
                                           std::optional<Problem>& problem);

// The pending id as a body names it; anything else in it is not looked at.
std::string pending_id_of(std::string_view body);

Problem invalid_request(std::string detail, std::string field = {});
Problem foreign_cursor();

// "30s", "500ms", "2m".
std::optional<Milliseconds> parse_wait(std::string_view text);

}  // namespace rouse::server
