#pragma once

// What a provider's failure means: whether asking again may help, and its own words for people.

#include <string>
#include <string_view>

#include "net/http_client.h"
#include "rouse/model.h"

namespace rouse {

// An answer that cannot be what the provider meant to send.
Error stream_broken(const std::string& what);

// From the body {"error":{"type","code","message"}} or a looser form of it, an event of a stream,
// or a response's own error.
struct ProviderError {
    std::string type;
    std::string code;
    std::string message;
};
// Nothing of it is left empty if the text says anything at all.
ProviderError read_provider_error(std::string_view body);
// In the middle of a stream, where no status tells.
Error judge_error(const ProviderError& error);

// An answer whose status is not 200.
ModelError judge_answer(const HttpResponse& response, const std::string& body);
// No answer at all.
ModelError judge_failure(const Error& error);

}  // namespace rouse
