#include "rouse/suspension.h"

#include "base/digest.h"

namespace rouse {

std::string text_of(const Message& message) {
    std::string text;
    for (const Block& block : message.content) {
        if (const auto* part = block.get_if<TextBlock>()) text += part->text;
    }
    return text;
}

std::string digest_of_input(const RawJson& input) {
    return sha256_hex(input.text());
}

Result<RawJson> content_as_json(const ToolResult& result) {
    if (const auto text = read_json_string(result.content.text())) return RawJson::parse(*text);
    const auto blocks = from_json<Content>(result.content.text(), "the content");
    if (blocks && blocks->size() == 1) {
        if (const auto* text = blocks->front().get_if<TextBlock>()) {
            return RawJson::parse(text->text);
        }
    }
    return result.content;
}

}  // namespace rouse
