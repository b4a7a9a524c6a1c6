#include "runtime/outbox.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "base/digest.h"
#include "base/encoding.h"

namespace rouse {

namespace asio = boost::asio;

namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

// Behind each failed attempt; about three days in all.
constexpr Milliseconds kSchedule[] = {seconds(5), minutes(5), minutes(30), hours(2), hours(5),
                                      hours(10),  hours(14),  hours(20),   hours(24)};
constexpr std::chrono::seconds kLookAgain{1};
constexpr Milliseconds kSendAgain = seconds(30);  // what was sent and could not be noted
constexpr int kGone = 410;

}  // namespace

std::string webhook_signature(const std::string& secret, const std::string& id,
                              const std::string& timestamp, const std::string& body) {
    constexpr std::string_view kPrefix = "whsec_";
    std::string key = secret;
    if (secret.starts_with(kPrefix)) {
        key = from_base64(secret.substr(kPrefix.size())).value_or(secret);
    }
    const Sha256 digest = hmac_sha256(key, id + "." + timestamp + "." + body);
    return "v1," + to_base64({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

Outbox::Outbox(Env env, SystemLog& system, asio::any_io_executor loop, Send send, Secret secret)
    : env_(env),
      system_(system),
      loop_(std::move(loop)),
      send_(std::move(send)),
      secret_(std::move(secret)),
      timer_(loop_),
      give_up_again_(loop_) {}

void Outbox::wake() {
    timer_.cancel();
}

void Outbox::stop() {
    stopped_ = true;
    timer_.cancel();
    give_up_again_.cancel();
}

void Outbox::start() {
    asio::co_spawn(loop_, run(), [this](const std::exception_ptr& thrown) {
        if (thrown) env_.log.error("outbox.escaped", {});
    });
}

void Outbox::take_new() {
    const std::vector<DeliveryRow> rows =
        system_.ask([&](const SystemState& state) { return state.deliveries_after(seen_); });
    for (const DeliveryRow& row : rows) {
        seen_ = row.order;
        if (queue_.add(row, from_)) continue;
        WebhookFailed failed;
        failed.delivery_id = row.webhook.delivery_id;
        failed.attempts = row.attempts;
        failed.error = "too many others wait for this endpoint";
        too_many_.push_back(to_record(failed));
    }
    from_ = WebhookQueue::From::now;
    if (too_many_.empty() || std::exchange(giving_up_, true)) return;
    asio::co_spawn(loop_, give_up_too_many(),
                   [this](const std::exception_ptr&) { giving_up_ = false; });
}

Task<void> Outbox::give_up_too_many() {
    constexpr std::size_t kInACommit = 1000;
    while (!too_many_.empty() && !stopped_) {
        const std::size_t some = std::min(too_many_.size(), kInACommit);
        Records records(too_many_.begin(), too_many_.begin() + static_cast<std::ptrdiff_t>(some));
        const Result<void> noted = co_await system_.append_all(std::move(records));
        if (noted) {
            too_many_.erase(too_many_.begin(),
                            too_many_.begin() + static_cast<std::ptrdiff_t>(some));
            env_.log.error("webhook.too_many", {{"given_up", some}});
            continue;
        }
        give_up_again_.expires_after(kSendAgain);
        (void)co_await give_up_again_.async_wait(asio::as_tuple(asio::use_awaitable));
    }
}

void Outbox::start_next() {
    while (std::optional<WebhookQueue::Webhook> next = queue_.take(env_.clock.now())) {
        const WebhookQueue::Webhook webhook = *std::move(next);
        DeliveryRow row = system_.ask([&](const SystemState& state) {
            const auto found = state.deliveries.find(webhook.id);
            return found == state.deliveries.end() ? DeliveryRow() : found->second;
        });
        if (row.webhook.delivery_id.empty()) {
            queue_.done(webhook);
            continue;
        }
        asio::co_spawn(loop_, deliver(webhook, std::move(row)),
                       [this, webhook](const std::exception_ptr& thrown) {
                           queue_.done(webhook);
                           if (thrown) queue_.add_again(webhook, env_.clock.now() + kSendAgain);
                           timer_.cancel();
                       });
    }
}

Task<void> Outbox::run() {
    while (!stopped_) {
        take_new();
        start_next();
        if (const std::optional<Timestamp> next = queue_.next_due()) {
            const Milliseconds left = std::max(Milliseconds(0), *next - env_.clock.now());
            timer_.expires_after(std::min<Milliseconds>(left, kLookAgain));
        } else {
            timer_.expires_at(asio::steady_timer::time_point::max());
        }
        (void)co_await timer_.async_wait(asio::as_tuple(asio::use_awaitable));
    }
}

Task<void> Outbox::deliver(WebhookQueue::Webhook one, DeliveryRow row) {
    const WebhookQueued& webhook = row.webhook;
    const std::string at = std::to_string(to_epoch_ms(env_.clock.now()) / 1000);
    WebhookPost post;
    post.url = webhook.url;
    post.body = "{\"type\":" + to_json_string(webhook.type) +
                ",\"timestamp\":" + to_json_string(to_rfc3339(webhook.queued_at)) +
                ",\"data\":" + webhook.data.text() + "}";
    post.headers = {{"Content-Type", "application/json"},
                    {"webhook-id", webhook.delivery_id},
                    {"webhook-timestamp", at}};
    if (!webhook.secret_env.empty()) {
        const std::string secret = secret_(webhook.secret_env).value_or("");
        post.headers.emplace_back("webhook-signature",
                                  webhook_signature(secret, webhook.delivery_id, at, post.body));
    }
    const Result<int> answered = co_await send_(std::move(post));
    if (answered && *answered >= 200 && *answered < 300) {
        RecordBody delivered = to_record(WebhookDelivered{webhook.delivery_id});
        const bool noted = co_await note(webhook.delivery_id, std::move(delivered));
        if (!noted) queue_.add_again(std::move(one), env_.clock.now() + kSendAgain);
        co_return;
    }
    WebhookFailed failed;
    failed.delivery_id = webhook.delivery_id;
    failed.attempts = row.attempts + 1;
    failed.error =
        answered ? "answered with status " + std::to_string(*answered) : answered.error().message;
    const bool gone = (answered && *answered == kGone) || queue_.too_many_failed(webhook.url);
    if (!gone && failed.attempts <= std::size(kSchedule)) {
        failed.next_at = env_.clock.now() + kSchedule[failed.attempts - 1];
    }
    env_.log.warn(
        "webhook.failed",
        {{"webhook", webhook.delivery_id}, {"attempts", failed.attempts}, {"error", failed.error}});
    RecordBody record = to_record(failed);
    const bool noted = co_await note(webhook.delivery_id, std::move(record));
    const std::optional<Timestamp> next =
        noted ? failed.next_at : std::optional(env_.clock.now() + kSendAgain);
    if (next) queue_.add_again(std::move(one), *next);
}

// While the log cannot be told how it went, the delivery looks as if it had never been tried.
Task<bool> Outbox::note(std::string id, RecordBody how) {
    const Result<void> noted = co_await system_.append(std::move(how));
    if (!noted) {
        env_.log.warn("webhook.not_noted", {{"webhook", id}, {"error", noted.error().message}});
    }
    co_return noted.has_value();
}

}  // namespace rouse
