#include "base/id_source.h"

#include <array>
#include <vector>

#include "base/encoding.h"

namespace rouse {

std::string IdSource::timed_text() {
    std::array<std::uint8_t, 16> bytes{};
    random_.fill(std::span(bytes).subspan(6));
    // The first 8 bytes are the rank: the time, then 16 bits that start in their lower half, so
    // that the ids of one millisecond have room to count up.
    const auto ms = static_cast<std::uint64_t>(to_epoch_ms(clock_.now()));
    const std::uint64_t start = (bytes[6] & 0x7FU) << 8U | bytes[7];
    const std::uint64_t rank = next_rank(ms << 16U | start);
    for (std::size_t i = 0; i < 8; ++i)
        bytes[i] = static_cast<std::uint8_t>(rank >> (56U - 8U * i));
    return to_base32(bytes);
}

std::uint64_t IdSource::next_rank(std::uint64_t fresh) {
    std::uint64_t last = last_rank_.load();
    std::uint64_t next = 0;
    do {
        const bool later = fresh >> 16U > last >> 16U;
        next = later ? fresh : last + 1;
    } while (!last_rank_.compare_exchange_weak(last, next));
    return next;
}

std::string IdSource::random_text(std::size_t bytes) {
    std::vector<std::uint8_t> raw(bytes);
    random_.fill(raw);
    return to_base32(raw);
}

Secret IdSource::secret() {
    return Secret(random_text(32));
}

}  // namespace rouse
