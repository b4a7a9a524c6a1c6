#include "models/request_json.h"

#include <algorithm>

namespace rouse {
namespace {

struct ImageSource {
    std::string type;
    std::string media_type;
    std::string data;
    std::string url;
    static constexpr auto fields() {
        return std::tuple(field("type", &ImageSource::type),
                          field("media_type", &ImageSource::media_type),
                          field("data", &ImageSource::data), field("url", &ImageSource::url));
    }
};

}  // namespace

JsonMembers& JsonMembers::raw(std::string_view key, std::string value) {
    const auto found =
        std::ranges::find(members_, key, &std::pair<std::string, std::string>::first);
    if (found != members_.end()) {
        found->second = std::move(value);
    } else {
        members_.emplace_back(key, std::move(value));
    }
    return *this;
}

JsonMembers& JsonMembers::text(std::string_view key, std::string_view value) {
    return raw(key, to_json_string(value));
}
JsonMembers& JsonMembers::number(std::string_view key, std::int64_t value) {
    return raw(key, std::to_string(value));
}
JsonMembers& JsonMembers::real(std::string_view key, double value) {
    std::string number;
    append_json_number(number, value);
    return raw(key, std::move(number));
}
JsonMembers& JsonMembers::flag(std::string_view key, bool value) {
    return raw(key, value ? "true" : "false");
}

JsonMembers& JsonMembers::all_of(const RawJson& object) {
    std::vector<JsonMember> members;
    if (object.absent() || !split_object(object.text(), members)) return *this;
    for (const JsonMember& member : members)
        raw(member.key, std::string(member.value));
    return *this;
}

std::string JsonMembers::done() const {
    std::string out = "{";
    for (const auto& [key, value] : members_) {
        if (out.size() > 1) out += ',';
        out += '"';
        out += key;  // ours, or as it stood in JSON
        out += "\":";
        out += value;
    }
    return out + '}';
}

std::string json_array(const std::vector<std::string>& items) {
    std::string out = "[";
    for (const std::string& item : items) {
        if (out.size() > 1) out += ',';
        out += item;
    }
    return out + ']';
}

RawJson tool_input(std::string_view written) {
    if (written.find_first_not_of(" \t\r\n") == std::string_view::npos) {
        return RawJson::trusted("{}");
    }
    Result<RawJson> json = RawJson::parse(written);
    if (json) return *std::move(json);
    return RawJson::trusted(to_json_string(written));
}

std::string_view parameters_of(const ToolSpec& tool) {
    if (tool.parameters.absent()) return R"({"type":"object","properties":{}})";
    return tool.parameters.text();
}

std::string result_text(const ToolResultBlock& result, std::vector<ImageBlock>* images) {
    std::string text = result.is_error ? "Error: " : "";
    if (const auto plain = read_json_string(result.content.text())) return text + *plain;
    const Result<Content> blocks = from_json<Content>(result.content.text(), "the result");
    if (!blocks) return text + result.content.text();
    for (const Block& block : *blocks) {
        if (const auto* said = block.get_if<TextBlock>()) {
            text += said->text;
        } else if (const auto* image = block.get_if<ImageBlock>()) {
            if (images != nullptr) images->push_back(*image);
            text += "[image]";
        } else {
            text += to_json(block);
        }
    }
    return text;
}

std::string image_url(const ImageBlock& image) {
    const Result<ImageSource> source = from_json<ImageSource>(image.source.text(), "the image");
    if (!source) return {};
    if (!source->url.empty()) return source->url;
    if (source->data.empty()) return {};
    return "data:" + source->media_type + ";base64," + source->data;
}

std::string system_text(const ModelRequest& request) {
    std::string text(request.system);
    each_message(request, [&](const Message& message) {
        if (message.role != Role::system) return;
        if (!text.empty()) text += "\n\n";
        text += text_of(message);
    });
    return text;
}

}  // namespace rouse
