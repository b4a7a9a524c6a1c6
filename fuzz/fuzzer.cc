// One libFuzzer program for each target: ROUSE_FUZZ_TARGET names it.

#include <cstddef>
#include <cstdint>

#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    rouse::fuzz::ROUSE_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
    return 0;
}
