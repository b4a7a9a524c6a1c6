#pragma once

// What the system log folds to. A snapshot of it is kept beside the log, so that a boot reads what
// came after that and not all of it.

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "domain/system_records.h"

namespace rouse {

struct TaskRow {
    TaskSaved task;
    Timestamp created_at{};
    Timestamp updated_at{};
    static constexpr auto fields() {
        return std::tuple(required("task", &TaskRow::task),
                          required("created_at", &TaskRow::created_at),
                          required("updated_at", &TaskRow::updated_at));
    }
    friend bool operator==(const TaskRow&, const TaskRow&) = default;
};

struct ApiTokenRow {
    ApiTokenCreated token;
    Timestamp created_at{};
    static constexpr auto fields() {
        return std::tuple(required("token", &ApiTokenRow::token),
                          required("created_at", &ApiTokenRow::created_at));
    }
    friend bool operator==(const ApiTokenRow&, const ApiTokenRow&) = default;
};

struct AnsweredRow {
    RequestAnswered request;
    Timestamp at{};
    static constexpr auto fields() {
        return std::tuple(required("request", &AnsweredRow::request),
                          required("at", &AnsweredRow::at));
    }
    friend bool operator==(const AnsweredRow&, const AnsweredRow&) = default;
};

struct DeliveryRow {
    WebhookQueued webhook;
    std::uint64_t order = 0;  // among all that were queued
    std::uint32_t attempts = 0;
    std::string error;
    std::optional<Timestamp> next_at;
    bool dead = false;
    static constexpr auto fields() {
        using S = DeliveryRow;
        return std::tuple(required("webhook", &S::webhook), field("order", &S::order),
                          field("attempts", &S::attempts), field("error", &S::error),
                          field("next_at", &S::next_at), field("dead", &S::dead));
    }
    friend bool operator==(const DeliveryRow&, const DeliveryRow&) = default;
};

// A chain of causes among agents.
struct ChainRow {
    std::string chain_id;
    Timestamp at{};  // of the last thing that happened in it
    std::uint32_t wakes = 0;
    std::uint32_t more_hops = 0;  // that a person has granted
    std::uint32_t more_wakes = 0;
    std::string stopped;              // why it wakes nobody any more
    std::vector<SessionId> sessions;  // that have mail for which they were not woken
    static constexpr auto fields() {
        using S = ChainRow;
        return std::tuple(required("chain_id", &S::chain_id), required("at", &S::at),
                          field("wakes", &S::wakes), field("more_hops", &S::more_hops),
                          field("more_wakes", &S::more_wakes), field("stopped", &S::stopped),
                          field("sessions", &S::sessions));
    }
    friend bool operator==(const ChainRow&, const ChainRow&) = default;
};

// Earlier versions wrote it into the log, as a record.
struct SystemSnapshot {
    static constexpr std::string_view kKind = "system.snapshot";
    // Raised with every change of what SystemState::fold makes of a log: a snapshot of another one
    // says less than the log, or something else.
    static constexpr std::uint32_t kFold = 1;
    std::uint32_t fold = kFold;
    std::vector<TaskRow> tasks;
    std::vector<ApiTokenRow> tokens;
    std::vector<AnsweredRow> answered;
    std::vector<DeliveryRow> deliveries;
    std::vector<BootId> boots = {};
    std::vector<MailQueued> mail = {};
    std::vector<ChainRow> chains = {};
    std::vector<ChildrenLeft> children = {};
    friend bool operator==(const SystemSnapshot&, const SystemSnapshot&) = default;
    static constexpr auto fields() {
        using S = SystemSnapshot;
        return std::tuple(field("fold", &S::fold), field("tasks", &S::tasks),
                          field("tokens", &S::tokens), field("answered", &S::answered),
                          field("deliveries", &S::deliveries), field("boots", &S::boots),
                          field("mail", &S::mail), field("chains", &S::chains),
                          field("children", &S::children));
    }
};

struct SystemState {
    std::map<std::string, TaskRow> tasks;
    std::map<std::string, ApiTokenRow> tokens;
    std::unordered_map<std::string, AnsweredRow> answered;
    std::map<std::string, DeliveryRow> deliveries;    // not delivered yet
    std::map<std::uint64_t, std::string> to_deliver;  // by their order, those that are not dead
    std::map<std::uint64_t, std::string> dead;        // of too many the latest
    std::uint64_t last_order = 0;
    // The last boot that went through all that it found, and those since, which died over it.
    std::vector<BootId> boots;
    std::map<MessageId, MailQueued> mail;  // not delivered to everybody yet
    std::map<std::string, ChainRow> chains;
    std::vector<ChildrenLeft> children;  // until a boot has looked for them

    friend bool operator==(const SystemState&, const SystemState&) = default;

    static SystemState of(const SystemSnapshot& snapshot);
    // Those that were queued after the one with that order, in their order.
    std::vector<DeliveryRow> deliveries_after(std::uint64_t order) const;
    void fold(const Record& record);
    std::size_t rows() const;
    // Answers are remembered for a day, up to a number, and so are chains that nobody stopped.
    void forget_answers_before(Timestamp time);
    void forget_answers_beyond(std::size_t most);  // the oldest
    void forget_chains_before(Timestamp time);

    // Why a letter of that chain may wake nobody; empty: it may.
    // `planned` wakes are on their way.
    std::string chain_limit(const std::string& chain_id, std::uint32_t hops,
                            std::uint32_t planned) const;
    // True when no boot has gone through what this one left.
    bool is_left(const BootId& boot) const;
    SystemSnapshot snapshot() const;

 private:
    ChainRow& chain(const std::string& id, Timestamp at);
    void put_delivery(DeliveryRow row);
    void erase_delivery(const std::string& id);
};

}  // namespace rouse
