#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <thread>

#include "models/anthropic.h"
#include "models/http_model.h"
#include "models/openai_chat.h"
#include "models/openai_responses.h"

namespace rouse {
namespace {

// A client with a thread for it, for programs whose own loop comes and goes.
class OwnNetwork final {
 public:
    OwnNetwork() : client_(loop_.get_executor()), thread_([this] { loop_.run(); }) {}
    ~OwnNetwork() {
        loop_.stop();
        thread_.join();
    }
    OwnNetwork(const OwnNetwork&) = delete;
    OwnNetwork& operator=(const OwnNetwork&) = delete;

    HttpClient& client() { return client_; }

 private:
    boost::asio::io_context loop_{1};
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> busy_{
        loop_.get_executor()};
    HttpClient client_;
    std::thread thread_;
};

// Holds what the model needs; the model goes first.
template <class Options>
std::shared_ptr<Model> with_network(Options options,
                                    std::shared_ptr<Model> (*make)(Options, HttpClient&)) {
    struct Both {
        OwnNetwork network;
        std::shared_ptr<Model> model;
    };
    const auto both = std::make_shared<Both>();
    both->model = make(std::move(options), both->network.client());
    return {both, both->model.get()};
}

}  // namespace

std::shared_ptr<Model> make_anthropic_model(AnthropicOptions options, HttpClient& client) {
    const ProviderOptions common = options;
    auto api = std::make_unique<AnthropicApi>(std::move(options));
    return std::make_shared<HttpModel>(std::move(api), common, client);
}

std::shared_ptr<Model> make_openai_model(OpenAiOptions options, HttpClient& client) {
    const ProviderOptions common = options;
    std::unique_ptr<ProviderApi> api;
    if (options.api == OpenAiApi::responses) {
        api = std::make_unique<OpenAiResponsesApi>(std::move(options));
    } else {
        api = std::make_unique<OpenAiChatApi>(std::move(options));
    }
    return std::make_shared<HttpModel>(std::move(api), common, client);
}

std::shared_ptr<Model> make_anthropic_model(AnthropicOptions options) {
    return with_network<AnthropicOptions>(std::move(options), make_anthropic_model);
}

std::shared_ptr<Model> make_openai_model(OpenAiOptions options) {
    return with_network<OpenAiOptions>(std::move(options), make_openai_model);
}

}  // namespace rouse
