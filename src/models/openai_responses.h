#pragma once

// OpenAI's Responses API, used without its memory: the history is ours and is sent whole, with the
// model's encrypted reasoning in it. https://platform.openai.com/docs/api-reference/responses

#include <map>
#include <optional>

#include "models/provider_api.h"

namespace rouse {

class OpenAiResponsesApi final : public ProviderApi {
 public:
    explicit OpenAiResponsesApi(OpenAiOptions options) : options_(std::move(options)) {}

    std::string url() const override;
    HttpHeaders headers() const override;
    ConversationRules rules() const override;
    std::string request_body(const ModelRequest& request) const override;
    std::unique_ptr<StreamReader> read_stream() const override;
    Result<ModelResponse> read_answer(const RawJson& body) const override;

 private:
    OpenAiOptions options_;
};

class OpenAiResponsesStream final : public StreamReader {
 public:
    Result<void> take(const SseEvent& event, std::string& text) override;
    Result<ModelResponse> finish() override;

 private:
    std::optional<std::int64_t> last_number_;
    std::map<std::int64_t, RawJson> items_;  // that are whole, by their place
    std::optional<RawJson> response_;        // once the stream has come to its end
};

}  // namespace rouse
