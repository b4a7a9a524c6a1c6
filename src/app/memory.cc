#include "app/memory.h"

#ifdef ROUSE_TCMALLOC

#include <gperftools/malloc_extension.h>

namespace rouse {

void bound_memory_caches() {
    constexpr std::size_t kOfAllThreads = 8 << 20;
    MallocExtension::instance()->SetNumericProperty("tcmalloc.max_total_thread_cache_bytes",
                                                    kOfAllThreads);
}

void give_back_memory() {
    constexpr std::size_t kMuch = 1 << 20;
    MallocExtension* memory = MallocExtension::instance();
    memory->MarkThreadIdle();  // what it keeps for this thread
    std::size_t free = 0;
    memory->GetNumericProperty("tcmalloc.pageheap_free_bytes", &free);
    if (free > kMuch) memory->ReleaseFreeMemory();
}

}  // namespace rouse

#else

namespace rouse {

void bound_memory_caches() {}
void give_back_memory() {}

}  // namespace rouse

#endif
