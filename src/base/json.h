#pragma once

// JSON that came from somebody else keeps the text of every token. A parsed tree would not do that
// (0.1 becomes 1E-1, 2^64 a rounded double), so such values travel as checked text, and our own
// records are read by splitting that text into members.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rouse {

// One JSON value: well-formed, UTF-8, finite numbers, no white space outside strings, at most
// limits::kJsonDepth deep. Empty text stands for "absent".
class RawJson {
 public:
    RawJson() = default;

    // Checks text from outside and drops the white space between tokens.
    //   invalid   "invalid_json", with the offset and what is wrong there
    static Result<RawJson> parse(std::string_view text);

    // For text that went through parse() before, as everything in a verified log did.
    static RawJson trusted(std::string text);

    const std::string& text() const { return text_; }
    bool absent() const { return text_.empty(); }
    friend bool operator==(const RawJson&, const RawJson&) = default;

 private:
    std::string text_;
};

// One member of an object, as views into the text that was split.
struct JsonMember {
    std::string_view key;    // between the quotes, escapes not resolved
    std::string_view value;  // the raw token or nested text
};

// Splits compact JSON. Safe on any bytes: what is not an object (array) as RawJson would print it
// is `corrupt`. Does not look inside strings and nested values beyond finding their end.
Result<void> split_object(std::string_view text, std::vector<JsonMember>& members);
Result<void> split_array(std::string_view text, std::vector<std::string_view>& items);

// The readers give nothing when the token is of another type.
std::optional<std::string> read_json_string(std::string_view token);
std::optional<std::int64_t> read_json_int(std::string_view token);
std::optional<bool> read_json_bool(std::string_view token);
std::optional<double> read_json_number(std::string_view token);

// RFC 7396 on compact JSON: null removes a member, objects are merged, anything else replaces.
// Members keep their order, new ones follow. Of members with the same name the patch's last counts.
std::string merge_patch(std::string_view before, std::string_view patch);

void append_json_string(std::string& out, std::string_view text);
// "name": behind a comma, where it is not the first of its object.
void append_json_name(std::string& out, std::string_view name);
void append_json_number(std::string& out, double number);  // null when it is not finite
std::string to_json_string(std::string_view text);

}  // namespace rouse
