#pragma once

// SHA-256 for what must not be forged or confused, CRC32C for what must not be torn.

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace rouse {

using Sha256 = std::array<std::uint8_t, 32>;

// The digest of the parts, one after the other.
Sha256 sha256(std::initializer_list<std::string_view> parts);
std::string sha256_hex(std::string_view text);
Sha256 hmac_sha256(std::string_view key, std::string_view text);

// Takes the same time wherever the first difference is.
bool equal_in_constant_time(std::string_view a, std::string_view b);

std::uint32_t crc32c(std::string_view bytes, std::uint32_t seed = 0);

}  // namespace rouse
