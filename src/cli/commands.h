#pragma once

// The commands of the one binary. Each adds itself to the program and runs when it was asked for.

#include <functional>
#include <string>
#include <vector>

#include "base/env.h"

namespace CLI {
class App;
}

namespace rouse {
struct VerifyReport;
}

namespace rouse::cli {

// 0 done, 1 failed, 2 called wrongly or refused before anything happened.
enum ExitCode : int { kDone = 0, kFailed = 1, kUsage = 2 };

// Each returns what to run when the command line names it; -1 from that: it did not.
using Command = std::function<int()>;
Command add_conversations(CLI::App& program, Env env);  // run, resume, continue
Command add_sessions(CLI::App& program, Env env);
Command add_waits(CLI::App& program, Env env);  // waits, explain, cancel
Command add_pending(CLI::App& program, Env env);
Command add_mail(CLI::App& program, Env env);  // send, inbox
Command add_tokens(CLI::App& program, Env env);
Command add_verify(CLI::App& program, Env env);
std::string summary_of(const VerifyReport& report);  // its last line
Command add_archives(CLI::App& program, Env env);    // export, backup, import
Command add_version(CLI::App& program, Env env);

class ServerCommands;
void add_watch(CLI::App& sessions, ServerCommands& commands);

// `more` are the commands that need the whole program and are made where it is put together.
using AddCommand = Command (*)(CLI::App& program, Env env);
int run(int argc, char** argv, Env env, const std::vector<AddCommand>& more);

}  // namespace rouse::cli
