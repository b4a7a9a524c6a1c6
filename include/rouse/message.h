#pragma once

// What people, models and tools say to one another.
//
//   Message            a role and content blocks: text, tool_use, tool_result, image, or a block of
//   a
//                      provider's own, which is kept byte for byte
//   ToolResult         what a tool gave back; is_error tells the model that it went wrong
//   Usage              tokens, summed over a turn
//   RawJson            JSON whose tokens keep their text: numbers are never rounded on the way

#include <string>

#include "domain/message.h"

namespace rouse {

inline Message user_message(std::string text) {
    return {Role::user, text_content(std::move(text)), {}};
}

// The text blocks of a message, one after the other.
std::string text_of(const Message& message);

}  // namespace rouse
