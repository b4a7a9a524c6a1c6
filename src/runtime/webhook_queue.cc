#include "runtime/webhook_queue.h"

#include <algorithm>
#include <utility>

namespace rouse {

bool WebhookQueue::add(const DeliveryRow& row, From from) {
    Endpoint& endpoint = endpoints_[row.webhook.url];
    if (from == From::now && endpoint.waiting >= limits_.waiting_each) return false;
    Webhook webhook{row.webhook.delivery_id, row.webhook.url, row.webhook.session_id};
    if (row.attempts > 0) {
        add_again(std::move(webhook), row.next_at.value_or(Timestamp()));
        return true;
    }
    ++endpoint.waiting;
    std::deque<std::string>& line = endpoint.first[webhook.session];
    line.push_back(std::move(webhook.id));
    if (line.size() == 1) endpoint.ready.push_back(webhook.session);
    take_turn(webhook.url, endpoint);
    return true;
}

void WebhookQueue::add_again(Webhook webhook, Timestamp at) {
    webhook.first = false;
    ++endpoints_[webhook.url].failed;
    failed_.emplace(at, std::move(webhook));
}

bool WebhookQueue::too_many_failed(const std::string& url) const {
    const auto endpoint = endpoints_.find(url);
    return endpoint != endpoints_.end() && endpoint->second.failed >= limits_.waiting_each;
}

void WebhookQueue::call_due(Timestamp now) {
    while (!failed_.empty() && failed_.begin()->first <= now) {
        Webhook webhook = std::move(failed_.extract(failed_.begin()).mapped());
        const std::string url = webhook.url;
        Endpoint& endpoint = endpoints_.at(url);
        --endpoint.failed;
        ++endpoint.waiting;
        endpoint.again.push_back(std::move(webhook));
        take_turn(url, endpoint);
    }
}

void WebhookQueue::take_turn(const std::string& url, Endpoint& endpoint) {
    const bool can_send =
        endpoint.has_work() && endpoint.on_their_way < limits_.at_once_each && !endpoint.in_turn;
    if (!can_send) return;
    endpoint.in_turn = true;
    turns_.push_back(url);
}

WebhookQueue::Webhook WebhookQueue::take_from(const std::string& url, Endpoint& endpoint) {
    --endpoint.waiting;
    ++endpoint.on_their_way;
    ++on_their_way_;
    const bool again = endpoint.ready.empty() || (endpoint.again_next && !endpoint.again.empty());
    endpoint.again_next = !again;
    if (again) {
        Webhook webhook = std::move(endpoint.again.front());
        endpoint.again.pop_front();
        return webhook;
    }
    const SessionId session = endpoint.ready.front();
    endpoint.ready.pop_front();
    return {endpoint.first.at(session).front(), url, session};
}

std::optional<WebhookQueue::Webhook> WebhookQueue::take(Timestamp now) {
    call_due(now);
    if (turns_.empty() || on_their_way_ >= limits_.at_once) return std::nullopt;
    const std::string url = std::move(turns_.front());
    turns_.pop_front();
    Endpoint& endpoint = endpoints_.at(url);
    endpoint.in_turn = false;
    Webhook webhook = take_from(url, endpoint);
    take_turn(url, endpoint);
    return webhook;
}

void WebhookQueue::done(const Webhook& webhook) {
    Endpoint& endpoint = endpoints_.at(webhook.url);
    --endpoint.on_their_way;
    --on_their_way_;
    if (webhook.first) {
        const auto line = endpoint.first.find(webhook.session);
        line->second.pop_front();
        if (line->second.empty()) {
            endpoint.first.erase(line);
        } else {
            endpoint.ready.push_back(webhook.session);
        }
    }
    take_turn(webhook.url, endpoint);
    const bool has_any = endpoint.waiting + endpoint.failed + endpoint.on_their_way > 0;
    if (!has_any) endpoints_.erase(webhook.url);
}

std::optional<Timestamp> WebhookQueue::next_due() const {
    if (failed_.empty()) return std::nullopt;
    return failed_.begin()->first;
}

}  // namespace rouse
