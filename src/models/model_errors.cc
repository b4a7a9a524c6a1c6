#include "models/model_errors.h"

#include <algorithm>

#include "net/retry_after.h"

namespace rouse {
namespace {

constexpr std::size_t kWordsBytes = 2000;  // of a provider's message

struct ErrorObject {
    std::optional<std::string> type;
    RawJson code;  // a string, or a number at some servers
    std::optional<std::string> message;
    static constexpr auto fields() {
        return std::tuple(field("type", &ErrorObject::type), field("code", &ErrorObject::code),
                          field("message", &ErrorObject::message));
    }
};
struct ErrorBody {
    RawJson error;  // an object, or a text at some servers
    std::optional<std::string> message;
    std::optional<std::string> detail;
    static constexpr auto fields() {
        return std::tuple(field("error", &ErrorBody::error), field("message", &ErrorBody::message),
                          field("detail", &ErrorBody::detail));
    }
};

ProviderError read_object(const RawJson& object) {
    ProviderError error;
    if (const auto text = read_json_string(object.text())) {
        error.message = *text;
        return error;
    }
    const Result<ErrorObject> read = from_json<ErrorObject>(object.text(), "the error");
    if (!read) return error;
    error.type = read->type.value_or("");
    if (read->code.text() != "null") error.code = read->code.text();
    if (const auto text = read_json_string(error.code)) error.code = *text;
    error.message = read->message.value_or("");
    return error;
}

std::string shortened(std::string text) {
    if (text.size() <= kWordsBytes) return text;
    std::size_t end = kWordsBytes;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U)
        --end;
    text.resize(end);
    return text + "…";
}

std::string words_of(const ProviderError& error) {
    std::string words = error.type;
    if (!error.code.empty() && error.code != error.type) {
        words += words.empty() ? error.code : " (" + error.code + ")";
    }
    if (!error.message.empty()) words += (words.empty() ? "" : ": ") + error.message;
    return shortened(std::move(words));
}

bool is_one_of(const ProviderError& error, std::initializer_list<std::string_view> names) {
    return std::ranges::find(names, error.type) != names.end() ||
           std::ranges::find(names, error.code) != names.end();
}

bool is_too_long(const ProviderError& error) {
    return error.code == "context_length_exceeded" || error.type == "exceed_context_size_error" ||
           error.message.starts_with("prompt is too long") ||
           error.message.contains("maximum context length");
}

Error with_words(ErrorKind kind, std::string_view reason, const std::string& words) {
    return {kind, reason, words.empty() ? "the provider gave no reason" : words};
}

Error judge_final(int status, const ProviderError& error, const std::string& words) {
    if (is_too_long(error)) return with_words(ErrorKind::invalid, "context_too_long", words);
    const bool denied = status == 401 || status == 402 || status == 403 || status == 429;
    if (denied) return with_words(ErrorKind::denied, "model_denied", words);
    return with_words(ErrorKind::invalid, "model_refused", words);
}

}  // namespace

Error stream_broken(const std::string& what) {
    return {ErrorKind::unavailable, "stream_broken", "the model's answer broke off: " + what};
}

ProviderError read_provider_error(std::string_view body) {
    const Result<RawJson> json = RawJson::parse(body);
    if (!json) {
        ProviderError error;
        error.message = "no JSON, but " + to_json_string(shortened(std::string(body)));
        if (body.empty()) error.message = "an empty answer";
        return error;
    }
    const Result<ErrorBody> read = from_json<ErrorBody>(json->text(), "the error");
    ProviderError error;
    if (read && !read->error.absent()) error = read_object(read->error);
    if (read && error.message.empty()) {
        error.message = read->message.value_or(read->detail.value_or(""));
    }
    if (words_of(error).empty()) error.message = json->text();
    return error;
}

Error judge_error(const ProviderError& error) {
    const std::string words = words_of(error);
    if (is_too_long(error)) return judge_final(400, error, words);
    if (is_one_of(error, {"authentication_error", "permission_error", "insufficient_quota",
                          "billing_error"})) {
        return judge_final(403, error, words);
    }
    if (is_one_of(error, {"invalid_request_error", "not_found_error", "request_too_large",
                          "invalid_prompt", "model_not_found"})) {
        return judge_final(400, error, words);
    }
    return with_words(ErrorKind::unavailable, "model_unavailable", words);
}

ModelError judge_answer(const HttpResponse& response, const std::string& body) {
    const ProviderError error = read_provider_error(body);
    const int status = response.status;
    const std::string words = std::to_string(status) + " " + words_of(error);
    bool later = status == 408 || status == 409 || status == 429 || status >= 500 || status < 300;
    if (is_one_of(error, {"insufficient_quota"}) || is_too_long(error)) later = false;
    // The provider knows best.
    if (const std::string* advice = response.header("x-should-retry")) {
        if (*advice == "true") later = true;
        if (*advice == "false") later = false;
    }
    if (!later) return judge_final(status, error, words);
    ModelError judged(with_words(ErrorKind::unavailable, "model_unavailable", words));
    judged.retry_after = retry_after_of(response);
    return judged;
}

ModelError judge_failure(const Error& error) {
    switch (error.kind) {
        case ErrorKind::timeout: return Error(ErrorKind::timeout, "model_timeout", error.message);
        case ErrorKind::unavailable:
            return Error(ErrorKind::unavailable, "model_unavailable", error.message);
        case ErrorKind::io: return stream_broken(error.message);
        default: return error;
    }
}

}  // namespace rouse
