#include "models/openai_chat_answer.h"

#include <algorithm>
#include <ranges>

#include "models/model_errors.h"
#include "models/request_json.h"

namespace rouse {
namespace openai_chat {
namespace {

// Nearly everything may be missing or null somewhere.
struct CachedTokens {
    std::optional<std::int64_t> cached_tokens;
    static constexpr auto fields() {
        return std::tuple(field("cached_tokens", &CachedTokens::cached_tokens));
    }
};
struct WireUsage {
    std::optional<std::int64_t> prompt_tokens;
    std::optional<std::int64_t> completion_tokens;
    std::optional<CachedTokens> details;
    static constexpr auto fields() {
        using S = WireUsage;
        return std::tuple(field("prompt_tokens", &S::prompt_tokens),
                          field("completion_tokens", &S::completion_tokens),
                          field("prompt_tokens_details", &S::details));
    }
};
struct WireFunction {
    std::optional<std::string> name;
    RawJson arguments;  // a string; an object at some servers
    static constexpr auto fields() {
        return std::tuple(field("name", &WireFunction::name),
                          field("arguments", &WireFunction::arguments));
    }
};
struct WireCall {
    std::optional<std::int64_t> index;
    std::optional<std::string> id;
    std::optional<WireFunction> function;
    static constexpr auto fields() {
        return std::tuple(field("index", &WireCall::index), field("id", &WireCall::id),
                          field("function", &WireCall::function));
    }
};
// A message, or what a chunk adds to it.
struct WireMessage {
    std::optional<std::string> content;
    std::optional<std::string> refusal;
    std::optional<std::vector<WireCall>> tool_calls;
    static constexpr auto fields() {
        using S = WireMessage;
        return std::tuple(field("content", &S::content), field("refusal", &S::refusal),
                          field("tool_calls", &S::tool_calls));
    }
};
struct WireChoice {
    std::int64_t index = 0;
    std::optional<WireMessage> message;
    std::optional<WireMessage> delta;
    std::optional<std::string> finish_reason;
    static constexpr auto fields() {
        using S = WireChoice;
        return std::tuple(field("index", &S::index), field("message", &S::message),
                          field("delta", &S::delta), field("finish_reason", &S::finish_reason));
    }
};
struct WireCompletion {
    std::optional<std::string> model;
    std::optional<std::vector<WireChoice>> choices;
    std::optional<WireUsage> usage;
    RawJson error;
    static constexpr auto fields() {
        using S = WireCompletion;
        return std::tuple(field("model", &S::model), field("choices", &S::choices),
                          field("usage", &S::usage), field("error", &S::error));
    }
};

std::string arguments_text(const RawJson& arguments) {
    if (arguments.absent() || arguments.text() == "null") return {};
    return read_json_string(arguments.text()).value_or(arguments.text());
}

// By its index. Servers that number nothing, or everything 0, tell calls apart by their ids.
ChatAnswer::Call& call_of(ChatAnswer& answer, const WireCall& piece) {
    const std::string id = piece.id.value_or("");
    const auto same = [&](const ChatAnswer::Call& call) {
        if (piece.index && call.index != *piece.index) return false;
        return id.empty() || call.id.empty() || call.id == id;
    };
    // The latest one: an index that was used again means the newer call.
    const auto latest = std::views::reverse(answer.calls);
    const auto known = std::ranges::find_if(latest, same);
    if (known != latest.end()) return *known;
    const auto next = static_cast<std::int64_t>(answer.calls.size());
    return answer.calls.emplace_back(ChatAnswer::Call{piece.index.value_or(next), {}, {}, {}});
}

void add_message(ChatAnswer& answer, const WireMessage& piece, std::string& text) {
    answer.text += piece.content.value_or("");
    answer.refusal += piece.refusal.value_or("");
    text += piece.content.value_or("") + piece.refusal.value_or("");
    if (!piece.tool_calls) return;
    for (const WireCall& one : *piece.tool_calls) {
        ChatAnswer::Call& call = call_of(answer, one);
        if (one.id && !one.id->empty()) call.id = *one.id;
        if (!one.function) continue;
        if (one.function->name && call.name.empty()) call.name = *one.function->name;
        call.arguments += arguments_text(one.function->arguments);
    }
}

void add_completion(ChatAnswer& answer, const WireCompletion& piece, std::string& text) {
    if (piece.model && !piece.model->empty()) answer.model = *piece.model;
    if (piece.usage) {
        answer.usage.input_tokens = piece.usage->prompt_tokens.value_or(0);
        answer.usage.output_tokens = piece.usage->completion_tokens.value_or(0);
        if (piece.usage->details) {
            answer.usage.cache_read_tokens = piece.usage->details->cached_tokens.value_or(0);
        }
    }
    if (!piece.choices) return;
    for (const WireChoice& choice : *piece.choices) {
        if (choice.index != 0) continue;  // we ask for one
        if (choice.message) add_message(answer, *choice.message, text);
        if (choice.delta) add_message(answer, *choice.delta, text);
        if (choice.finish_reason) answer.finish_reason = *choice.finish_reason;
    }
}

// In the words that all our models use.
std::string stop_reason_of(const ChatAnswer& answer) {
    const std::string& reason = answer.finish_reason;
    if (reason == "length") return "max_tokens";
    if (reason == "content_filter" || !answer.refusal.empty()) return "refusal";
    const bool ended = reason == "stop" || reason == "tool_calls" || reason == "function_call";
    if (!ended) return reason;
    return answer.calls.empty() ? "end_turn" : "tool_use";  // some say "stop" although they call
}

}  // namespace
}  // namespace openai_chat

Result<ModelResponse> ChatAnswer::finish() const {
    if (finish_reason.empty()) return stream_broken("it ended without a finish_reason");
    ModelResponse response;
    response.model = model;
    response.usage = usage;
    response.stop_reason = openai_chat::stop_reason_of(*this);
    response.cut = response.stop_reason != "tool_use";
    const std::string& said = refusal.empty() ? text : refusal;
    if (!said.empty()) response.content = text_content(said);
    for (const Call& call : calls) {
        response.content.emplace_back(
            ToolUseBlock{CallId{call.id}, call.name, tool_input(call.arguments), {}});
    }
    return response;
}

Result<ModelResponse> read_chat_completion(const RawJson& body) {
    using openai_chat::WireCompletion;
    const Result<WireCompletion> completion =
        from_json<WireCompletion>(body.text(), "the completion");
    if (!completion) return stream_broken("what came is no completion");
    if (!completion->error.absent() && completion->error.text() != "null") {
        return judge_error(read_provider_error(body.text()));
    }
    ChatAnswer answer;
    std::string text;
    openai_chat::add_completion(answer, *completion, text);
    return answer.finish();
}

Result<void> OpenAiChatStream::take(const SseEvent& event, std::string& text) {
    using openai_chat::WireCompletion;
    if (done_) return {};
    if (event.data == "[DONE]") {
        done_ = true;
        return {};
    }
    const Result<RawJson> json = RawJson::parse(event.data);
    if (!json) return stream_broken("a chunk is not JSON");
    const Result<WireCompletion> chunk = from_json<WireCompletion>(json->text(), "the chunk");
    if (!chunk) return stream_broken("a chunk is malformed");
    if (event.name == "error" || (!chunk->error.absent() && chunk->error.text() != "null")) {
        return judge_error(read_provider_error(json->text()));
    }
    openai_chat::add_completion(answer_, *chunk, text);
    return {};
}

}  // namespace rouse
