#include "models/openai_chat.h"

#include "models/openai_chat_answer.h"
#include "models/request_json.h"

namespace rouse {
namespace openai_chat {
namespace {

std::string text_part(std::string_view text) {
    JsonMembers part;
    return part.text("type", "text").text("text", text).done();
}

std::string image_part(const ImageBlock& image) {
    JsonMembers url;
    url.text("url", image_url(image));
    JsonMembers part;
    return part.text("type", "image_url").raw("image_url", url.done()).done();
}

std::string spoken(std::string_view role, std::string content) {
    JsonMembers message;
    return message.text("role", role).raw("content", std::move(content)).done();
}

// One text alone goes as a string: not every server takes parts.
std::string user_content(const std::vector<std::string>& parts, const std::string& only_text) {
    return parts.size() == 1 && !only_text.empty() ? to_json_string(only_text) : json_array(parts);
}

// Results are messages of their own, right behind the calls; what else the user says follows.
void add_user(const Message& message, std::vector<std::string>& messages) {
    std::vector<std::string> parts;
    std::string only_text;
    std::vector<ImageBlock> shown;  // by tools, whose messages are text alone
    for (const Block& block : message.content) {
        if (const auto* result = block.get_if<ToolResultBlock>()) {
            JsonMembers tool;
            tool.text("role", "tool").text("tool_call_id", result->tool_use_id.text);
            messages.push_back(tool.text("content", result_text(*result, &shown)).done());
        } else if (const auto* text = block.get_if<TextBlock>()) {
            parts.push_back(text_part(text->text));
            only_text = text->text;
        } else if (const auto* image = block.get_if<ImageBlock>()) {
            parts.push_back(image_part(*image));
        }
    }
    for (const ImageBlock& image : shown)
        parts.push_back(image_part(image));
    if (!parts.empty()) messages.push_back(spoken("user", user_content(parts, only_text)));
}

std::string to_assistant(const Message& message) {
    std::vector<std::string> calls;
    for (const Block& block : message.content) {
        const auto* use = block.get_if<ToolUseBlock>();
        if (use == nullptr) continue;
        // What was no JSON is kept as a string of what the model wrote.
        const auto written = read_json_string(use->input.text());
        JsonMembers function;
        function.text("name", use->name);
        function.text("arguments", written ? *written : use->input.text());
        JsonMembers call;
        call.text("id", use->id.text).text("type", "function").raw("function", function.done());
        calls.push_back(call.done());
    }
    const std::string text = text_of(message);
    JsonMembers said;
    said.text("role", "assistant").raw("content", text.empty() ? "null" : to_json_string(text));
    if (!calls.empty()) said.raw("tool_calls", json_array(calls));
    return said.done();
}

std::string to_tool(const ToolSpec& tool) {
    JsonMembers function;
    function.text("name", tool.name);
    if (!tool.description.empty()) function.text("description", tool.description);
    function.raw("parameters", std::string(parameters_of(tool)));
    JsonMembers made;
    return made.text("type", "function").raw("function", function.done()).done();
}

}  // namespace
}  // namespace openai_chat

std::string openai_base_url(const OpenAiOptions& options) {
    return options.base_url.empty() ? "https://api.openai.com/v1" : options.base_url;
}

HttpHeaders openai_headers(const OpenAiOptions& options) {
    HttpHeaders headers;
    if (!options.api_key.reveal().empty()) {
        headers.emplace_back("authorization", "Bearer " + options.api_key.reveal());
    }
    return headers;
}

std::string OpenAiChatApi::url() const {
    return join_url(openai_base_url(options_), "/chat/completions");
}

HttpHeaders OpenAiChatApi::headers() const {
    return openai_headers(options_);
}

ConversationRules OpenAiChatApi::rules() const {
    ConversationRules rules;
    rules.checked = true;
    rules.alternates = true;  // the chat templates of many local models demand it
    return rules;
}

std::string OpenAiChatApi::request_body(const ModelRequest& request) const {
    std::vector<std::string> messages;
    if (!request.system.empty()) {
        messages.push_back(openai_chat::spoken("system", to_json_string(request.system)));
    }
    each_message(request, [&](const Message& message) {
        switch (message.role) {
            case Role::user: openai_chat::add_user(message, messages); break;
            case Role::assistant: messages.push_back(openai_chat::to_assistant(message)); break;
            case Role::system:
                messages.push_back(openai_chat::spoken("system", to_json_string(text_of(message))));
                break;
        }
    });
    JsonMembers body;
    body.text("model", options_.model).raw("messages", json_array(messages));
    std::vector<std::string> tools;
    for (const ToolSpec* tool : request.tools)
        tools.push_back(openai_chat::to_tool(*tool));
    if (!tools.empty()) body.raw("tools", json_array(tools));
    if (options_.max_tokens) body.number("max_completion_tokens", *options_.max_tokens);
    if (options_.temperature) body.real("temperature", *options_.temperature);
    if (options_.stream) {
        body.flag("stream", true).raw("stream_options", R"({"include_usage":true})");
    }
    return body.all_of(options_.request).done();
}

std::unique_ptr<StreamReader> OpenAiChatApi::read_stream() const {
    return std::make_unique<OpenAiChatStream>();
}

Result<ModelResponse> OpenAiChatApi::read_answer(const RawJson& body) const {
    return read_chat_completion(body);
}

}  // namespace rouse
