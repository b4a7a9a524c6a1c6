#pragma once

// How the values of each enum are written, in the order of its enumerators.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace rouse::config {

template <class Enum>
inline constexpr auto kChoices = nullptr;

using std::string_view_literals::operator""sv;

template <>
inline constexpr auto kChoices<LogLevel> =
    std::array{"debug"sv, "info"sv, "warn"sv, "error"sv, "off"sv};
template <>
inline constexpr auto kChoices<StoreConfig::Kind> = std::array{"files"sv, "sqlite"sv, "postgres"sv};
template <>
inline constexpr auto kChoices<RecoveryConfig::Resume> = std::array{"off"sv, "active"sv, "all"sv};
template <>
inline constexpr auto kChoices<ToolConfig::Kind> = std::array{"http"sv, "exec"sv, "external"sv};
template <>
inline constexpr auto kChoices<ToolConfig::Method> =
    std::array{"GET"sv, "POST"sv, "PUT"sv, "PATCH"sv, "DELETE"sv};
template <>
inline constexpr auto kChoices<ToolConfig::Approval> = std::array{"never"sv, "always"sv};
template <>
inline constexpr auto kChoices<ToolConfig::OnUnknown> = std::array{"error"sv, "ask"sv};
template <>
inline constexpr auto kChoices<ToolConfig::WaitsFor> = std::array{"external"sv, "person"sv};
template <>
inline constexpr auto kChoices<ModelConfig::Provider> =
    std::array{"scripted"sv, "anthropic"sv, "openai"sv};
template <>
inline constexpr auto kChoices<AgentConfig::Api> = std::array{"chat"sv, "responses"sv};
template <>
inline constexpr auto kChoices<WebhookEvent> = std::array{
    "session.waiting"sv,     "session.resumed"sv, "session.completed"sv, "session.failed"sv,
    "session.interrupted"sv, "pending.created"sv, "pending.expiring"sv,  "pending.expired"sv};

template <class Enum>
std::vector<std::string> choices() {
    return {kChoices<Enum>.begin(), kChoices<Enum>.end()};
}

template <class Enum>
std::string_view choice_text(Enum value) {
    return kChoices<Enum>.at(static_cast<std::size_t>(value));
}

}  // namespace rouse::config
