#include "app/memory.h"

#ifdef ROUSE_TCMALLOC

#include <gperftools/malloc_extension.h>

namespace rouse {

void give_back_memory() {
    constexpr std::size_t kMuch = 32 << 20;
    MallocExtension* memory = MallocExtension::instance();
    std::size_t free = 0;
    memory->GetNumericProperty("tcmalloc.pageheap_free_bytes", &free);
    if (free > kMuch) memory->ReleaseFreeMemory();
}

}  // namespace rouse

#else

namespace rouse {

void give_back_memory() {}

}  // namespace rouse

#endif
