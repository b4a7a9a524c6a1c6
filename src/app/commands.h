#pragma once

// The commands that need the whole program.

#include "cli/commands.h"

namespace rouse::app {

cli::Command add_serve(CLI::App& program, Env env);
cli::Command add_config(CLI::App& program, Env env);
cli::Command add_demo(CLI::App& program, Env env);

}  // namespace rouse::app
