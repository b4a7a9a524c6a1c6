#include "base/encoding.h"

#include <openssl/evp.h>

namespace rouse {

// libstdc++ 12 tells resize_and_overwrite's callback a size that may be larger than the one that it
// was asked for; `length` counts.

std::string to_hex(std::span<const std::uint8_t> bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const std::size_t length = bytes.size() * 2;
    std::string text;
    text.resize_and_overwrite(length, [&](char* into, std::size_t) {
        for (const std::uint8_t byte : bytes) {
            *into++ = kDigits.data()[byte >> 4U];
            *into++ = kDigits.data()[byte & 0xFU];
        }
        return length;
    });
    return text;
}

std::string to_base32(std::span<const std::uint8_t> bytes) {
    constexpr std::string_view kDigits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    const std::size_t bits = bytes.size() * 8;
    const std::size_t length = (bits + 4) / 5;
    std::string text;
    text.resize_and_overwrite(length, [&](char* into, std::size_t) {
        std::uint32_t pending = 0;
        std::size_t pending_bits = length * 5 - bits;
        for (const std::uint8_t byte : bytes) {
            pending = (pending << 8U) | byte;
            pending_bits += 8;
            while (pending_bits >= 5) {
                pending_bits -= 5;
                *into++ = kDigits.data()[(pending >> pending_bits) & 0x1FU];
            }
        }
        return length;
    });
    return text;
}

std::string to_base64(std::string_view bytes) {
    std::string out((bytes.size() + 2) / 3 * 4, '\0');
    const auto* from = reinterpret_cast<const unsigned char*>(bytes.data());
    // It also writes a NUL behind the end, where a string has one.
    EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()), from,
                    static_cast<int>(bytes.size()));
    return out;
}

std::optional<std::string> from_base64(std::string_view text) {
    if (text.empty() || text.size() % 4 != 0) return std::nullopt;
    std::string out(text.size() / 4 * 3, '\0');
    const int length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                       reinterpret_cast<const unsigned char*>(text.data()),
                                       static_cast<int>(text.size()));
    if (length < 0) return std::nullopt;
    const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
    out.resize(static_cast<std::size_t>(length) - padding);
    return out;
}

}  // namespace rouse
