#pragma once

// Finds lines in a log file by their numbers, without reading what stands before them.

#include <cstdint>
#include <string>
#include <vector>

#include "base/fs.h"
#include "domain/state.h"

namespace rouse::files {

// Lines `from` to `from + limit - 1` of the first `bytes` bytes, fewer at the end of them. Nothing
// is checked but that each line ends. corrupt: the file is shorter.
Result<std::vector<std::string>> find_lines(Fs& fs, const std::string& path, std::uint64_t bytes,
                                            Seq from, std::size_t limit);

}  // namespace rouse::files
