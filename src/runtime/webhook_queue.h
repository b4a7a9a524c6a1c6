#pragma once

// Which webhook goes next. First attempts go in the order of their events, for each session and
// endpoint; a failed one is tried again on its own. An endpoint has so many on their way and so
// many that wait, and no more: one that does not answer holds up nobody else's.
//
// Whatever it is asked costs as much with a hundred thousand waiting as with one.

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "base/limits.h"
#include "domain/system_state.h"

namespace rouse {

struct WebhookLimits {
    std::size_t at_once = limits::kWebhooksAtOnce;
    std::size_t at_once_each = limits::kWebhooksAtOnceEach;
    std::size_t waiting_each = limits::kWebhooksWaitingEach;
};

class WebhookQueue final {
 public:
    struct Webhook {
        std::string id;
        std::string url;
        SessionId session;
        bool first = true;  // those behind it wait for its end
    };

    explicit WebhookQueue(WebhookLimits limits = {}) : limits_(limits) {}

    // False: too many wait for that endpoint already. What an earlier process left is taken
    // whatever there is: that one had taken it.
    enum class From : std::uint8_t { now, earlier };
    bool add(const DeliveryRow& row, From from = From::now);
    // The next one that may go, which is on its way then until done().
    std::optional<Webhook> take(Timestamp now);
    void done(const Webhook& webhook);
    // One that failed, or could not be noted.
    void add_again(Webhook webhook, Timestamp at);
    // So many wait for another attempt that none should be added to them.
    bool too_many_failed(const std::string& url) const;

    // When one that failed is due.
    std::optional<Timestamp> next_due() const;

 private:
    struct Endpoint {
        std::unordered_map<SessionId, std::deque<std::string>> first;  // ids, by session
        std::deque<SessionId> ready;                                   // whose first one may go
        std::deque<Webhook> again;                                     // that are due
        std::size_t waiting = 0;  // that could go if it were their turn
        std::size_t failed = 0;   // that wait for their time
        std::size_t on_their_way = 0;
        bool in_turn = false;     // has its place in turns_
        bool again_next = false;  // those that failed and the others take turns too
        bool has_work() const { return !ready.empty() || !again.empty(); }
    };

    void call_due(Timestamp now);
    void take_turn(const std::string& url, Endpoint& endpoint);
    Webhook take_from(const std::string& url, Endpoint& endpoint);

    WebhookLimits limits_;
    std::unordered_map<std::string, Endpoint> endpoints_;  // by URL; those with anything to do
    std::deque<std::string> turns_;                        // endpoints that could send one
    std::multimap<Timestamp, Webhook> failed_;
    std::size_t on_their_way_ = 0;
};

}  // namespace rouse
