#pragma once

// Runs a program to its end: no shell, bytes in, bytes out, limits on both time and output.

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "base/result.h"
#include "base/time.h"

namespace rouse {

struct ProcessRequest {
    std::vector<std::string> argv = {};  // a path, or a name that is looked up in PATH
    std::string input = {};              // its standard input, which is a file
    // All it gets besides our own PATH, HOME and LANG, which may be replaced here.
    std::vector<std::pair<std::string, std::string>> environment = {};
    std::string working_dir = {};                            // empty: ours
    Milliseconds time_limit{0};                              // 0: none
    std::size_t output_bytes = limits::kProcessOutputBytes;  // of each stream
};

struct ProcessResult {
    int exit_code = 0;        // when it was not killed
    int signal = 0;           // that killed it, or 0
    std::string output = {};  // at most output_bytes each
    std::string errors = {};
    bool truncated = false;  // wrote more, for which it was killed
    bool timed_out = false;  // took longer, for which it was killed
};

// The program gets a session and a process group of its own. When it ends, when a limit is passed
// or when the caller is cancelled, all that is left of the group is killed, and with the thread
// that runs the loop the program itself is: no program outlives a killed server, but what it
// started may.
//   not_found    command_not_found, working_dir_not_found
//   invalid      invalid_command: no argv, or text with a NUL in it
//   io           spawn_failed: the system says why
//   cancelled    once it is dead
boost::asio::awaitable<Result<ProcessResult>> run_process(ProcessRequest request);

}  // namespace rouse
