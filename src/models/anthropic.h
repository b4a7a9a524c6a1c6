#pragma once

// Anthropic's Messages API. https://docs.anthropic.com/en/api/messages

#include "models/provider_api.h"

namespace rouse {

class AnthropicApi final : public ProviderApi {
 public:
    explicit AnthropicApi(AnthropicOptions options) : options_(std::move(options)) {}

    std::string url() const override;
    HttpHeaders headers() const override;
    ConversationRules rules() const override;
    std::string request_body(const ModelRequest& request) const override;
    std::unique_ptr<StreamReader> read_stream() const override;
    Result<ModelResponse> read_answer(const RawJson& body) const override;

 private:
    AnthropicOptions options_;
};

}  // namespace rouse
