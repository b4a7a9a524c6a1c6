#pragma once

// The rules that concern more than one key. They speak of values that were read without complaint;
// what was wrong in itself is not reported twice.

#include "config/config.h"
#include "config/reading.h"

namespace rouse::config {

// `reading` is at the root, after everything was read.
void check_whole(const Config& config, Reading& reading);

}  // namespace rouse::config
