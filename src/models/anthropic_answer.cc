#include "models/anthropic_answer.h"

#include <algorithm>

#include "models/model_errors.h"
#include "models/request_json.h"

namespace rouse {
namespace anthropic {
namespace {

struct WireUsage {
    std::optional<std::int64_t> input_tokens;
    std::optional<std::int64_t> output_tokens;
    std::optional<std::int64_t> cache_creation_input_tokens;
    std::optional<std::int64_t> cache_read_input_tokens;
    static constexpr auto fields() {
        using S = WireUsage;
        return std::tuple(field("input_tokens", &S::input_tokens),
                          field("output_tokens", &S::output_tokens),
                          field("cache_creation_input_tokens", &S::cache_creation_input_tokens),
                          field("cache_read_input_tokens", &S::cache_read_input_tokens));
    }

    // Later events repeat some of the numbers and leave out others.
    void put_into(Usage& usage) const {
        if (input_tokens) usage.input_tokens = *input_tokens;
        if (output_tokens) usage.output_tokens = *output_tokens;
        if (cache_read_input_tokens) usage.cache_read_tokens = *cache_read_input_tokens;
        if (cache_creation_input_tokens) usage.cache_write_tokens = *cache_creation_input_tokens;
    }
};

struct WireMessage {
    std::string model;
    Content content;
    std::optional<std::string> stop_reason;
    WireUsage usage;
    static constexpr auto fields() {
        using S = WireMessage;
        return std::tuple(required("model", &S::model), required("content", &S::content),
                          field("stop_reason", &S::stop_reason), field("usage", &S::usage));
    }
};

struct Typed {
    std::string type;
    static constexpr auto fields() { return std::tuple(required("type", &Typed::type)); }
};
struct MessageStart {
    WireMessage message;
    static constexpr auto fields() {
        return std::tuple(required("message", &MessageStart::message));
    }
};
struct BlockStart {
    std::int64_t index = 0;
    RawJson block;
    static constexpr auto fields() {
        return std::tuple(required("index", &BlockStart::index),
                          required("content_block", &BlockStart::block));
    }
};
struct Delta {
    std::string type;
    std::string text;
    std::string thinking;
    std::string signature;
    std::string partial_json;
    RawJson citation;
    static constexpr auto fields() {
        using S = Delta;
        return std::tuple(required("type", &S::type), field("text", &S::text),
                          field("thinking", &S::thinking), field("signature", &S::signature),
                          field("partial_json", &S::partial_json), field("citation", &S::citation));
    }
};
struct BlockDelta {
    std::int64_t index = 0;
    RawJson delta;
    static constexpr auto fields() {
        return std::tuple(required("index", &BlockDelta::index),
                          required("delta", &BlockDelta::delta));
    }
};
struct BlockStop {
    std::int64_t index = 0;
    static constexpr auto fields() { return std::tuple(required("index", &BlockStop::index)); }
};
struct Ending {
    std::optional<std::string> stop_reason;
    static constexpr auto fields() {
        return std::tuple(field("stop_reason", &Ending::stop_reason));
    }
};
struct MessageDelta {
    Ending delta;
    std::optional<WireUsage> usage;
    static constexpr auto fields() {
        return std::tuple(required("delta", &MessageDelta::delta),
                          field("usage", &MessageDelta::usage));
    }
};

template <class Event>
Result<Event> read_event(const RawJson& json, std::string_view name) {
    Result<Event> event = from_json<Event>(json.text(), name);
    if (event) return event;
    return stream_broken("a " + std::string(name) + " event is not one");
}

}  // namespace
}  // namespace anthropic

Result<ModelResponse> read_anthropic_message(const RawJson& body) {
    Result<anthropic::WireMessage> message =
        from_json<anthropic::WireMessage>(body.text(), "the message");
    if (!message || !message->stop_reason) return stream_broken("what came is no message");
    ModelResponse response;
    response.content = std::move(message->content);
    response.model = std::move(message->model);
    response.stop_reason = *std::move(message->stop_reason);
    response.cut = response.stop_reason != "tool_use";
    message->usage.put_into(response.usage);
    return response;
}

// ---- a block --------------------------------------------------------------------------------

Result<GrowingBlock> GrowingBlock::start(const RawJson& block) {
    std::vector<JsonMember> members;
    if (!split_object(block.text(), members)) return stream_broken("a block is no object");
    GrowingBlock growing;
    for (const JsonMember& one : members)
        growing.members_.push_back({std::string(one.key), std::string(one.value), {}});
    return growing;
}

GrowingBlock::Member& GrowingBlock::member(std::string_view key) {
    const auto found = std::ranges::find(members_, key, &Member::key);
    if (found != members_.end()) return *found;
    return members_.emplace_back(Member{std::string(key), {}, {}});
}

void GrowingBlock::append_text(std::string_view key, std::string_view more) {
    Member& text = member(key);
    if (!text.text) text.text = read_json_string(text.value).value_or("");
    text.text->append(more);
}

void GrowingBlock::set_text(std::string_view key, std::string text) {
    member(key).text = std::move(text);
}

void GrowingBlock::append_input(std::string_view json) {
    if (!input_) input_.emplace();
    input_->append(json);
}

void GrowingBlock::append_item(std::string_view key, const RawJson& item) {
    std::string& list = member(key).value;
    if (!list.starts_with('[')) list = "[]";
    list.pop_back();
    if (list.size() > 1) list += ',';
    list += item.text() + ']';
}

Result<Block> GrowingBlock::finish() const {
    JsonMembers members;
    for (const Member& one : members_)
        members.raw(one.key, one.text ? to_json_string(*one.text) : one.value);
    // An input that came in one piece stands in the block's first event.
    if (input_ && !input_->empty()) members.raw("input", tool_input(*input_).text());
    Block block;
    if (!block.read_json(members.done())) return stream_broken("a block is malformed");
    return block;
}

// ---- the stream -----------------------------------------------------------------------------

Result<void> AnthropicStream::take(const SseEvent& event, std::string& text) {
    const Result<RawJson> json = RawJson::parse(event.data);
    if (!json) return stream_broken("an event is not JSON");
    const Result<anthropic::Typed> typed = from_json<anthropic::Typed>(json->text(), "the event");
    if (!typed) return stream_broken("an event has no type");
    const std::string& type = typed->type;
    if (type == "error") return judge_error(read_provider_error(json->text()));
    if (stopped_) return {};
    if (type == "message_start") return start_message(*json);
    if (type == "content_block_start") return start_block(*json, text);
    if (type == "content_block_delta") return grow_block(*json, text);
    if (type == "content_block_stop") return close_block(*json);
    if (type == "message_delta") return end_message(*json);
    if (type == "message_stop") stopped_ = true;
    return {};  // ping, and what later versions bring
}

Result<void> AnthropicStream::start_message(const RawJson& event) {
    const Result<anthropic::MessageStart> start =
        anthropic::read_event<anthropic::MessageStart>(event, "message_start");
    if (!start) return start.error();
    if (std::exchange(started_, true)) return stream_broken("it began twice");
    response_.model = start->message.model;
    start->message.usage.put_into(response_.usage);
    return {};
}

Result<void> AnthropicStream::start_block(const RawJson& event, std::string& text) {
    const Result<anthropic::BlockStart> start =
        anthropic::read_event<anthropic::BlockStart>(event, "content_block_start");
    if (!start) return start.error();
    Result<GrowingBlock> block = GrowingBlock::start(start->block);
    if (!block) return block.error();
    const bool is_new = blocks_.emplace(start->index, *std::move(block)).second;
    if (!started_ || !is_new) return stream_broken("a block began out of order");
    struct Text {
        std::string type;
        std::string text;
        static constexpr auto fields() {
            return std::tuple(required("type", &Text::type), field("text", &Text::text));
        }
    };
    const Result<Text> said = from_json<Text>(start->block.text(), "the block");
    if (said && said->type == "text") text += said->text;
    return {};
}

Result<void> AnthropicStream::grow_block(const RawJson& event, std::string& text) {
    const Result<anthropic::BlockDelta> grown =
        anthropic::read_event<anthropic::BlockDelta>(event, "content_block_delta");
    if (!grown) return grown.error();
    const auto block = blocks_.find(grown->index);
    if (block == blocks_.end() || block->second.closed) {
        return stream_broken("a delta belongs to no open block");
    }
    const Result<anthropic::Delta> delta =
        anthropic::read_event<anthropic::Delta>(grown->delta, "content_block_delta");
    if (!delta) return delta.error();
    GrowingBlock& growing = block->second;
    if (delta->type == "text_delta") {
        growing.append_text("text", delta->text);
        text += delta->text;
    } else if (delta->type == "thinking_delta") {
        growing.append_text("thinking", delta->thinking);
    } else if (delta->type == "signature_delta") {
        growing.set_text("signature", delta->signature);
    } else if (delta->type == "input_json_delta") {
        growing.append_input(delta->partial_json);
    } else if (delta->type == "citations_delta" && !delta->citation.absent()) {
        growing.append_item("citations", delta->citation);
    }
    return {};
}

Result<void> AnthropicStream::close_block(const RawJson& event) {
    const Result<anthropic::BlockStop> stop =
        anthropic::read_event<anthropic::BlockStop>(event, "content_block_stop");
    if (!stop) return stop.error();
    const auto block = blocks_.find(stop->index);
    if (block == blocks_.end() || std::exchange(block->second.closed, true)) {
        return stream_broken("a block ended that was not open");
    }
    return {};
}

Result<void> AnthropicStream::end_message(const RawJson& event) {
    const Result<anthropic::MessageDelta> ending =
        anthropic::read_event<anthropic::MessageDelta>(event, "message_delta");
    if (!ending) return ending.error();
    if (ending->delta.stop_reason) response_.stop_reason = *ending->delta.stop_reason;
    if (ending->usage) ending->usage->put_into(response_.usage);
    return {};
}

Result<ModelResponse> AnthropicStream::finish() {
    if (!started_ || !stopped_ || response_.stop_reason.empty()) {
        return stream_broken("it ended without its last event");
    }
    response_.cut = response_.stop_reason != "tool_use";
    response_.content.clear();
    for (const auto& [index, growing] : blocks_) {
        if (!growing.closed) return stream_broken("a block did not end");
        Result<Block> block = growing.finish();
        if (!block) return block.error();
        response_.content.push_back(*std::move(block));
    }
    return response_;
}

}  // namespace rouse
