#pragma once

// A tool that is a program: the input on its standard input, the result on its standard output. An
// asynchronous one (spec.async) reads what an HTTP endpoint would be sent, starts the job and says
// so; the result comes later, to our webhook. It runs with our rights and is no boundary.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "rouse/tool.h"
#include "tools/job_start.h"

namespace rouse {

struct ExecToolOptions {
    ToolSpec spec;
    std::vector<std::string> command = {};  // no shell reads it
    // Besides PATH, HOME, LANG, ROUSE_SESSION_ID, ROUSE_CALL_ID and ROUSE_TOOL; of an async tool
    // also ROUSE_PENDING_ID and ROUSE_CALLBACK_URL.
    std::vector<std::pair<std::string, std::string>> env = {};
    std::string cwd = {};
    Milliseconds timeout = limits::kToolTimeout;  // of the program; a job's is spec.timeout
    std::size_t output_bytes = limits::kToolOutputBytes;
    JobCallback callback = {};  // of an async tool
};

std::shared_ptr<Tool> make_exec_tool(ExecToolOptions options);

}  // namespace rouse
