#pragma once

// The loop that changes sessions.

#include <boost/asio/io_context.hpp>

#include "store/store.h"

namespace rouse {

// Runs `loop` until it is out of work. As long as handlers stand in line, the store is held for two
// milliseconds at a time: what they commit goes to the disk together, with one sync.
void run_together(boost::asio::io_context& loop, Store& store);

}  // namespace rouse
