#include "base/digest.h"

#include <isa-l/crc.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include "base/check.h"
#include "base/encoding.h"

namespace rouse {

// EVP makes and frees a context for each digest, which costs more than hashing a short record. What
// lies below it is deprecated for the sake of other algorithms, not for any fault.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
Sha256 sha256(std::initializer_list<std::string_view> parts) {
    SHA256_CTX context;
    Sha256 digest;
    bool ok = SHA256_Init(&context) == 1;
    for (const std::string_view part : parts) {
        ok = ok && SHA256_Update(&context, part.data(), part.size()) == 1;
    }
    ok = ok && SHA256_Final(digest.data(), &context) == 1;
    ROUSE_CHECK(ok, "SHA-256 failed");
    return digest;
}
#pragma GCC diagnostic pop

std::string sha256_hex(std::string_view text) {
    return to_hex(sha256({text}));
}

Sha256 hmac_sha256(std::string_view key, std::string_view text) {
    Sha256 digest{};
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    const unsigned char* made = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes,
                                     text.size(), digest.data(), nullptr);
    ROUSE_CHECK(made != nullptr, "HMAC failed");
    return digest;
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
    return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::uint32_t crc32c(std::string_view bytes, std::uint32_t seed) {
    // ISA-L takes and returns the register itself; CRC32C starts from all ones and inverts.
    auto* data = reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));
    std::uint32_t crc = ~seed;
    constexpr std::size_t kChunk = 1U << 30U;  // the length parameter is an int
    for (std::size_t done = 0; done < bytes.size(); done += kChunk) {
        const std::size_t n = std::min(kChunk, bytes.size() - done);
        crc = crc32_iscsi(data + done, static_cast<int>(n), crc);
    }
    return ~crc;
}

}  // namespace rouse
