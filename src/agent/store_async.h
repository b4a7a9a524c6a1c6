#pragma once

// A commit as something a coroutine waits for. It is never cut short: whoever is cancelled
// meanwhile still learns how it went.

#include "rouse/tool.h"
#include "store/store.h"

namespace rouse {

Task<Result<Committed>> commit_async(Store& store, Commit commit);

// What moved a log is seen by readers once it is durable: a moment to wait before planning again,
// longer with each try.
Task<void> until_it_shows(int tries);

}  // namespace rouse
