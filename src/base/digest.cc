#include "base/digest.h"

#include <isa-l/crc.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <memory>

#include "base/check.h"
#include "base/encoding.h"

namespace rouse {
namespace {

// Fetching the algorithm costs more than hashing a record, so each thread does it once.
EVP_MD_CTX* thread_context() {
    struct Context {
        EVP_MD* algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
        EVP_MD_CTX* context = EVP_MD_CTX_new();
        Context() {
            ROUSE_CHECK(algorithm && context && EVP_DigestInit_ex2(context, algorithm, nullptr),
                        "OpenSSL has no SHA-256");
        }
        ~Context() {
            EVP_MD_CTX_free(context);
            EVP_MD_free(algorithm);
        }
    };
    thread_local Context context;
    return context.context;
}

}  // namespace

Sha256 sha256(std::initializer_list<std::string_view> parts) {
    EVP_MD_CTX* context = thread_context();
    Sha256 digest;
    bool ok = EVP_DigestInit_ex2(context, nullptr, nullptr) == 1;
    for (const std::string_view part : parts) {
        ok = ok && EVP_DigestUpdate(context, part.data(), part.size()) == 1;
    }
    ok = ok && EVP_DigestFinal_ex(context, digest.data(), nullptr) == 1;
    ROUSE_CHECK(ok, "SHA-256 failed");
    return digest;
}

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
