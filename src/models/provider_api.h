#pragma once

// What differs from provider to provider: how a request is written, and how answers and errors are
// read. Pure; http_model.h does the talking.

#include <memory>
#include <string>

#include "net/http_client.h"
#include "net/sse.h"
#include "rouse/models.h"

namespace rouse {

// One streamed answer, put together from its events.
class StreamReader {
 public:
    virtual ~StreamReader() = default;

    // Appends what the model said to `text`. An error ends the stream: the provider's own, or
    // unavailable "stream_broken" for what cannot be part of an answer.
    virtual Result<void> take(const SseEvent& event, std::string& text) = 0;
    // The answer, once the stream is over. unavailable  stream_broken: its last event did not come
    virtual Result<ModelResponse> finish() = 0;
};

class ProviderApi {
 public:
    virtual ~ProviderApi() = default;

    virtual std::string url() const = 0;
    virtual HttpHeaders headers() const = 0;
    virtual ConversationRules rules() const = 0;
    virtual std::string request_body(const ModelRequest& request) const = 0;
    virtual std::unique_ptr<StreamReader> read_stream() const = 0;
    virtual Result<ModelResponse> read_answer(const RawJson& body) const = 0;
};

// Base URLs are written with and without a slash at their end.
std::string join_url(std::string base, std::string_view path);

}  // namespace rouse
