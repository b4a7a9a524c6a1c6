#pragma once

// Reads a log file a block at a time: a long log does not go through memory as a whole.

#include <cstdint>
#include <string>

#include "base/fs.h"
#include "store/files/log_reader.h"
#include "store/files/packs.h"

namespace rouse::files {

Error log_too_short(const std::string& path, std::uint64_t size, std::uint64_t expected);

// The lines behind `tip`, up to `bytes` of the log. corrupt: `tip` stands before the line that is
// damaged. Of a long log, another thread checks the hashes of a block while the lines of the one
// before it are read.
Result<void> read_log_lines(Fs& fs, const LogPlace& place, std::uint64_t bytes, LogTip& tip,
                            const OnRecord& on_record);

}  // namespace rouse::files
