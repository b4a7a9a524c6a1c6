#pragma once

// OpenAI's Chat Completions, and whoever speaks it: Ollama, vLLM, llama.cpp, gateways.
// https://platform.openai.com/docs/api-reference/chat

#include "models/provider_api.h"

namespace rouse {

class OpenAiChatApi final : public ProviderApi {
 public:
    explicit OpenAiChatApi(OpenAiOptions options) : options_(std::move(options)) {}

    std::string url() const override;
    HttpHeaders headers() const override;
    ConversationRules rules() const override;
    std::string request_body(const ModelRequest& request) const override;
    std::unique_ptr<StreamReader> read_stream() const override;
    Result<ModelResponse> read_answer(const RawJson& body) const override;

 private:
    OpenAiOptions options_;
};

// Both of OpenAI's APIs.
std::string openai_base_url(const OpenAiOptions& options);
HttpHeaders openai_headers(const OpenAiOptions& options);

}  // namespace rouse
