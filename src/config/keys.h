#pragma once

// The one table of all keys. Reading the file, the environment and the command line, printing and
// the documentation all go through it, so that none can know a key that another does not.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/reading.h"
#include "config/value.h"

namespace rouse::config {

// Kinds of tools as a set; keys of other sections are for all.
using KindSet = unsigned;
constexpr KindSet kind_bit(ToolConfig::Kind kind) {
    return 1U << static_cast<unsigned>(kind);
}
constexpr KindSet kAllKinds = ~0U;
std::string kind_names(KindSet kinds);  // "http or exec"

template <class Section>
struct Key {
    std::string_view name;
    std::string_view meaning;  // for people, one line
    std::string expects;
    // False after having complained.
    std::function<bool(Section&, const Value&, Reading&)> set;
    std::function<Value(const std::string&, const ConfigPlace&)> from_text;
    std::function<std::optional<std::string>(const Section&)> print;  // TOML; nothing: not set
    bool is_required = false;
    KindSet kinds = kAllKinds;
    std::string_view default_words = {};  // where the default is no constant

    Key required() && {
        is_required = true;
        return std::move(*this);
    }
    Key only(KindSet some) && {
        kinds = some;
        return std::move(*this);
    }
    Key by_default(std::string_view words) && {
        default_words = words;
        return std::move(*this);
    }
};

template <class Section>
struct SectionTable {
    std::string_view name;
    std::string_view meaning;
    std::vector<Key<Section>> keys;  // in the order in which they are documented and printed
};

template <class Section>
const SectionTable<Section>& table_of();
template <>
const SectionTable<ServerConfig>& table_of();
template <>
const SectionTable<StoreConfig>& table_of();
template <>
const SectionTable<RecoveryConfig>& table_of();
template <>
const SectionTable<LimitsConfig>& table_of();
template <>
const SectionTable<RetentionConfig>& table_of();
template <>
const SectionTable<AnthropicConfig>& table_of();
template <>
const SectionTable<OpenAiConfig>& table_of();
template <>
const SectionTable<AgentConfig>& table_of();
template <>
const SectionTable<ToolConfig>& table_of();
template <>
const SectionTable<WebhookConfig>& table_of();

// Calls visit(section) for each section of which there is one.
template <class AnyConfig, class Visitor>
void visit_sections(AnyConfig& config, Visitor&& visit) {
    visit(config.server);
    visit(config.store);
    visit(config.recovery);
    visit(config.limits);
    visit(config.retention);
    visit(config.anthropic);
    visit(config.openai);
}

// Calls visit(items) for each section that is a list: [[agents]] …
template <class AnyConfig, class Visitor>
void visit_lists(AnyConfig& config, Visitor&& visit) {
    visit(config.agents);
    visit(config.tools);
    visit(config.webhooks);
}

// What a key's kinds must overlap with to be one of this section.
template <class Section>
KindSet kinds_of(const Section&) {
    return kAllKinds;
}
inline KindSet kinds_of(const ToolConfig& tool) {
    return kind_bit(tool.kind);
}

// ("server", "listen") → "ROUSE_SERVER_LISTEN"
std::string variable_name(std::string_view section, std::string_view key);

}  // namespace rouse::config
