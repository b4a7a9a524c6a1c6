#include "agent/repair.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace rouse {
namespace {

constexpr std::string_view kNoResult = "No result was recorded for this call.";
constexpr std::string_view kEmpty = "(empty message)";
constexpr std::string_view kBeginning = "(The beginning of the conversation is not here.)";

bool is_blank(std::string_view text) {
    return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

bool is_result(const Block& block) {
    return block.get_if<ToolResultBlock>() != nullptr;
}

std::string type_of(const UnknownBlock& block) {
    struct Typed {
        std::string type;
        static constexpr auto fields() { return std::tuple(required("type", &Typed::type)); }
    };
    const Result<Typed> typed = from_json<Typed>(block.object.text(), "a block");
    return typed ? typed->type : std::string();
}

// The characters that every provider takes in the id of a call.
std::string plain_id(std::string id) {
    for (char& c : id) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || c == '_' || c == '-';
        if (!plain) c = '_';
    }
    return id;
}

class Repairer {
 public:
    explicit Repairer(const ConversationRules& rules) : rules_(rules) {}

    void take(Message message) {
        ++number_;
        drop_blocks(message);
        if (message.role == Role::assistant) {
            close_calls();
            if (message.content.empty()) return note("it was empty and was left out");
            rename_calls(message);
            add(std::move(message));
            return;
        }
        if (message.role == Role::user) match_results(message);
        if (message.content.empty()) {
            // Of results alone that nobody asked for; what a person sent stays a message.
            if (only_results_) return;
            message.content = text_content(std::string(kEmpty));
            note("it was empty, and is sent as " + std::string(kEmpty));
        }
        add(std::move(message));
    }

    Repaired done() {
        close_calls();
        return {std::move(messages_), std::move(changes_)};
    }

 private:
    void note(const std::string& what) {
        changes_.push_back("message " + std::to_string(number_) + ": " + what);
    }

    void drop_blocks(Message& message) {
        only_results_ = !message.content.empty() && std::ranges::all_of(message.content, is_result);
        std::erase_if(message.content, [&](const Block& block) {
            if (const auto* text = block.get_if<TextBlock>()) {
                if (!is_blank(text->text)) return false;
                note("an empty text was left out");
                return true;
            }
            const auto* unknown = block.get_if<UnknownBlock>();
            if (unknown == nullptr) return false;
            const std::string type = type_of(*unknown);
            if (rules_.takes_block && rules_.takes_block(type)) return false;
            note("a " + type + " block was left out: this provider does not know it");
            return true;
        });
    }

    // The calls of an assistant message are open until the message behind it.
    struct OpenCall {
        CallId id;       // as the message has it
        CallId sent_as;  // as the provider gets it
    };

    void rename_calls(Message& message) {
        for (Block& block : message.content) {
            const auto* use = block.get_if<ToolUseBlock>();
            if (use == nullptr) continue;
            const std::string stem = plain_id(use->id.text);
            std::string id = stem;
            for (int n = 2; rules_.unique_calls && seen_.contains(id); ++n)
                id = stem + "_" + std::to_string(n);
            seen_.insert(id);
            open_.push_back({use->id, CallId{id}});
            if (id == use->id.text) continue;
            note("call " + use->id.text + " is sent as " + id + ": its id was used or is no id");
            ToolUseBlock renamed = *use;
            renamed.id.text = std::move(id);
            block = Block(std::move(renamed));
        }
    }

    // Results belong to the calls right before them, each once, in front of everything else.
    void match_results(Message& message) {
        Content results;
        Content others;
        for (Block& block : message.content) {
            const auto* result = block.get_if<ToolResultBlock>();
            if (result == nullptr) {
                others.push_back(std::move(block));
                continue;
            }
            const auto call = std::ranges::find(open_, result->tool_use_id, &OpenCall::id);
            if (call == open_.end()) {
                note("a result for call " + result->tool_use_id.text +
                     ", which nobody made, was left out");
                continue;
            }
            ToolResultBlock matched = *result;
            matched.tool_use_id = call->sent_as;
            open_.erase(call);
            results.emplace_back(std::move(matched));
        }
        for (const OpenCall& call : open_) {
            note("call " + call.id.text + " had no result and got an error");
            results.emplace_back(missing_result(call));
        }
        open_.clear();
        message.content = std::move(results);
        std::ranges::move(others, std::back_inserter(message.content));
    }

    static ToolResultBlock missing_result(const OpenCall& call) {
        return {call.sent_as, RawJson::trusted(to_json_string(kNoResult)), true, {}};
    }

    // Behind calls that no message of the user's follows.
    void close_calls() {
        if (open_.empty()) return;
        Message results;
        for (const OpenCall& call : open_) {
            note("call " + call.id.text + " before it had no result and got an error");
            results.content.emplace_back(missing_result(call));
        }
        open_.clear();
        add(std::move(results));
    }

    void add(Message message) {
        if (rules_.alternates && message.role == Role::assistant && messages_.empty()) {
            note("the conversation began with the assistant: a message was put before it");
            messages_.push_back({Role::user, text_content(std::string(kBeginning)), {}});
        }
        const bool joins = rules_.alternates && !messages_.empty() &&
                           messages_.back().role == message.role && message.role != Role::system;
        if (!joins) return messages_.push_back(std::move(message));
        note("it was joined with the one before it, of the same role");
        std::ranges::move(message.content, std::back_inserter(messages_.back().content));
    }

    const ConversationRules& rules_;
    std::vector<Message> messages_;
    std::vector<std::string> changes_;
    std::vector<OpenCall> open_;
    std::set<std::string> seen_;
    std::size_t number_ = 0;
    bool only_results_ = false;  // the message at hand
};

}  // namespace

std::optional<Repaired> repair_conversation(std::span<const Message> history,
                                            std::span<const Message> turn,
                                            const ConversationRules& rules) {
    if (!rules.checked) return std::nullopt;
    Repairer repairer(rules);
    for (const std::span<const Message> part : {history, turn}) {
        for (const Message& message : part)
            repairer.take(message);
    }
    Repaired repaired = repairer.done();
    if (repaired.changes.empty()) return std::nullopt;
    return repaired;
}

}  // namespace rouse
