#include "base/id_source.h"

#include <array>
#include <vector>

#include "base/encoding.h"

namespace rouse {

std::string IdSource::timed_text() {
    std::array<std::uint8_t, 16> bytes{};
    const auto ms = static_cast<std::uint64_t>(to_epoch_ms(clock_.now()));
    for (std::size_t i = 0; i < 6; ++i)
        bytes[i] = static_cast<std::uint8_t>(ms >> (40U - 8U * i));
    random_.fill(std::span(bytes).subspan(6));
    return to_base32(bytes);
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
