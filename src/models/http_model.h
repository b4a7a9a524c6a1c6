#pragma once

// A model at the other end of HTTP, whatever API it speaks.

#include <memory>

#include "models/provider_api.h"

namespace rouse {

class HttpModel final : public Model {
 public:
    // `client` outlives the model.
    HttpModel(std::unique_ptr<ProviderApi> api, ProviderOptions options, HttpClient& client)
        : api_(std::move(api)), options_(std::move(options)), client_(client) {}

    ConversationRules rules() const override { return api_->rules(); }
    Task<ModelResult> generate(ModelRequest request, const OnText& on_text) override;

 private:
    HttpRequest http_request(const ModelRequest& request) const;
    ModelError without_key(ModelError error) const;

    std::unique_ptr<ProviderApi> api_;
    ProviderOptions options_;
    HttpClient& client_;
};

}  // namespace rouse
