#pragma once

// The file `format` of a data directory, by which it is known as one.

#include "base/fs.h"
#include "store/files/layout.h"

namespace rouse::files {

// The one that it has.
//   not_found  not_a_data_directory: it has no such file
//   invalid    newer_format: another one than this version knows
Result<int> check_format(Fs& fs, const Layout& layout);
// The last step of making a directory.
Result<void> write_format(Fs& fs, const Layout& layout);

}  // namespace rouse::files
