#pragma once

// The outside world as one value: whoever holds an Env can be run by a test that owns all of it.

#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/random.h"

namespace rouse {

struct Env {
    Clock& clock;
    Random& random;
    Fs& fs;
    Logger& log;
};

}  // namespace rouse
