#pragma once

// Models of providers, over HTTP: Anthropic's Messages API, OpenAI's Chat Completions (which
// Ollama, vLLM, llama.cpp and most gateways speak too) and OpenAI's Responses API.
//
//   rouse::AnthropicOptions options;
//   options.model = "claude-sonnet-4-5";
//   options.api_key = rouse::Secret(std::getenv("ANTHROPIC_API_KEY"));
//   rouse::Agent agent({.model = rouse::make_anthropic_model(options)});

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/secret.h"
#include "rouse/model.h"

namespace rouse {

class HttpClient;

struct ProviderOptions {
    std::string model = {};
    std::string base_url = {};                                      // empty: the provider's own
    Secret api_key = {};                                            // empty: none is sent
    std::vector<std::pair<std::string, std::string>> headers = {};  // more of them
    std::optional<double> temperature = {};
    std::optional<std::int64_t> max_tokens = {};  // of one answer
    RawJson request = {};  // an object: members for each request, over ours of the same name
    bool stream = true;
    Milliseconds request_timeout = std::chrono::hours(1);  // for the whole answer
    Milliseconds idle_timeout = std::chrono::minutes(5);   // for the next byte of it
    std::string ca_file = {};   // trusted instead of the system's certificates
    std::string proxy = "env";  // as the environment says; empty: none
};

struct AnthropicOptions : ProviderOptions {
    std::string version = "2026-10-21";
    std::vector<std::string> betas = {};
};

enum class OpenAiApi : std::uint8_t { chat, responses };

struct OpenAiOptions : ProviderOptions {
    OpenAiApi api = OpenAiApi::chat;
};

// Besides what Model says, errors are:
//   invalid      model_refused, context_too_long: with the provider's words
//   denied       model_denied: the key, a right or the quota is missing
//   unavailable  model_unavailable, stream_broken: the answer did not come to its end
//   timeout      model_timeout
std::shared_ptr<Model> make_anthropic_model(AnthropicOptions options);
std::shared_ptr<Model> make_openai_model(OpenAiOptions options);

// The same over a client of the caller's, which outlives the model. Those above have one, with a
// thread, for themselves.
std::shared_ptr<Model> make_anthropic_model(AnthropicOptions options, HttpClient& client);
std::shared_ptr<Model> make_openai_model(OpenAiOptions options, HttpClient& client);

}  // namespace rouse
