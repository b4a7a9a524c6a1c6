#include "config/checks.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/nearest.h"
#include "config/choices.h"

namespace rouse::config {
namespace {

constexpr std::array<std::string_view, 4> kBuiltInTools = {"ask_user", "wait_until",
                                                           "start_session", "broadcast"};
// A body and what is recorded of it must fit into one commit.
constexpr std::uint64_t kMostBodyBytes = limits::kCommitBytes / 2;

class Checker {
 public:
    explicit Checker(Reading& reading) : reading_(reading) {}

    // True when somebody wrote it and it could be read.
    bool is_given(const std::string& key) const {
        return reading_.origins.contains(key) && !is_wrong(key);
    }
    bool is_wrong(const std::string& key) const {
        return std::ranges::any_of(reading_.mistakes, [&](const ConfigMistake& mistake) {
            return mistake.key == key || mistake.key.starts_with(key + '.') ||
                   mistake.key.starts_with(key + '[');
        });
    }
    void mistake(const std::string& key, std::string message) {
        reading_.at(key).mistake(place(key), std::move(message));
    }
    ConfigPlace place(const std::string& key) const {
        const auto origin = reading_.origins.find(key);
        return origin == reading_.origins.end() ? ConfigPlace{} : origin->second;
    }

 private:
    Reading& reading_;
};

void check_server(const ServerConfig& server, Checker& checker) {
    const bool has_cert = !server.tls_cert.empty();
    const bool has_key = !server.tls_key.empty();
    if (has_cert && !has_key && !checker.is_wrong("server.tls_key")) {
        checker.mistake("server.tls_cert", "needs tls_key as well");
    }
    if (has_key && !has_cert && !checker.is_wrong("server.tls_cert")) {
        checker.mistake("server.tls_key", "needs tls_cert as well");
    }
    const bool is_safe = has_cert || has_key || server.behind_proxy;
    if (!server.listen.loopback() && !is_safe) {
        checker.mistake("server.listen",
                        "listens beyond this machine without TLS: set tls_cert and tls_key, or "
                        "behind_proxy = true if a proxy in front does that");
    }
}

void check_store(const StoreConfig& store, Checker& checker) {
    if (store.kind == StoreConfig::Kind::files) return;
    checker.mistake("store.kind", '"' + std::string(choice_text(store.kind)) +
                                      "\" is not available in this version; there is \"files\"");
}

void check_limits(const LimitsConfig& limits, Checker& checker) {
    if (limits.body_bytes <= kMostBodyBytes) return;
    checker.mistake("limits.body_bytes", "must be at most \"16MiB\"");
}

// Reports each name that was there before.
template <class Item>
void check_names(const std::vector<Item>& items, const std::string& section, Checker& checker) {
    std::map<std::string, std::string> first;  // name → key
    for (std::size_t i = 0; i < items.size(); ++i) {
        const std::string key = section + '[' + std::to_string(i) + "].name";
        if (!checker.is_given(key)) continue;
        const auto [known, added] = first.emplace(items[i].name, key);
        if (added) continue;
        checker.mistake(key, '"' + items[i].name + "\" has been used in line " +
                                 std::to_string(checker.place(known->second).line));
    }
}

// Keys that say something to another provider than the agent's.
void check_model_keys(const AgentConfig& agent, const std::string& path, Checker& checker) {
    using Provider = ModelConfig::Provider;
    if (!checker.is_given(path + ".model")) return;
    const auto only = [&](const std::string& key, bool is_set, Provider provider) {
        if (!is_set || agent.model.provider == provider) return;
        checker.mistake(path + '.' + key,
                        "is for " + std::string(choice_text(provider)) + " models");
    };
    // Defaults may be spelled out: the printed configuration does that.
    only("api", agent.api != AgentConfig{}.api, Provider::openai);
    only("anthropic_version", agent.anthropic_version != AgentConfig{}.anthropic_version,
         Provider::anthropic);
    only("anthropic_beta", !agent.anthropic_beta.empty(), Provider::anthropic);
    // Versions are dates. Anthropic refuses requests that carry one, whatever its value.
    if (agent.model.provider == Provider::anthropic && agent.temperature &&
        agent.anthropic_version >= "2026-10-21") {
        checker.mistake(path + ".temperature",
                        "is taken by Anthropic only with anthropic_version = \"2023-06-01\"");
    }
    if (agent.model.provider == Provider::scripted && !agent.base_url.empty()) {
        checker.mistake(path + ".base_url", "is for models of a provider; this one is scripted");
    }
}

void check_agents(const Config& config, Checker& checker) {
    check_names(config.agents, "agents", checker);
    std::vector<std::string> known(kBuiltInTools.begin(), kBuiltInTools.end());
    for (const ToolConfig& tool : config.tools) {
        if (!tool.name.empty()) known.push_back(tool.name);
    }
    for (std::size_t i = 0; i < config.agents.size(); ++i) {
        check_model_keys(config.agents[i], "agents[" + std::to_string(i) + ']', checker);
        const std::vector<std::string>& tools = config.agents[i].tools;
        for (std::size_t j = 0; j < tools.size(); ++j) {
            const std::string key =
                "agents[" + std::to_string(i) + "].tools[" + std::to_string(j) + ']';
            if (!is_one_of(tools[j], known)) {
                checker.mistake(
                    key, "no tool is named " + in_quotes(tools[j]) + suggestion(tools[j], known));
            } else if (std::find(tools.begin(), tools.begin() + static_cast<std::ptrdiff_t>(j),
                                 tools[j]) != tools.begin() + static_cast<std::ptrdiff_t>(j)) {
                checker.mistake(key, in_quotes(tools[j]) + " is named twice");
            }
        }
    }
}

void check_async(const ToolConfig& tool, const std::string& path, Checker& checker) {
    if (tool.kind == ToolConfig::Kind::external || checker.is_wrong(path + ".async")) return;
    // Defaults may be spelled out: the printed configuration does that.
    if (tool.async && tool.detach_after) {
        checker.mistake(path + ".detach_after", "is for tools that are not async");
    }
    if (tool.async && tool.method != ToolConfig::Method::post) {
        checker.mistake(path + ".method", "is always POST for async tools");
    }
    if (tool.async) return;
    if (tool.start_timeout != ToolConfig{}.start_timeout) {
        checker.mistake(path + ".start_timeout", "is for async tools: set async = true");
    }
    if (!tool.callback_secret.absent()) {
        checker.mistake(path + ".callback_secret_env", "is for async tools: set async = true");
    }
}

void check_tool(const ToolConfig& tool, const std::string& path, Checker& checker) {
    if (is_one_of(tool.name, kBuiltInTools)) {
        checker.mistake(path + ".name", '"' + tool.name + "\" is the name of a built-in tool");
    }
    if (checker.is_given(path + ".command") && (tool.command.empty() || tool.command[0].empty())) {
        checker.mistake(path + ".command", "must name a program");
    }
    if (tool.read_only && tool.destructive) {
        checker.mistake(path + ".destructive", "contradicts read_only");
    }
    if (checker.is_given(path + ".kind")) check_async(tool, path, checker);
}

void check_webhook(const WebhookConfig& webhook, const std::string& path, Checker& checker) {
    if (checker.is_given(path + ".events") && webhook.events.empty()) {
        checker.mistake(path + ".events", "must name an event; leave it out for all");
    }
}

}  // namespace

void check_whole(const Config& config, Reading& reading) {
    Checker checker(reading);
    check_server(config.server, checker);
    check_store(config.store, checker);
    check_limits(config.limits, checker);
    check_agents(config, checker);
    check_names(config.tools, "tools", checker);
    for (std::size_t i = 0; i < config.tools.size(); ++i) {
        check_tool(config.tools[i], "tools[" + std::to_string(i) + ']', checker);
    }
    for (std::size_t i = 0; i < config.webhooks.size(); ++i) {
        check_webhook(config.webhooks[i], "webhooks[" + std::to_string(i) + ']', checker);
    }
}

}  // namespace rouse::config
