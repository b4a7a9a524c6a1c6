#pragma once

// What a server or a program says, as a tool's result.

#include <string_view>

#include "rouse/message.h"

namespace rouse {

// A result when it is JSON of the form {content, is_error?, display?, metadata?} or
// {title, output, metadata?} and nothing else; any other bytes are the result's text.
ToolResult parse_tool_answer(std::string_view bytes);

}  // namespace rouse
