#pragma once

// Webhooks on their way. Each was queued in the commit that it tells of; here they are sent, at
// least once, until the other side takes them or the schedule is over. On one loop.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/env.h"
#include "runtime/system_log.h"
#include "runtime/webhook_queue.h"

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
    void take_new();
    void start_next();
    Task<void> deliver(WebhookQueue::Webhook webhook, DeliveryRow row);
    // The log says how it went. False: it could not be told.
    Task<bool> note(std::string id, RecordBody how);
    // Notes in the log that they were given up, until it has taken all.
    Task<void> give_up_too_many();

    Env env_;
    SystemLog& system_;
    boost::asio::any_io_executor loop_;
    Send send_;
    Secret secret_;
    boost::asio::steady_timer timer_;
    WebhookQueue queue_;
    std::uint64_t seen_ = 0;  // the order of the last one in the queue
    WebhookQueue::From from_ = WebhookQueue::From::earlier;  // until all that were left are taken
    std::deque<RecordBody> too_many_;
    boost::asio::steady_timer give_up_again_;
    bool giving_up_ = false;
    bool stopped_ = false;
};

// As the norm has it: HMAC-SHA256 of "id.timestamp.body" as v1,<base64>.
std::string webhook_signature(const std::string& secret, const std::string& id,
                              const std::string& timestamp, const std::string& body);

}  // namespace rouse
