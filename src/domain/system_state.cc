#include "domain/system_state.h"

#include <algorithm>

#include "base/limits.h"

namespace rouse {
namespace {

template <class Rows>
auto values_of(const Rows& rows) {
    std::vector<typename Rows::mapped_type> values;
    values.reserve(rows.size());
    for (const auto& [id, row] : rows)
        values.push_back(row);
    return values;
}

}  // namespace

SystemState SystemState::of(const SystemSnapshot& snapshot) {
    SystemState state;
    for (const TaskRow& row : snapshot.tasks)
        state.tasks.emplace(row.task.task_id, row);
    for (const ApiTokenRow& row : snapshot.tokens)
        state.tokens.emplace(row.token.token_id, row);
    for (const AnsweredRow& row : snapshot.answered)
        state.answered.emplace(row.request.key, row);
    for (const DeliveryRow& row : snapshot.deliveries) {
        state.put_delivery(row);
        state.last_order = std::max(state.last_order, row.order);
    }
    state.boots = snapshot.boots;
    for (const MailQueued& row : snapshot.mail)
        state.mail.emplace(row.letter.message_id, row);
    for (const ChainRow& row : snapshot.chains)
        state.chains.emplace(row.chain_id, row);
    state.children = snapshot.children;
    return state;
}

void SystemState::fold(const Record& record) {
    if (const auto* started = std::get_if<BootStarted>(&record.body)) {
        boots.push_back(started->boot_id);
        return;
    }
    const auto* unknown = std::get_if<UnknownRecord>(&record.body);
    if (unknown == nullptr) return;
    if (const auto task = read_system_record<TaskSaved>(record.body)) {
        TaskRow& row = tasks[task->task_id];
        if (row.task.task_id.empty()) row.created_at = record.at;
        row.task = *task;
        row.updated_at = record.at;
    } else if (const auto changed = read_system_record<TaskChanged>(record.body)) {
        const auto row = tasks.find(changed->task_id);
        if (row == tasks.end()) return;
        if (changed->title) row->second.task.title = *changed->title;
        if (changed->state) row->second.task.state = *changed->state;
        row->second.updated_at = record.at;
    } else if (const auto token = read_system_record<ApiTokenCreated>(record.body)) {
        tokens[token->token_id] = {*token, record.at};
    } else if (const auto revoked = read_system_record<ApiTokenRevoked>(record.body)) {
        tokens.erase(revoked->token_id);
    } else if (const auto request = read_system_record<RequestAnswered>(record.body)) {
        answered[request->key] = {*request, record.at};
    } else if (const auto queued = read_system_record<WebhookQueued>(record.body)) {
        DeliveryRow row;
        row.webhook = *queued;
        row.order = ++last_order;
        put_delivery(std::move(row));
    } else if (const auto failed = read_system_record<WebhookFailed>(record.body)) {
        const auto found = deliveries.find(failed->delivery_id);
        if (found == deliveries.end()) return;
        DeliveryRow row = found->second;
        row.attempts = failed->attempts;
        row.error = failed->error;
        row.next_at = failed->next_at;
        row.dead = !failed->next_at;
        put_delivery(std::move(row));
    } else if (const auto delivered = read_system_record<WebhookDelivered>(record.body)) {
        erase_delivery(delivered->delivery_id);
    } else if (const auto revived = read_system_record<WebhookRevived>(record.body)) {
        const auto found = deliveries.find(revived->delivery_id);
        if (found == deliveries.end()) return;
        DeliveryRow row;
        row.webhook = found->second.webhook;
        row.order = ++last_order;  // as if it were new
        put_delivery(std::move(row));
    } else if (const auto mailed = read_system_record<MailQueued>(record.body)) {
        mail.emplace(mailed->letter.message_id, *mailed);
    } else if (const auto done = read_system_record<MailDone>(record.body)) {
        mail.erase(done->message_id);
    } else if (const auto woke = read_system_record<ChainWoke>(record.body)) {
        ChainRow& row = chain(woke->chain_id, record.at);
        ++row.wakes;
    } else if (const auto stopped = read_system_record<ChainStopped>(record.body)) {
        ChainRow& row = chain(stopped->chain_id, record.at);
        row.stopped = stopped->reason;
        if (std::ranges::find(row.sessions, stopped->session_id) == row.sessions.end()) {
            row.sessions.push_back(stopped->session_id);
        }
    } else if (const auto goes_on = read_system_record<ChainContinued>(record.body)) {
        ChainRow& row = chain(goes_on->chain_id, record.at);
        row.more_hops += goes_on->hops;
        row.more_wakes += goes_on->wakes;
        row.stopped.clear();
        row.sessions.clear();
    } else if (const auto through = read_system_record<BootContinued>(record.body)) {
        boots = {through->boot_id};
        children.clear();
    } else if (const auto left = read_system_record<ChildrenLeft>(record.body)) {
        children.push_back(*left);
    } else if (const auto snapshot = read_system_record<SystemSnapshot>(record.body)) {
        *this = of(*snapshot);
    }
}

void SystemState::put_delivery(DeliveryRow row) {
    const std::string id = row.webhook.delivery_id;
    erase_delivery(id);
    (row.dead ? dead : to_deliver).emplace(row.order, id);
    deliveries.insert_or_assign(id, std::move(row));
    if (dead.size() > limits::kWebhooksDead) {
        const std::string oldest = dead.begin()->second;
        erase_delivery(oldest);
    }
}

void SystemState::erase_delivery(const std::string& id) {
    const auto found = deliveries.find(id);
    if (found == deliveries.end()) return;
    to_deliver.erase(found->second.order);
    dead.erase(found->second.order);
    deliveries.erase(found);
}

std::vector<DeliveryRow> SystemState::deliveries_after(std::uint64_t order) const {
    std::vector<DeliveryRow> rows;
    for (auto one = to_deliver.upper_bound(order); one != to_deliver.end(); ++one)
        rows.push_back(deliveries.at(one->second));
    return rows;
}

void SystemState::forget_answers_before(Timestamp time) {
    std::erase_if(answered, [&](const auto& row) { return row.second.at < time; });
}

// Those of the same moment go together.
void SystemState::forget_answers_beyond(std::size_t most) {
    if (answered.size() <= most) return;
    std::vector<Timestamp> times;
    times.reserve(answered.size());
    for (const auto& [key, row] : answered)
        times.push_back(row.at);
    const auto first_kept = times.end() - static_cast<std::ptrdiff_t>(most);
    std::ranges::nth_element(times, first_kept);
    forget_answers_before(*first_kept);
    if (answered.size() > most) forget_answers_before(*first_kept + Milliseconds(1));
}

std::size_t SystemState::rows() const {
    return tasks.size() + tokens.size() + answered.size() + deliveries.size() + mail.size() +
           chains.size() + children.size();
}

void SystemState::forget_chains_before(Timestamp time) {
    std::erase_if(chains, [&](const auto& row) {
        return row.second.stopped.empty() && row.second.at < time;
    });
}

ChainRow& SystemState::chain(const std::string& id, Timestamp at) {
    ChainRow& row = chains[id];
    row.chain_id = id;
    row.at = at;
    return row;
}

std::string SystemState::chain_limit(const std::string& chain_id, std::uint32_t hops,
                                     std::uint32_t planned) const {
    ChainRow row;
    if (const auto found = chains.find(chain_id); found != chains.end()) row = found->second;
    if (hops > limits::kChainHops + row.more_hops) return "hops";
    if (row.wakes + planned >= limits::kChainWakes + row.more_wakes) return "wakes";
    return {};
}

bool SystemState::is_left(const BootId& boot) const {
    return boots.empty() || std::ranges::find(boots, boot) != boots.end();
}

SystemSnapshot SystemState::snapshot() const {
    return {SystemSnapshot::kFold, values_of(tasks),      values_of(tokens),
            values_of(answered),   values_of(deliveries), boots,
            values_of(mail),       values_of(chains),     children};
}

}  // namespace rouse
