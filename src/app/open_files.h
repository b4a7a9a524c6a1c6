#pragma once

// How many files and sockets the process may have open at once.

#include <cstddef>

namespace rouse::app {

// Raises the limit as far as the system lets anybody and says what it is.
std::size_t allow_open_files();

// So many connections leave enough for the store, for models and for the programs that tools are.
std::size_t connections_within(std::size_t open_files, std::size_t wanted);

}  // namespace rouse::app
