#include "runtime/outbox.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>

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
constexpr std::size_t kAtOnce = 16;
constexpr std::chrono::seconds kLookAgain{1};
constexpr Milliseconds kSendAgain = seconds(30);  // what was sent and could not be noted
constexpr int kGone = 410;

// Those that are not dead.
std::vector<const DeliveryRow*> in_order(const SystemState& state) {
    std::vector<const DeliveryRow*> rows;
    for (const auto& [id, row] : state.deliveries) {
        if (!row.dead) rows.push_back(&row);
    }
    std::ranges::sort(rows, {}, &DeliveryRow::order);
    return rows;
}

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
      timer_(loop_) {}

void Outbox::wake() {
    timer_.cancel();
}

void Outbox::stop() {
    stopped_ = true;
    timer_.cancel();
}

void Outbox::start() {
    asio::co_spawn(loop_, run(), [this](const std::exception_ptr& thrown) {
        if (thrown) env_.log.error("outbox.escaped", {});
    });
}

// First attempts go in the order of the events, per session and endpoint; a failed one is tried
// again on its own and holds nothing back.
std::vector<DeliveryRow> Outbox::take_due() {
    const Timestamp now = env_.clock.now();
    std::erase_if(not_noted_, [&](const auto& one) { return one.second <= now; });
    return system_.ask([&](const SystemState& state) {
        std::vector<DeliveryRow> due;
        std::set<std::pair<SessionId, std::string>> first_waits;
        for (const DeliveryRow* one : in_order(state)) {
            const DeliveryRow& row = *one;
            const std::string& id = row.webhook.delivery_id;
            if (in_flight_.size() + due.size() >= kAtOnce) break;
            const bool waits = in_flight_.contains(id) || not_noted_.contains(id);
            if (row.attempts == 0) {
                const bool is_first =
                    first_waits.emplace(row.webhook.session_id, row.webhook.url).second;
                if (is_first && !waits) due.push_back(row);
            } else if (row.next_at && *row.next_at <= now && !waits) {
                due.push_back(row);
            }
        }
        return due;
    });
}

std::optional<Timestamp> Outbox::next_due() const {
    return system_.ask([&](const SystemState& state) {
        std::optional<Timestamp> next;
        for (const auto& [id, at] : not_noted_) {
            if (!next || at < *next) next = at;
        }
        for (const auto& [id, row] : state.deliveries) {
            if (row.dead || !row.next_at || in_flight_.contains(id)) continue;
            if (!next || *row.next_at < *next) next = row.next_at;
        }
        return next;
    });
}

Task<void> Outbox::run() {
    while (!stopped_) {
        for (DeliveryRow& row : take_due()) {
            const std::string id = row.webhook.delivery_id;
            in_flight_.insert(id);
            asio::co_spawn(loop_, deliver(std::move(row)), [this, id](const std::exception_ptr&) {
                in_flight_.erase(id);
                timer_.cancel();
            });
        }
        const std::optional<Timestamp> next = next_due();
        if (next) {
            const Milliseconds left = std::max(Milliseconds(0), *next - env_.clock.now());
            timer_.expires_after(std::min<Milliseconds>(left, kLookAgain));
        } else {
            timer_.expires_at(asio::steady_timer::time_point::max());
        }
        (void)co_await timer_.async_wait(asio::as_tuple(asio::use_awaitable));
    }
}

Task<void> Outbox::deliver(DeliveryRow row) {
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
        co_await note(webhook.delivery_id, std::move(delivered));
        co_return;
    }
    WebhookFailed failed;
    failed.delivery_id = webhook.delivery_id;
    failed.attempts = row.attempts + 1;
    failed.error =
        answered ? "answered with status " + std::to_string(*answered) : answered.error().message;
    const bool gone = answered && *answered == kGone;
    if (!gone && failed.attempts <= std::size(kSchedule)) {
        failed.next_at = env_.clock.now() + kSchedule[failed.attempts - 1];
    }
    env_.log.warn(
        "webhook.failed",
        {{"webhook", webhook.delivery_id}, {"attempts", failed.attempts}, {"error", failed.error}});
    RecordBody record = to_record(failed);
    co_await note(webhook.delivery_id, std::move(record));
}

// While the log cannot be told how it went, the delivery looks as if it had never been tried.
Task<void> Outbox::note(std::string id, RecordBody how) {
    const Result<void> noted = co_await system_.append(std::move(how));
    if (noted) co_return;
    env_.log.warn("webhook.not_noted", {{"webhook", id}, {"error", noted.error().message}});
    not_noted_[id] = env_.clock.now() + kSendAgain;
}

}  // namespace rouse
