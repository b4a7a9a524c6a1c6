#include "server/body.h"

#include <algorithm>
#include <charconv>

namespace rouse::server {
namespace {

// No model takes a conversation with such a block in it, neither now nor in a later turn.
std::optional<std::string> what_is_wrong_with(const Content& blocks) {
    for (const Block& block : blocks) {
        if (block.get_if<ToolUseBlock>() != nullptr || block.get_if<ToolResultBlock>() != nullptr) {
            return "must not hold tool calls or results";
        }
        const auto* image = block.get_if<ImageBlock>();
        if (image != nullptr && !image->source.text().starts_with('{')) {
            return "has an image whose source is no object";
        }
    }
    return std::nullopt;
}

}  // namespace

std::string pending_id_of(std::string_view body) {
    const Result<RawJson> parsed = RawJson::parse(body);
    std::vector<JsonMember> members;
    if (!parsed || !split_object(parsed->text(), members)) return {};
    const auto found = std::ranges::find(members, "pendingID", &JsonMember::key);
    if (found == members.end()) return {};
    return read_json_string(found->value).value_or("");
}

Problem invalid_request(std::string detail, std::string field) {
    Problem problem{400, "invalid_request", "Invalid request", std::move(detail)};
    problem.field = std::move(field);
    return problem;
}

Problem foreign_cursor() {
    return invalid_request("the cursor is not one of ours; begin without one");
}

Body::Body(std::string_view text, std::string at) : at_(std::move(at)) {
    if (text.empty()) text = "{}";
    Result<RawJson> parsed = RawJson::parse(text);
    if (!parsed) {
        problem_ = invalid_request("the body is not JSON: " + parsed.error().message, at_);
        return;
    }
    text_ = *std::move(parsed);
    if (!split_object(text_.text(), members_)) {
        problem_ = invalid_request("expected a JSON object", at_);
        return;
    }
    // Which of two is meant? Others may read it the other way. No body of ours has so many members
    // that it would pay to look further.
    constexpr std::size_t kMembers = 64;
    for (std::size_t i = 1; i < std::min(members_.size(), kMembers); ++i) {
        const auto end = members_.begin() + static_cast<std::ptrdiff_t>(i);
        const bool again =
            std::ranges::find(members_.begin(), end, end->key, &JsonMember::key) != end;
        if (again) complain(end->key, "is there twice");
    }
}

const JsonMember* Body::find(std::string_view name) {
    known_.push_back(name);
    const auto found = std::ranges::find(members_, name, &JsonMember::key);
    return found == members_.end() || found->value == "null" ? nullptr : &*found;
}

bool Body::has(std::string_view name) const {
    return std::ranges::find(members_, name, &JsonMember::key) != members_.end();
}

void Body::complain(std::string_view name, std::string what) {
    if (problem_) return;
    problem_ =
        invalid_request(std::string(name) + " " + std::move(what), at_ + "/" + std::string(name));
}

std::optional<std::string> Body::text(std::string_view name) {
    const JsonMember* member = find(name);
    if (member == nullptr) return std::nullopt;
    std::optional<std::string> value = read_json_string(member->value);
    if (!value) complain(name, "must be a string");
    return value;
}

std::optional<std::string> Body::text_or_null(std::string_view name) {
    if (has(name) && find(name) == nullptr) return "";
    return text(name);
}

std::string Body::required_text(std::string_view name) {
    std::optional<std::string> value = text(name);
    if (!value) complain(name, "is missing; it must be a string");
    return value.value_or("");
}

std::optional<std::int64_t> Body::integer(std::string_view name) {
    const JsonMember* member = find(name);
    if (member == nullptr) return std::nullopt;
    const std::optional<std::int64_t> value = read_json_int(member->value);
    if (!value) complain(name, "must be a whole number");
    return value;
}

std::optional<bool> Body::flag(std::string_view name) {
    const JsonMember* member = find(name);
    if (member == nullptr) return std::nullopt;
    const std::optional<bool> value = read_json_bool(member->value);
    if (!value) complain(name, "must be true or false");
    return value;
}

std::vector<std::string> Body::texts(std::string_view name) {
    const JsonMember* member = find(name);
    std::vector<std::string> values;
    if (member == nullptr) return values;
    if (!codec::read(member->value, values)) {
        complain(name, "must be a list of strings");
    } else if (values.empty()) {
        complain(name, "must not be empty; leave it out to mean all of them");
    }
    return values;
}

std::optional<Timestamp> Body::time(std::string_view name) {
    const std::optional<std::string> given = text(name);
    if (!given) return std::nullopt;
    const Result<Timestamp> value = parse_rfc3339(*given);
    if (value) return *value;
    complain(name, "must be a time such as 2026-01-31T12:00:00Z");
    return std::nullopt;
}

RawJson Body::any(std::string_view name) {
    const JsonMember* member = find(name);
    return member == nullptr ? RawJson() : RawJson::trusted(std::string(member->value));
}

RawJson Body::object(std::string_view name) {
    RawJson value = any(name);
    if (!value.absent() && value.text().front() != '{') complain(name, "must be an object");
    return value;
}

std::vector<JsonMember> Body::members(std::string_view name) {
    const JsonMember* member = find(name);
    std::vector<JsonMember> found;
    if (member != nullptr && !split_object(member->value, found)) {
        complain(name, "must be an object");
    }
    return found;
}

Content Body::content(std::string_view name) {
    const JsonMember* member = find(name);
    if (member == nullptr) return {};
    if (std::optional<std::string> text = read_json_string(member->value)) {
        if (text->empty()) complain(name, "must not be empty");
        return text_content(*std::move(text));
    }
    Content blocks;
    if (!codec::read(member->value, blocks) || blocks.empty()) {
        complain(name, "must be a string or a list of content blocks");
        return {};
    }
    if (const auto wrong = what_is_wrong_with(blocks)) complain(name, *wrong);
    return blocks;
}

std::optional<ToolResult> Body::tool_result(std::string_view name) {
    const JsonMember* member = find(name);
    if (member == nullptr) {
        complain(name, "is missing; it must be a tool result such as {\"content\": \"done\"}");
        return std::nullopt;
    }
    return read_tool_result(member->value, at_ + "/" + std::string(name), problem_);
}

std::optional<ToolResult> read_tool_result(std::string_view text, std::string at,
                                           std::optional<Problem>& problem) {
    Body body(text, std::move(at));
    ToolResult result;
    if (body.has("output") || body.has("title")) {
        result.display = body.text_or_empty("title");
        result.content = body.any("output");
        if (result.content.absent()) {
            body.complain("output", "is missing");
        } else if (result.content.text().front() != '"') {
            body.complain("output", "must be a string");
        }
    } else {
        result.content = body.any("content");
        const bool is_text = !result.content.absent() && result.content.text().front() == '"';
        Content blocks;
        if (!is_text && (result.content.absent() || !codec::read(result.content.text(), blocks))) {
            body.complain("content", "must be a string or a list of content blocks");
        } else if (const auto wrong = what_is_wrong_with(blocks)) {
            body.complain("content", *wrong);
        }
        result.is_error = body.flag("is_error").value_or(false);
        result.display = body.text_or_empty("display");
    }
    result.metadata = body.object("metadata");
    if (std::optional<Problem> wrong = body.problem()) {
        if (!problem) problem = std::move(wrong);
        return std::nullopt;
    }
    return result;
}

std::optional<Problem> Body::problem() {
    if (problem_) return problem_;
    for (const JsonMember& member : members_) {
        if (std::ranges::find(known_, member.key) != known_.end()) continue;
        std::string known;
        for (const std::string_view name : known_)
            known += (known.empty() ? "" : ", ") + std::string(name);
        return invalid_request("there is no such field here; there are: " + known,
                               at_ + "/" + std::string(member.key));
    }
    return std::nullopt;
}

std::optional<Milliseconds> parse_wait(std::string_view text) {
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || number < 0 || number > 1'000'000) return std::nullopt;
    const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
    if (unit == "ms") return Milliseconds(number);
    if (unit == "s") return std::chrono::seconds(number);
    if (unit == "m") return std::chrono::minutes(number);
    return std::nullopt;
}

}  // namespace rouse::server
