#include "models/openai_responses.h"

#include "models/model_errors.h"
#include "models/openai_chat.h"
#include "models/request_json.h"

namespace rouse {
namespace openai_responses {
namespace {

// ---- requests -------------------------------------------------------------------------------

std::string to_said(std::string_view role, std::string content) {
    JsonMembers item;
    item.text("type", "message").text("role", role);
    return item.raw("content", std::move(content)).done();
}

std::string input_text(std::string_view text) {
    JsonMembers part;
    return part.text("type", "input_text").text("text", text).done();
}

std::string input_image(const ImageBlock& image) {
    JsonMembers part;
    part.text("type", "input_image").text("detail", "auto");
    return part.text("image_url", image_url(image)).done();
}

void add_user_items(const Message& message, std::vector<std::string>& items) {
    std::vector<std::string> parts;
    std::vector<ImageBlock> shown;
    for (const Block& block : message.content) {
        if (const auto* result = block.get_if<ToolResultBlock>()) {
            JsonMembers item;
            item.text("type", "function_call_output").text("call_id", result->tool_use_id.text);
            items.push_back(item.text("output", result_text(*result, &shown)).done());
        } else if (const auto* text = block.get_if<TextBlock>()) {
            parts.push_back(input_text(text->text));
        } else if (const auto* image = block.get_if<ImageBlock>()) {
            parts.push_back(input_image(*image));
        }
    }
    for (const ImageBlock& image : shown)
        parts.push_back(input_image(image));
    if (!parts.empty()) items.push_back(to_said("user", json_array(parts)));
}

// Item by item, in the order in which the model gave them: reasoning goes before what it led to.
void add_assistant_items(const Message& message, std::vector<std::string>& items) {
    for (const Block& block : message.content) {
        if (const auto* use = block.get_if<ToolUseBlock>()) {
            const auto written = read_json_string(use->input.text());
            JsonMembers item;
            item.text("type", "function_call").text("call_id", use->id.text);
            item.text("name", use->name);
            items.push_back(item.text("arguments", written ? *written : use->input.text()).done());
        } else if (const auto* text = block.get_if<TextBlock>()) {
            items.push_back(to_said("assistant", to_json_string(text->text)));
        } else if (const auto* reasoning = block.get_if<UnknownBlock>()) {
            items.push_back(reasoning->object.text());
        }
    }
}

std::string to_function(const ToolSpec& tool) {
    JsonMembers made;
    made.text("type", "function").text("name", tool.name);
    if (!tool.description.empty()) made.text("description", tool.description);
    made.raw("parameters", std::string(parameters_of(tool)));
    return made.flag("strict", false).done();  // strict ones allow no optional member
}

// ---- answers --------------------------------------------------------------------------------

struct CachedInput {
    std::optional<std::int64_t> cached_tokens;
    static constexpr auto fields() {
        return std::tuple(field("cached_tokens", &CachedInput::cached_tokens));
    }
};
struct ResponseUsage {
    std::optional<std::int64_t> input_tokens;
    std::optional<std::int64_t> output_tokens;
    std::optional<CachedInput> details;
    static constexpr auto fields() {
        using S = ResponseUsage;
        return std::tuple(field("input_tokens", &S::input_tokens),
                          field("output_tokens", &S::output_tokens),
                          field("input_tokens_details", &S::details));
    }
};
struct Incomplete {
    std::optional<std::string> reason;
    static constexpr auto fields() { return std::tuple(field("reason", &Incomplete::reason)); }
};
struct Response {
    std::string status;
    std::optional<std::string> model;
    std::vector<RawJson> output;
    std::optional<ResponseUsage> usage;
    std::optional<Incomplete> incomplete;
    static constexpr auto fields() {
        using S = Response;
        return std::tuple(required("status", &S::status), field("model", &S::model),
                          field("output", &S::output), field("usage", &S::usage),
                          field("incomplete_details", &S::incomplete));
    }
};
struct Part {
    std::string type;
    std::string text;
    std::string refusal;
    static constexpr auto fields() {
        return std::tuple(required("type", &Part::type), field("text", &Part::text),
                          field("refusal", &Part::refusal));
    }
};
struct Item {
    std::string type;
    std::string call_id;
    std::string name;
    std::string arguments;
    std::string input;  // of a custom tool: text of any kind
    RawJson content;
    static constexpr auto fields() {
        using S = Item;
        return std::tuple(required("type", &S::type), field("call_id", &S::call_id),
                          field("name", &S::name), field("arguments", &S::arguments),
                          field("input", &S::input), field("content", &S::content));
    }
};
struct Event {
    std::string type;
    std::optional<std::int64_t> sequence_number;
    std::int64_t output_index = 0;
    RawJson item;
    RawJson response;
    static constexpr auto fields() {
        using S = Event;
        return std::tuple(required("type", &S::type), field("sequence_number", &S::sequence_number),
                          field("output_index", &S::output_index), field("item", &S::item),
                          field("response", &S::response));
    }
};
struct TextEvent {
    std::string delta;
    static constexpr auto fields() { return std::tuple(required("delta", &TextEvent::delta)); }
};

struct Reading {
    Content content;
    bool refused = false;
    bool calls = false;
};

Result<void> read_item(const RawJson& json, Reading& reading) {
    const Result<Item> item = from_json<Item>(json.text(), "the item");
    if (!item) return stream_broken("an item is malformed");
    if (item->type == "message") {
        const Result<std::vector<Part>> parts =
            from_json<std::vector<Part>>(item->content.text(), "the message");
        if (!parts) return stream_broken("a message is malformed");
        for (const Part& part : *parts) {
            if (part.type == "refusal") reading.refused = true;
            const std::string& said = part.type == "refusal" ? part.refusal : part.text;
            if (!said.empty()) reading.content.emplace_back(TextBlock{said, {}});
        }
    } else if (item->type == "function_call") {
        reading.calls = true;
        reading.content.emplace_back(
            ToolUseBlock{CallId{item->call_id}, item->name, tool_input(item->arguments), {}});
    } else if (item->type == "custom_tool_call") {
        reading.calls = true;
        const RawJson input = RawJson::trusted(to_json_string(item->input));
        reading.content.emplace_back(ToolUseBlock{CallId{item->call_id}, item->name, input, {}});
    } else {
        // It goes into a log, and must not be read from there as a block of ours.
        Block kept;
        if (!kept.read_json(json.text()) || kept.get_if<UnknownBlock>() == nullptr) {
            return stream_broken("an item calls itself " + item->type + ", which no item is");
        }
        reading.content.push_back(std::move(kept));
    }
    return {};
}

Result<ModelResponse> read_response(const RawJson& body) {
    const Result<Response> read = from_json<Response>(body.text(), "the response");
    if (!read) return stream_broken("what came is no response");
    if (read->status == "failed") return judge_error(read_provider_error(body.text()));
    if (read->status != "completed" && read->status != "incomplete") {
        return stream_broken("the response is " + read->status);
    }
    Reading reading;
    for (const RawJson& item : read->output) {
        if (Result<void> taken = read_item(item, reading); !taken) return taken.error();
    }
    ModelResponse response;
    response.model = read->model.value_or("");
    response.content = std::move(reading.content);
    if (read->usage) {
        response.usage.input_tokens = read->usage->input_tokens.value_or(0);
        response.usage.output_tokens = read->usage->output_tokens.value_or(0);
        if (read->usage->details) {
            response.usage.cache_read_tokens = read->usage->details->cached_tokens.value_or(0);
        }
    }
    response.stop_reason = reading.calls ? "tool_use" : "end_turn";
    if (reading.refused) response.stop_reason = "refusal";
    if (read->status == "incomplete") {
        const std::string why = read->incomplete ? read->incomplete->reason.value_or("") : "";
        response.stop_reason = why == "content_filter" ? "refusal" : "max_tokens";
    }
    response.cut = response.stop_reason != "tool_use";
    return response;
}

// The closing event has the whole output; a gateway that leaves it out has sent its items before.
RawJson with_items(const RawJson& response, const std::map<std::int64_t, RawJson>& items) {
    const Result<Response> read = from_json<Response>(response.text(), "the response");
    if (!read || !read->output.empty() || items.empty()) return response;
    std::vector<std::string> output;
    output.reserve(items.size());
    for (const auto& [index, item] : items)
        output.push_back(item.text());
    JsonMembers whole;
    return RawJson::trusted(whole.all_of(response).raw("output", json_array(output)).done());
}

}  // namespace
}  // namespace openai_responses

std::string OpenAiResponsesApi::url() const {
    return join_url(openai_base_url(options_), "/responses");
}

HttpHeaders OpenAiResponsesApi::headers() const {
    return openai_headers(options_);
}

ConversationRules OpenAiResponsesApi::rules() const {
    ConversationRules rules;
    rules.checked = true;
    rules.unique_calls = true;
    rules.takes_block = [](std::string_view type) { return type == "reasoning"; };
    return rules;
}

std::string OpenAiResponsesApi::request_body(const ModelRequest& request) const {
    std::vector<std::string> items;
    each_message(request, [&](const Message& message) {
        switch (message.role) {
            case Role::user: openai_responses::add_user_items(message, items); break;
            case Role::assistant: openai_responses::add_assistant_items(message, items); break;
            case Role::system:
                items.push_back(
                    openai_responses::to_said("system", to_json_string(text_of(message))));
                break;
        }
    });
    JsonMembers body;
    body.text("model", options_.model);
    if (!request.system.empty()) body.text("instructions", request.system);
    body.raw("input", json_array(items));
    std::vector<std::string> tools;
    for (const ToolSpec* tool : request.tools)
        tools.push_back(openai_responses::to_function(*tool));
    if (!tools.empty()) body.raw("tools", json_array(tools));
    body.flag("store", false).raw("include", R"(["reasoning.encrypted_content"])");
    if (options_.max_tokens) body.number("max_output_tokens", *options_.max_tokens);
    if (options_.temperature) body.real("temperature", *options_.temperature);
    if (options_.stream) body.flag("stream", true);
    return body.all_of(options_.request).done();
}

std::unique_ptr<StreamReader> OpenAiResponsesApi::read_stream() const {
    return std::make_unique<OpenAiResponsesStream>();
}

Result<ModelResponse> OpenAiResponsesApi::read_answer(const RawJson& body) const {
    return openai_responses::read_response(body);
}

Result<void> OpenAiResponsesStream::take(const SseEvent& event, std::string& text) {
    if (event.data == "[DONE]" || response_) return {};
    const Result<RawJson> json = RawJson::parse(event.data);
    if (!json) return stream_broken("an event is not JSON");
    const Result<openai_responses::Event> read =
        from_json<openai_responses::Event>(json->text(), "the event");
    if (!read) return stream_broken("an event is malformed");
    if (read->sequence_number) {
        if (last_number_ && *read->sequence_number <= *last_number_) return {};  // sent again
        if (last_number_ && *read->sequence_number != *last_number_ + 1) {
            return stream_broken("events are missing");
        }
        last_number_ = read->sequence_number;
    }
    const std::string& type = read->type;
    if (type == "error") {
        // Its fields stand at the top, or under "error".
        JsonMembers wrapped;
        wrapped.raw("error", json->text()).all_of(*json);
        return judge_error(read_provider_error(wrapped.done()));
    }
    if (type == "response.output_text.delta" || type == "response.refusal.delta") {
        const auto said = from_json<openai_responses::TextEvent>(json->text(), "the event");
        if (!said) return stream_broken("a delta is malformed");
        text += said->delta;
    } else if (type == "response.output_item.done") {
        items_[read->output_index] = read->item;
    } else if (type == "response.completed" || type == "response.incomplete" ||
               type == "response.failed") {
        response_ = openai_responses::with_items(read->response, items_);
    }
    return {};
}

Result<ModelResponse> OpenAiResponsesStream::finish() {
    if (!response_) return stream_broken("it ended without its last event");
    return openai_responses::read_response(*response_);
}

}  // namespace rouse
