#include "server/waiting_requests.h"

#include <algorithm>

namespace rouse::server {

std::shared_ptr<WaitingRequests::Place> WaitingRequests::add(const std::string& token_id,
                                                             std::stop_token hung_up) {
    Places& places = by_token_[token_id];
    if (places.all.size() >= places.look_at) {
        std::erase_if(places.all, [](const std::weak_ptr<Place>& one) { return one.expired(); });
        places.look_at = std::max<std::size_t>(64, 2 * places.all.size());
    }
    auto place = std::make_shared<Place>(std::move(hung_up));
    places.all.push_back(place);
    return place;
}

void WaitingRequests::revoke(const std::string& token_id) {
    const auto places = by_token_.extract(token_id);
    if (places.empty()) return;
    for (const std::weak_ptr<Place>& one : places.mapped().all) {
        if (const std::shared_ptr<Place> place = one.lock()) place->stop_.request_stop();
    }
}

}  // namespace rouse::server
