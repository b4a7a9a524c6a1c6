#pragma once

// Bytes as text: hex for digests, Crockford base32 for ids (sorts like the bytes do, no look-alike
// letters).

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rouse {

std::string to_hex(std::span<const std::uint8_t> bytes);

std::string to_base64(std::string_view bytes);
// Nothing when it is not base64.
std::optional<std::string> from_base64(std::string_view text);

// Upper case, most significant bits first, padded with zero bits *in front*: 16 bytes make 26
// characters, as in a ULID.
std::string to_base32(std::span<const std::uint8_t> bytes);

}  // namespace rouse
