#pragma once

// A tool that is a program: the input on its standard input, the result on its standard output. It
// runs with our rights and is no boundary.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "rouse/tool.h"

namespace rouse {

struct ExecToolOptions {
    ToolSpec spec;
    std::vector<std::string> command = {};  // no shell reads it
    // Besides PATH, HOME, LANG, ROUSE_SESSION_ID, ROUSE_CALL_ID and ROUSE_TOOL.
    std::vector<std::pair<std::string, std::string>> env = {};
    std::string cwd = {};
    Milliseconds timeout = limits::kToolTimeout;
    std::size_t output_bytes = limits::kToolOutputBytes;
};

std::shared_ptr<Tool> make_exec_tool(ExecToolOptions options);

}  // namespace rouse
