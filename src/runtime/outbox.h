#pragma once

// Webhooks on their way. Each was queued in the commit that it tells of; here they are sent, at
// least once, until the other side takes them or the schedule is over. On one loop.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/env.h"
#include "runtime/system_log.h"

namespace rouse {

struct WebhookPost {
    std::string url;
    std::vector<std::pair<std::string, std::string>> headers;
    std::string body;
};

class Outbox final {
 public:
    // The status that came back.
    using Send = std::function<Task<Result<int>>(WebhookPost)>;
    using Secret = std::function<std::optional<std::string>(const std::string& variable)>;

    Outbox(Env env, SystemLog& system, boost::asio::any_io_executor loop, Send send, Secret secret);

    void start();
    void stop();
    void wake();  // something was queued

 private:
    Task<void> run();
    Task<void> deliver(DeliveryRow row);
    Task<void> note(std::string id, RecordBody how);
    std::vector<DeliveryRow> take_due();
    std::optional<Timestamp> next_due() const;

    Env env_;
    SystemLog& system_;
    boost::asio::any_io_executor loop_;
    Send send_;
    Secret secret_;
    boost::asio::steady_timer timer_;
    std::set<std::string> in_flight_;
    std::map<std::string, Timestamp> not_noted_;  // sent, and when they may be sent again
    bool stopped_ = false;
};

// As the norm has it: HMAC-SHA256 of "id.timestamp.body" as v1,<base64>.
std::string webhook_signature(const std::string& secret, const std::string& id,
                              const std::string& timestamp, const std::string& body);

}  // namespace rouse
