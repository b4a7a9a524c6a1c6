#include "models/http_model.h"

#include <boost/asio/this_coro.hpp>

#include "models/model_errors.h"
#include "models/text_relay.h"

namespace rouse {
namespace {

// One answer on its way. Touched on the network's strand until the request has ended.
class Arriving {
 public:
    Arriving(const ProviderApi& api, std::shared_ptr<TextRelay> relay)
        : api_(api),
          relay_(std::move(relay)),
          reader_(api.read_stream()),
          parser_([this](const SseEvent& event) { take_event(event); }) {}

    Result<void> take_headers(const HttpResponse& response) {
        const std::string* type = response.header("content-type");
        streams_ = response.status == 200 && type != nullptr && type->contains("event-stream");
        return {};
    }

    Result<void> take(std::string_view bytes) {
        if (!streams_) {
            body_ += bytes;
            return {};
        }
        std::string text;
        text_ = &text;
        const Result<void> parsed = parser_.feed(bytes);
        text_ = nullptr;
        if (!parsed && !failure_) failure_ = stream_broken(parsed.error().message);
        if (failure_) return *failure_;
        if (text.empty()) return {};
        return relay_->push(std::move(text));
    }

    ModelResult result(Result<HttpResponse> response) {
        if (failure_) return ModelError(*failure_);
        if (!response) {
            // A connection that breaks behind the last event has lost nothing.
            if (streams_ && response.error().kind != ErrorKind::cancelled) {
                if (Result<ModelResponse> whole = reader_->finish()) return *std::move(whole);
            }
            return judge_failure(response.error());
        }
        if (response->status != 200) return judge_answer(*response, body_);
        if (streams_) return from(reader_->finish());
        const Result<RawJson> json = RawJson::parse(body_);
        if (!json) return judge_answer(*response, body_);
        return from(api_.read_answer(*json));
    }

 private:
    static ModelResult from(Result<ModelResponse> read) {
        if (read) return *std::move(read);
        return read.error();
    }

    void take_event(const SseEvent& event) {
        if (failure_) return;
        if (Result<void> taken = reader_->take(event, *text_); !taken) failure_ = taken.error();
    }

    const ProviderApi& api_;
    std::shared_ptr<TextRelay> relay_;
    std::unique_ptr<StreamReader> reader_;
    SseParser parser_;
    bool streams_ = false;
    std::string body_;
    std::string* text_ = nullptr;  // where take_event() puts what was said
    std::optional<Error> failure_;
};

}  // namespace

HttpRequest HttpModel::http_request(const ModelRequest& request) const {
    HttpRequest http;
    http.method = "POST";
    http.url = api_->url();
    http.headers = api_->headers();
    http.headers.emplace_back("content-type", "application/json");
    http.headers.emplace_back("accept", options_.stream ? "text/event-stream" : "application/json");
    for (const auto& [name, value] : options_.headers)
        http.headers.emplace_back(name, value);
    http.body = api_->request_body(request);
    http.total_timeout = options_.request_timeout;
    http.idle_timeout = options_.idle_timeout;
    http.max_response_bytes = limits::kModelResponseBytes;
    http.ca_file = options_.ca_file;
    http.proxy = options_.proxy;
    http.allow_private_addresses = true;  // whoever sets the base URL may
    http.may_repeat = true;               // it only costs tokens, and kept connections save time
    return http;
}

// Providers have been seen to give a wrong key back, and errors are kept in the log.
ModelError HttpModel::without_key(ModelError error) const {
    const std::string& key = options_.api_key.reveal();
    if (key.empty()) return error;
    constexpr std::string_view kHidden = "***";
    for (std::size_t at = error.message.find(key); at != std::string::npos;
         at = error.message.find(key, at + kHidden.size())) {
        error.message.replace(at, key.size(), kHidden);
    }
    return error;
}

Task<ModelResult> HttpModel::generate(ModelRequest request, const OnText& on_text) {
    const auto executor = co_await boost::asio::this_coro::executor;
    const auto relay = std::make_shared<TextRelay>(executor, on_text);
    const auto arriving = std::make_shared<Arriving>(*api_, relay);
    HttpRequest http = http_request(request);
    http.on_headers = [arriving](const HttpResponse& head) { return arriving->take_headers(head); };
    http.on_body = [arriving](std::string_view bytes) { return arriving->take(bytes); };
    Result<HttpResponse> response = co_await client_.send(std::move(http));
    const Result<void> heard = relay->close();
    if (!heard) co_return heard.error();
    ModelResult result = arriving->result(std::move(response));
    if (!result) co_return without_key(result.error());
    co_return result;
}

}  // namespace rouse
