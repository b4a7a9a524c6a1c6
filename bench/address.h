#pragma once

// Where a server is: `127.0.0.1:7717`, or `http://127.0.0.1:7717` as an URL.

#include <cstdint>
#include <string>
#include <string_view>

namespace rouse::bench {

struct Address {
    std::string host;
    std::uint16_t port = 0;
    std::string text() const { return host + ":" + std::to_string(port); }
};

// Throws std::invalid_argument, with a message for whoever typed it.
Address parse_address(std::string_view text);

}  // namespace rouse::bench
