#pragma once

// Which addresses are the public Internet's. Asked about the address that is about to be
// connected, never about a name or its spelling: "2130706433" and a name of the attacker's DNS
// are loopback too.

#include <boost/asio/ip/address.hpp>

namespace rouse {

// False for loopback, private, link-local, shared (CGNAT), multicast, documentation, reserved and
// unspecified addresses, and for every IPv6 form that carries an IPv4 address inside.
bool is_public_address(const boost::asio::ip::address& address);

}  // namespace rouse
