#pragma once

// Finds lines in a log file by their numbers, without reading what stands before them.

#include <cstdint>
#include <string>
#include <vector>

#include "base/fs.h"
#include "store/files/packs.h"
#include "store/store.h"

namespace rouse::files {

// Lines from `from` on, up to the limit or the end of the log's first `bytes` bytes. Nothing is
// checked but that each line ends. corrupt: the file is shorter.
Result<std::vector<std::string>> find_lines(Fs& fs, const LogPlace& place, std::uint64_t bytes,
                                            Seq from, ReadLimit limit);

}  // namespace rouse::files
