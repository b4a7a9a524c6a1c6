#include "testing/agent_kit.h"

#include <algorithm>

#include "store/memory/memory_store.h"

namespace rouse::testing {
namespace {

std::string text_in(const RawJson& content) {
    if (const auto text = read_json_string(content.text())) return *text;
    return content.text();
}

std::string outline(const Block& block) {
    if (const auto* text = block.get_if<TextBlock>()) return text->text;
    if (const auto* use = block.get_if<ToolUseBlock>()) return use->name + "#" + use->id.text;
    if (const auto* result = block.get_if<ToolResultBlock>()) {
        return result->tool_use_id.text + (result->is_error ? "!" : "=") + text_in(result->content);
    }
    return "?";
}

struct ItemOutline {
    std::string operator()(const TextDelta&) const { return "text"; }
    std::string operator()(const ToolCallItem& item) const { return "call:" + item.id.text; }
    std::string operator()(const ToolResultItem& item) const {
        const auto* result = std::get_if<ToolResult>(&item.outcome);
        if (result == nullptr) return "pending:" + item.id.text;
        return (result->is_error ? "error:" : "result:") + item.id.text + "=" +
               text_in(result->content);
    }
    std::string operator()(const SuspendedItem&) const { return "suspended"; }
    std::string operator()(const CompletedItem&) const { return "completed"; }
};

}  // namespace

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words)
        text += (text.empty() ? "" : " ") + word;
    return text;
}

std::string outline(const std::vector<Message>& messages) {
    std::string text;
    for (const Message& message : messages) {
        if (!text.empty()) text += " | ";
        text += message.role == Role::assistant ? "a:" : "u:";
        bool first = true;
        for (const Block& block : message.content) {
            text += (first ? "" : ",") + outline(block);
            first = false;
        }
    }
    return text;
}

std::string outline(const std::vector<Item>& items) {
    std::vector<std::string> words;
    for (const Item& item : items)
        words.push_back(std::visit(ItemOutline(), item));
    return joined(words);
}

std::string outline(const Suspension& suspension) {
    std::vector<std::string> words;
    if (!suspension.pending_tool_calls.empty()) words.emplace_back("pending");
    for (const PendingToolCall& call : suspension.pending_tool_calls)
        words.push_back(call.id.text);
    if (!suspension.completed_tool_calls.empty()) words.emplace_back("done");
    for (const CompletedToolCall& call : suspension.completed_tool_calls) {
        words.push_back(call.id.text + (call.result.is_error ? "!" : "=") +
                        text_in(call.result.content));
    }
    if (!suspension.approved_tool_calls.empty()) words.emplace_back("approved");
    for (const ApprovedToolCall& call : suspension.approved_tool_calls)
        words.push_back(call.id.text);
    return joined(words);
}

std::vector<Message> history_of(Session& session) {
    const auto history = wait_for(session.history());
    if (!history) return {user_message("no history: " + history.error().message)};
    return {history->begin(), history->end()};
}

std::optional<Suspension> suspension_of(Session& session) {
    auto loaded = wait_for(session.load_suspension());
    EXPECT_TRUE(loaded) << loaded.error().message;
    return loaded ? *std::move(loaded) : std::nullopt;
}

std::string snapshot(Session& session) {
    std::string text;
    for (const Message& message : history_of(session))
        text += to_json(message) + "\n";
    const std::optional<Suspension> suspension = suspension_of(session);
    return text + (suspension ? to_json(*suspension) : "not suspended");
}

Hooks watching(const CallLog& log) {
    Hooks hooks;
    for (std::size_t i = 0; i < std::size(kEnumNames<HookPoint>); ++i) {
        hooks.add(static_cast<HookPoint>(i), [log](HookContext& context) {
            const std::string call = context.call_id.text.empty() ? "" : ":" + context.call_id.text;
            log->push_back(std::string(to_string(context.point)) + call);
            return HookVerdict::go_on();
        });
    }
    return hooks;
}

std::string keeping_name(const ::testing::TestParamInfo<Keeping>& test) {
    switch (test.param) {
        case Keeping::nowhere: return "WithoutSession";
        case Keeping::memory: return "MemorySession";
        case Keeping::durable: return "DurableSession";
    }
    return "";
}

KeptTest::KeptTest() {
    if (GetParam() == Keeping::memory) session_ = make_memory_session(SessionId("sess_test"));
    if (GetParam() != Keeping::durable) return;
    auto sessions = DurableSessions::open(env_, std::make_shared<MemoryStore>(clock_));
    EXPECT_TRUE(sessions);
    sessions_ = *std::move(sessions);
    session_ = *sessions_->create();
}

std::string unmatched_calls(const std::vector<Message>& messages) {
    for (std::size_t i = 0; i < messages.size(); ++i) {
        std::vector<std::string> open;
        for (const Block& block : messages[i].content) {
            if (const auto* use = block.get_if<ToolUseBlock>()) open.push_back(use->id.text);
        }
        if (open.empty()) continue;
        if (i + 1 == messages.size()) return open.front() + " ends the conversation";
        for (const Block& block : messages[i + 1].content) {
            const auto* result = block.get_if<ToolResultBlock>();
            if (result == nullptr) continue;
            if (std::erase(open, result->tool_use_id.text) != 1) {
                return "a result for " + result->tool_use_id.text + " that nobody asked for";
            }
        }
        if (!open.empty()) return open.front() + " has no result";
    }
    return {};
}

Counted answering(std::string name, std::string answer, ToolAnnotations annotations) {
    Counted counted;
    const auto calls = counted.calls;
    ToolSpec spec{std::move(name), "answers", {}, annotations};
    counted.tool = make_tool(std::move(spec), [calls, answer](const ToolCall&) {
        ++*calls;
        return ToolOutcome::text(answer);
    });
    return counted;
}

Counted suspending(std::string name, std::string prompt, RawJson metadata) {
    Counted counted;
    const auto calls = counted.calls;
    ToolSpec spec{std::move(name), "suspends"};
    counted.tool = make_tool(std::move(spec), [calls, prompt, metadata](const ToolCall&) {
        ++*calls;
        return ToolOutcome::suspended(prompt, metadata);
    });
    return counted;
}

}  // namespace rouse::testing
