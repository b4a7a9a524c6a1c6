#pragma once

// What an operator can set, as plain values: read once at the start, checked as a whole (load.h),
// handed down in pieces. keys.cc says of every member how it is called, read, printed and
// documented.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/limits.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/time.h"

namespace rouse {

// A duration, or none: "never".
using MaybeDuration = std::optional<Milliseconds>;

// A number of tokens, or as many as it takes: "unlimited".
using MaybeTokens = std::optional<std::int64_t>;

// Text that stands in the configuration, or in an environment variable that it names.
struct SecretText {
    std::string variable = {};  // empty: the text stands in the configuration itself
    Secret value = {};

    bool absent() const { return variable.empty() && value.reveal().empty(); }
    friend bool operator==(const SecretText& a, const SecretText& b) {
        return a.variable == b.variable && a.value.reveal() == b.value.reveal();
    }
};

struct ListenAddress {
    std::string host = "127.0.0.1";  // an IPv6 address without its brackets
    std::uint16_t port = 7717;       // 0: whichever is free

    bool loopback() const;
    std::string text() const;  // "127.0.0.1:7717", "[::1]:7717"
    friend bool operator==(const ListenAddress&, const ListenAddress&) = default;
};

struct ServerConfig {
    ListenAddress listen = {};
    std::string public_url = {};
    std::vector<std::string> allowed_hosts = {};
    bool behind_proxy = false;
    std::string tls_cert = {};
    std::string tls_key = {};
    std::vector<std::string> cors_origins = {};
    LogLevel log_level = LogLevel::info;
    friend bool operator==(const ServerConfig&, const ServerConfig&) = default;
};

struct StoreConfig {
    enum class Kind : std::uint8_t { files, sqlite, postgres };

    Kind kind = Kind::files;
    std::string path = {};  // never empty once loaded
    friend bool operator==(const StoreConfig&, const StoreConfig&) = default;
};

struct RecoveryConfig {
    enum class Resume : std::uint8_t { off, active, all };

    Resume resume = Resume::active;
    friend bool operator==(const RecoveryConfig&, const RecoveryConfig&) = default;
};

struct LimitsConfig {
    // Agents
    std::uint32_t concurrent_runs = 64;
    std::uint32_t model_iterations = 50;
    MaybeDuration turn_time = std::chrono::hours(1);
    MaybeDuration call_timeout = limits::kCallTimeout;
    Milliseconds tool_time = std::chrono::minutes(5);
    MaybeTokens run_tokens = {};
    MaybeTokens session_tokens = {};
    // Requests
    std::uint64_t body_bytes = 4U << 20U;
    std::uint64_t header_bytes = 16U << 10U;
    std::uint32_t header_fields = 100;
    Milliseconds header_time = std::chrono::seconds(10);
    Milliseconds request_time = std::chrono::seconds(60);
    Milliseconds idle_time = std::chrono::seconds(60);
    std::uint32_t connections = 10'000;
    std::uint32_t connections_per_address = 256;
    std::uint32_t failed_logins_per_minute = 10;
    std::uint32_t refused_results_per_minute = 60;
    // Streams
    std::uint32_t stream_events = 1024;
    std::uint64_t stream_bytes = 1U << 20U;
    std::uint64_t websocket_message_bytes = 1U << 20U;
    Milliseconds websocket_ping = std::chrono::seconds(20);
    // Outgoing webhooks
    Milliseconds webhook_time = std::chrono::seconds(15);
    std::uint64_t webhook_answer_bytes = 64U << 10U;
    std::uint64_t webhook_payload_bytes = 20U << 10U;
    // The end
    Milliseconds shutdown_time = std::chrono::seconds(5);
    friend bool operator==(const LimitsConfig&, const LimitsConfig&) = default;
};

struct RetentionConfig {
    MaybeDuration finished_after = std::nullopt;
    friend bool operator==(const RetentionConfig&, const RetentionConfig&) = default;
};

// What agents and sessions with a model of this provider have in common.
struct AnthropicConfig {
    std::string base_url = {};
    SecretText api_key = {};
    friend bool operator==(const AnthropicConfig&, const AnthropicConfig&) = default;
};
struct OpenAiConfig {
    std::string base_url = {};
    SecretText api_key = {};
    friend bool operator==(const OpenAiConfig&, const OpenAiConfig&) = default;
};

struct ToolConfig {
    enum class Kind : std::uint8_t { http, exec, external };
    enum class Method : std::uint8_t { get, post, put, patch, del };
    enum class Approval : std::uint8_t { never, always };
    enum class OnUnknown : std::uint8_t { error, ask };
    enum class WaitsFor : std::uint8_t { external, person };

    std::string name = {};
    Kind kind = Kind::external;
    std::string description = {};
    std::string parameters = {};     // a JSON Schema as JSON text; empty: any object
    std::string result_schema = {};  // the same for results; empty: anything
    MaybeDuration timeout = limits::kCallTimeout;
    Approval approval = Approval::never;
    SecretText callback_secret = {};
    std::string webhook_url = {};
    bool idempotent = false;
    bool read_only = false;
    bool destructive = false;
    std::optional<OnUnknown> on_unknown = {};  // nothing: as the agent says
    // http and exec
    bool async = false;
    Milliseconds start_timeout = std::chrono::seconds(30);
    MaybeDuration detach_after = {};
    // http
    std::string url = {};
    Method method = Method::post;
    std::map<std::string, SecretText> headers = {};
    // exec
    std::vector<std::string> command = {};
    std::map<std::string, SecretText> env = {};
    std::string cwd = {};
    std::uint64_t output_bytes = 256U << 10U;
    // external
    WaitsFor waits_for = WaitsFor::external;
    friend bool operator==(const ToolConfig&, const ToolConfig&) = default;
};

// "anthropic:claude-…", "scripted:demo.jsonl"
struct ModelConfig {
    enum class Provider : std::uint8_t { scripted, anthropic, openai };

    Provider provider = Provider::scripted;
    std::string name = {};  // of a scripted one: the file
    friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

struct AgentConfig {
    enum class Api : std::uint8_t { chat, responses };

    std::string name = {};
    ModelConfig model = {};
    std::string system = {};
    std::vector<std::string> tools = {};
    bool parallel = true;
    std::uint32_t max_iterations = LimitsConfig{}.model_iterations;
    MaybeDuration time_limit = LimitsConfig{}.turn_time;
    ToolConfig::OnUnknown on_unknown = ToolConfig::OnUnknown::error;
    // The model, at its provider
    std::string base_url = {};
    SecretText api_key = {};
    Api api = Api::chat;
    std::map<std::string, SecretText> headers = {};
    std::optional<double> temperature = {};
    std::optional<std::uint32_t> max_tokens = {};
    std::string request = {};  // a JSON object
    bool stream = true;
    Milliseconds request_timeout = std::chrono::hours(1);
    Milliseconds idle_timeout = std::chrono::minutes(5);
    std::string ca_file = {};
    std::string anthropic_version = "2026-10-21";
    std::vector<std::string> anthropic_beta = {};
    std::uint32_t retries = 8;
    Milliseconds retry_delay{500};
    MaybeTokens run_tokens = {};
    MaybeTokens session_tokens = {};
    friend bool operator==(const AgentConfig&, const AgentConfig&) = default;
};

enum class WebhookEvent : std::uint8_t {
    session_waiting,
    session_resumed,
    session_completed,
    session_failed,
    session_interrupted,
    pending_created,
    pending_expiring,
    pending_expired,
};
std::string_view to_string(WebhookEvent event);  // "session.waiting"
std::vector<WebhookEvent> all_webhook_events();

struct WebhookConfig {
    std::string url = {};
    SecretText secret = {};
    std::vector<WebhookEvent> events = all_webhook_events();
    friend bool operator==(const WebhookConfig&, const WebhookConfig&) = default;
};

struct Config {
    ServerConfig server = {};
    StoreConfig store = {};
    RecoveryConfig recovery = {};
    LimitsConfig limits = {};
    RetentionConfig retention = {};
    AnthropicConfig anthropic = {};
    OpenAiConfig openai = {};
    std::vector<AgentConfig> agents = {};
    std::vector<ToolConfig> tools = {};
    std::vector<WebhookConfig> webhooks = {};
    friend bool operator==(const Config&, const Config&) = default;
};

}  // namespace rouse
