#pragma once

// Requests that wait for something. Nobody waits for them any more when their client hangs up or
// their token is revoked.

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

namespace rouse::server {

// On the loop of the connections, but for the places, which may end anywhere.
class WaitingRequests final {
 public:
    class Place {
     public:
        explicit Place(std::stop_token hung_up)
            : hung_up_(std::move(hung_up), [this] { stop_.request_stop(); }) {}
        Place(const Place&) = delete;
        Place& operator=(const Place&) = delete;
        std::stop_token gone() const { return stop_.get_token(); }

     private:
        friend class WaitingRequests;
        std::stop_source stop_;
        std::stop_callback<std::function<void()>> hung_up_;
    };

    // A request's place, for as long as somebody holds it.
    std::shared_ptr<Place> add(const std::string& token_id, std::stop_token hung_up);
    void revoke(const std::string& token_id);

 private:
    struct Places {
        std::vector<std::weak_ptr<Place>> all;
        std::size_t look_at = 64;  // so many, then those that have ended go
    };
    std::unordered_map<std::string, Places> by_token_;
};

}  // namespace rouse::server
