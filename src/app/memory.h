#pragma once

namespace rouse {

// Memory that was freed and is kept for later goes back to the system, if it is much. What a burst
// of work needed would otherwise count as ours until the next one.
void give_back_memory();

}  // namespace rouse
