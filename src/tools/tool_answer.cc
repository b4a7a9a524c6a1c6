#include "tools/tool_answer.h"

#include <optional>

#include "base/utf8.h"

namespace rouse {
namespace {

struct TitledOutput {
    std::string title;
    std::string output;
    RawJson metadata;
    Extra extra;
    static constexpr auto fields() {
        using S = TitledOutput;
        return std::tuple(required("title", &S::title), required("output", &S::output),
                          field("metadata", &S::metadata));
    }
};

// Null is absent too.
bool is_object_or_absent(RawJson& json) {
    if (json.text() == "null") json = RawJson();
    return json.absent() || json.text().starts_with('{');
}

std::optional<ToolResult> read_result(const std::string& json) {
    Result<ToolResult> result = from_json<ToolResult>(json, "the answer");
    if (!result || !result->extra.text.empty() || !is_object_or_absent(result->metadata)) {
        return std::nullopt;
    }
    const std::string& content = result->content.text();
    if (content.starts_with('"') || from_json<Content>(content, "the content")) return *result;
    return std::nullopt;
}

std::optional<ToolResult> read_titled(const std::string& json) {
    Result<TitledOutput> titled = from_json<TitledOutput>(json, "the answer");
    if (!titled || !titled->extra.text.empty() || !is_object_or_absent(titled->metadata)) {
        return std::nullopt;
    }
    ToolResult result = text_result(titled->output);
    result.display = titled->title;
    result.metadata = titled->metadata;
    return result;
}

}  // namespace

ToolResult parse_tool_answer(std::string_view bytes) {
    const Result<RawJson> json = RawJson::parse(bytes);
    if (json && json->text().starts_with('{')) {
        if (std::optional<ToolResult> result = read_result(json->text())) return *result;
        if (std::optional<ToolResult> result = read_titled(json->text())) return *result;
    }
    return text_result(to_utf8(bytes));
}

}  // namespace rouse
