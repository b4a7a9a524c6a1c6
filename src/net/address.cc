#include "net/address.h"

#include <algorithm>
#include <cstdint>

namespace rouse {
namespace {

namespace ip = boost::asio::ip;

struct Range {
    std::uint32_t network;
    unsigned prefix_length;
};

// IANA's special-purpose registry.
constexpr Range kSpecialV4[] = {
    {0x00000000, 8},   // 0.0.0.0: this host
    {0x0A000000, 8},   // 10.0.0.0: private
    {0x64400000, 10},  // 100.64.0.0: shared by a carrier's customers
    {0x7F000000, 8},   // 127.0.0.0: loopback
    {0xA9FE0000, 16},  // 169.254.0.0: link-local, the clouds' metadata
    {0xAC100000, 12},  // 172.16.0.0: private
    {0xC0000000, 24},  // 192.0.0.0: protocol assignments
    {0xC0000200, 24},  // 192.0.2.0: documentation
    {0xC0586300, 24},  // 192.88.99.0: 6to4 relays
    {0xC0A80000, 16},  // 192.168.0.0: private
    {0xC6120000, 15},  // 198.18.0.0: benchmarks
    {0xC6336400, 24},  // 198.51.100.0: documentation
    {0xCB007100, 24},  // 203.0.113.0: documentation
    {0xE0000000, 3},   // 224.0.0.0: multicast, reserved, broadcast
};

bool is_public_v4(const ip::address_v4& address) {
    const std::uint32_t bits = address.to_uint();
    return std::ranges::none_of(kSpecialV4, [&](const Range& range) {
        return (bits ^ range.network) >> (32 - range.prefix_length) == 0;
    });
}

// Only 2000::/3 is handed out at all; what is special stands inside.
bool is_public_v6(const ip::address_v6& address) {
    const ip::address_v6::bytes_type b = address.to_bytes();
    if (b[0] >> 5U != 1) return false;
    const unsigned first = b[0] * 256U + b[1];
    const unsigned second = b[2] * 256U + b[3];
    if (first == 0x2001 && second < 0x0200) return false;   // protocols: Teredo, ORCHID
    if (first == 0x2001 && second == 0x0DB8) return false;  // documentation
    if (first == 0x2002) return false;                      // 6to4: an IPv4 address inside
    return first != 0x3FFF || second >= 0x1000;             // documentation
}

}  // namespace

bool is_public_address(const ip::address& address) {
    return address.is_v4() ? is_public_v4(address.to_v4()) : is_public_v6(address.to_v6());
}

}  // namespace rouse
