#pragma once

// Bytes from outside as text. What ends in a JSON string must be UTF-8, and programs and servers
// print what they like.

#include <cstddef>
#include <string>
#include <string_view>

namespace rouse {

struct Utf8Character {
    char32_t code = 0;
    std::size_t length = 0;  // in bytes; 0 when it is not UTF-8
};

// Of text that is not empty.
Utf8Character first_utf8_character(std::string_view text);

// It has no look of its own and changes how others look: controls, directions, joiners.
bool is_invisible(char32_t code);

// The same text with U+FFFD for each byte that belongs to no character.
std::string to_utf8(std::string_view bytes);

// At most `limit` bytes of UTF-8 from the front or from the back, whole characters only.
std::string_view utf8_head(std::string_view text, std::size_t limit);
std::string_view utf8_tail(std::string_view text, std::size_t limit);

}  // namespace rouse
