#include "models/anthropic.h"

#include "models/anthropic_answer.h"
#include "models/model_errors.h"
#include "models/request_json.h"

namespace rouse {
namespace anthropic {
namespace {

constexpr std::int64_t kMaxTokens = 8192;  // the API wants a number; every current model takes this

// A string or an array of blocks, which is all that the API takes.
std::string result_content(const ToolResultBlock& result) {
    const std::string& content = result.content.text();
    if (content.starts_with('"')) return content;
    const Result<Content> blocks = from_json<Content>(content, "the result");
    const auto taken = [](const Block& block) {
        return block.get_if<TextBlock>() != nullptr || block.get_if<ImageBlock>() != nullptr;
    };
    if (blocks && std::ranges::all_of(*blocks, taken)) return content;
    return to_json_string(content);
}

std::string to_block(const Block& block) {
    if (const auto* use = block.get_if<ToolUseBlock>()) {
        if (use->input.text().starts_with('{')) return to_json(block);
        // Only an object is taken; this is what the model wrote instead of one.
        ToolUseBlock wrapped = *use;
        wrapped.input = RawJson::trusted("{\"INVALID_JSON\":" + use->input.text() + "}");
        return to_json(Block(std::move(wrapped)));
    }
    if (const auto* result = block.get_if<ToolResultBlock>()) {
        JsonMembers members;
        members.text("type", "tool_result").text("tool_use_id", result->tool_use_id.text);
        members.raw("content", result_content(*result));
        if (result->is_error) members.flag("is_error", true);
        return members.done();
    }
    return to_json(block);
}

std::string to_message(const Message& message) {
    std::vector<std::string> blocks;
    for (const Block& block : message.content)
        blocks.push_back(to_block(block));
    JsonMembers members;
    members.text("role", to_string(message.role)).raw("content", json_array(blocks));
    return members.done();
}

std::string to_tool(const ToolSpec& tool) {
    JsonMembers members;
    members.text("name", tool.name);
    if (!tool.description.empty()) members.text("description", tool.description);
    members.raw("input_schema", std::string(parameters_of(tool)));
    return members.done();
}

}  // namespace
}  // namespace anthropic

std::string AnthropicApi::url() const {
    const std::string& base = options_.base_url;
    return join_url(base.empty() ? "https://api.anthropic.com" : base, "/v1/messages");
}

HttpHeaders AnthropicApi::headers() const {
    HttpHeaders headers;
    if (!options_.api_key.reveal().empty()) {
        headers.emplace_back("x-api-key", options_.api_key.reveal());
    }
    headers.emplace_back("anthropic-version", options_.version);
    std::string betas;
    for (const std::string& beta : options_.betas)
        betas += (betas.empty() ? "" : ",") + beta;
    if (!betas.empty()) headers.emplace_back("anthropic-beta", std::move(betas));
    return headers;
}

ConversationRules AnthropicApi::rules() const {
    ConversationRules rules;
    rules.checked = true;
    rules.alternates = true;
    rules.unique_calls = true;
    // Thinking comes back signed, and must be given back as it came. "reasoning" is OpenAI's.
    rules.takes_block = [](std::string_view type) { return type != "reasoning"; };
    return rules;
}

std::string AnthropicApi::request_body(const ModelRequest& request) const {
    JsonMembers body;
    body.text("model", options_.model);
    body.number("max_tokens", options_.max_tokens.value_or(anthropic::kMaxTokens));
    if (const std::string system = system_text(request); !system.empty()) {
        body.text("system", system);
    }
    std::vector<std::string> messages;
    each_message(request, [&](const Message& message) {
        if (message.role != Role::system) messages.push_back(anthropic::to_message(message));
    });
    body.raw("messages", json_array(messages));
    std::vector<std::string> tools;
    for (const ToolSpec* tool : request.tools)
        tools.push_back(anthropic::to_tool(*tool));
    if (!tools.empty()) body.raw("tools", json_array(tools));
    if (options_.temperature) body.real("temperature", *options_.temperature);
    if (options_.stream) body.flag("stream", true);
    return body.all_of(options_.request).done();
}

std::unique_ptr<StreamReader> AnthropicApi::read_stream() const {
    return std::make_unique<AnthropicStream>();
}

Result<ModelResponse> AnthropicApi::read_answer(const RawJson& body) const {
    return read_anthropic_message(body);
}

}  // namespace rouse
