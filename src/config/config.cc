#include "config/config.h"

#include <arpa/inet.h>

#include <cstddef>

#include "config/choices.h"

namespace rouse {

bool ListenAddress::loopback() const {
    if (host == "localhost") return true;
    in_addr v4{};
    if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24U == 127;
    in6_addr v6{};
    return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

std::string ListenAddress::text() const {
    const bool v6 = host.contains(':');
    return (v6 ? '[' + host + ']' : host) + ':' + std::to_string(port);
}

std::string_view to_string(WebhookEvent event) {
    return config::choice_text(event);
}

std::vector<WebhookEvent> all_webhook_events() {
    std::vector<WebhookEvent> all(config::kChoices<WebhookEvent>.size());
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i] = static_cast<WebhookEvent>(i);
    return all;
}

}  // namespace rouse
