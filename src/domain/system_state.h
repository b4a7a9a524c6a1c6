#pragma once

// What the system log folds to. A snapshot of it is itself a record, so that a boot reads the log
// from its latest snapshot on and not from the beginning.

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

struct SystemSnapshot {
    static constexpr std::string_view kKind = "system.snapshot";
    std::vector<TaskRow> tasks;
    std::vector<ApiTokenRow> tokens;
    std::vector<AnsweredRow> answered;
    std::vector<DeliveryRow> deliveries;
    std::optional<Timestamp> continued_at;
    friend bool operator==(const SystemSnapshot&, const SystemSnapshot&) = default;
    static constexpr auto fields() {
        using S = SystemSnapshot;
        return std::tuple(field("tasks", &S::tasks), field("tokens", &S::tokens),
                          field("answered", &S::answered), field("deliveries", &S::deliveries),
                          field("continued_at", &S::continued_at));
    }
};

struct SystemState {
    std::map<std::string, TaskRow> tasks;
    std::map<std::string, ApiTokenRow> tokens;
    std::unordered_map<std::string, AnsweredRow> answered;
    std::map<std::string, DeliveryRow> deliveries;  // not delivered yet
    std::uint64_t last_order = 0;
    std::optional<Timestamp> continued_at;  // when a boot last went through what it found

    friend bool operator==(const SystemState&, const SystemState&) = default;

    void fold(const Record& record);
    // Answers are remembered for a day.
    void forget_answers_before(Timestamp time);
    SystemSnapshot snapshot() const;
};

}  // namespace rouse
