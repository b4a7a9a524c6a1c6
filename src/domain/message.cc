#include "domain/message.h"

#include <limits>

#include "base/digest.h"

namespace rouse {
namespace {

template <class Kind>
bool read_as(const std::vector<JsonMember>& members, Block::Kinds& into) {
    return codec::read_fields(members, into.emplace<Kind>());
}

std::int64_t saturating_sum(std::int64_t a, std::int64_t b) {
    std::int64_t sum = 0;
    if (!__builtin_add_overflow(a, b, &sum)) return sum;
    return b < 0 ? std::numeric_limits<std::int64_t>::min()
                 : std::numeric_limits<std::int64_t>::max();
}

}  // namespace

void Block::write_json(std::string& out) const {
    std::visit(
        [&](const auto& kind) {
            using Kind = std::remove_cvref_t<decltype(kind)>;
            if constexpr (std::same_as<Kind, UnknownBlock>) {
                out += kind.object.text();
            } else {
                out += "{\"type\":\"";
                out += Kind::kType;
                out += '"';
                codec::write_members(out, kind);
                out += '}';
            }
        },
        kind_);
}

bool Block::read_json(std::string_view token) {
    thread_local std::vector<JsonMember> members;
    if (!split_object(token, members)) return false;
    const auto found = std::ranges::find(members, "type", &JsonMember::key);
    if (found == members.end()) return false;
    const std::string_view type = found->value;
    members.erase(found);
    if (type == "\"text\"") return read_as<TextBlock>(members, kind_);
    if (type == "\"tool_use\"") return read_as<ToolUseBlock>(members, kind_);
    if (type == "\"tool_result\"") return read_as<ToolResultBlock>(members, kind_);
    if (type == "\"image\"") return read_as<ImageBlock>(members, kind_);
    kind_ = UnknownBlock{RawJson::trusted(std::string(token))};
    return true;
}

Content text_content(std::string text) {
    Content content;
    content.emplace_back(TextBlock{std::move(text), {}});
    return content;
}

ToolResult text_result(std::string_view text) {
    return {RawJson::trusted(to_json_string(text)), false, {}, {}, {}};
}

ToolResult error_result(std::string_view message) {
    return {RawJson::trusted(to_json_string(message)), true, {}, {}, {}};
}

std::string digest_of(const ToolResult& result) {
    ToolResult whole = result;
    if (whole.metadata.absent()) whole.metadata = RawJson::trusted("{}");
    return sha256_hex(to_json(whole));
}

void add_paid_tokens(std::int64_t& total, const Usage& usage) {
    total = saturating_sum(total, saturating_sum(usage.input_tokens, usage.output_tokens));
}

Usage& Usage::operator+=(const Usage& other) {
    input_tokens = saturating_sum(input_tokens, other.input_tokens);
    output_tokens = saturating_sum(output_tokens, other.output_tokens);
    cache_read_tokens = saturating_sum(cache_read_tokens, other.cache_read_tokens);
    cache_write_tokens = saturating_sum(cache_write_tokens, other.cache_write_tokens);
    return *this;
}

}  // namespace rouse
