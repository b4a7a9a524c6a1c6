#pragma once

namespace rouse {

// Less is kept for threads than the allocator would. Called once, at the start.
void bound_memory_caches();

// Memory that was freed and is kept for later goes back to the system, if it is much. What a burst
// of work needed would otherwise count as ours until the next one.
void give_back_memory();

}  // namespace rouse
