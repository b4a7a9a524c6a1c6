#pragma once

// How this library reports failure. A function that can fail returns Result<T>: a value, or an
// Error with a kind to act on, a reason that never changes its spelling, and a message that says
// what to do next. Nothing here throws for a bad argument or a failing disk.
//
//   Result<Response> done = agent.respond_and_wait(request);
//   if (!done) std::cerr << done.error().message;

#include "base/result.h"
