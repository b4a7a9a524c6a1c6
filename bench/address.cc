#include "bench/address.h"

#include <charconv>
#include <stdexcept>

namespace rouse::bench {

Address parse_address(std::string_view text) {
    const std::string typed(text);
    constexpr std::string_view kScheme = "http://";
    if (text.starts_with(kScheme)) text.remove_prefix(kScheme.size());
    if (text.ends_with('/')) text.remove_suffix(1);
    const std::size_t colon = text.rfind(':');
    Address address;
    address.host = text.substr(0, colon);
    const std::string_view port = colon == text.npos ? "" : text.substr(colon + 1);
    const auto [end, failed] =
        std::from_chars(port.data(), port.data() + port.size(), address.port);
    if (address.host.empty() || failed != std::errc{} || end != port.data() + port.size()) {
        throw std::invalid_argument("'" + typed + "' is not like http://127.0.0.1:7717");
    }
    return address;
}

}  // namespace rouse::bench
