#include "config/load.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <type_traits>

#include "base/nearest.h"
#include "config/checks.h"
#include "config/choices.h"
#include "config/keys.h"
#include "config/toml_reader.h"

namespace rouse {
namespace {

using namespace config;  // NOLINT: this file is that room's front

template <class Section>
constexpr bool kIsList =
    std::is_same_v<Section, AgentConfig> || std::is_same_v<Section, ToolConfig> ||
    std::is_same_v<Section, WebhookConfig>;

template <class Section>
std::string bracketed() {
    const std::string name(table_of<Section>().name);
    return kIsList<Section> ? "[[" + name + "]]" : '[' + name + ']';
}

template <class Section>
const Key<Section>* find_key(std::string_view name) {
    const auto& keys = table_of<Section>().keys;
    const auto key = std::ranges::find(keys, name, &Key<Section>::name);
    return key == keys.end() ? nullptr : &*key;
}

// Those that a section of one of these kinds can have.
template <class Section>
std::vector<std::string> key_names(KindSet kinds) {
    std::vector<std::string> names;
    for (const Key<Section>& key : table_of<Section>().keys) {
        if ((key.kinds & kinds) != 0) names.emplace_back(key.name);
    }
    return names;
}

// What a tool can be, by what its table says; all kinds if that is nothing useful.
template <class Section>
KindSet written_kinds(const Table& table) {
    if constexpr (std::is_same_v<Section, ToolConfig>) {
        const Value* kind = find(table, "kind");
        const auto* text = kind != nullptr ? kind->as<std::string>() : nullptr;
        const auto& names = kChoices<ToolConfig::Kind>;
        for (std::size_t i = 0; text != nullptr && i < names.size(); ++i) {
            if (names[i] == *text) return kind_bit(static_cast<ToolConfig::Kind>(i));
        }
    }
    return kAllKinds;
}

// "[server]" if it has a key of this name, for keys that stand in the wrong place.
std::optional<std::string> section_with(std::string_view key) {
    std::optional<std::string> found;
    Config config;
    visit_sections(config, [&]<class Section>(const Section&) {
        if (!found && find_key<Section>(key) != nullptr) found = bracketed<Section>();
    });
    return found;
}

template <class Section>
void read_key(const Key<Section>& key, Section& section, const Value& value, Reading reading) {
    reading.origins[reading.key] = value.place;
    if (!key.set(section, value, reading)) return;
    if (key.is_required && !key.print(section)) reading.mistake(value.place, "must not be empty");
}

template <class Section>
void read_unknown(const Member& member, KindSet kinds, Reading reading) {
    const auto elsewhere = section_with(member.key);
    if (elsewhere && !kIsList<Section>) {
        reading.mistake(member.place, "unknown key; it belongs to " + *elsewhere);
        return;
    }
    reading.mistake(member.place,
                    "unknown key" + suggestion(member.key, key_names<Section>(kinds)));
}

// The table of one section, or of one item of a list, which begins at `place`.
template <class Section>
void read_section(Section& section, const Table& table, const ConfigPlace& place,
                  const Reading& reading) {
    const KindSet kinds = written_kinds<Section>(table);
    for (const Member& member : table) {
        const Key<Section>* key = find_key<Section>(member.key);
        Reading at_key = reading.at('.' + visible(member.key));
        if (key == nullptr) {
            read_unknown<Section>(member, kinds, at_key);
        } else if ((key->kinds & kinds) == 0) {
            at_key.mistake(member.place, "is a key of " + kind_names(key->kinds) +
                                             " tools; this one is " + kind_names(kinds));
        } else {
            read_key(*key, section, member.value, at_key);
        }
    }
    for (const Key<Section>& key : table_of<Section>().keys) {
        const bool is_for_all = (kinds & ~key.kinds) == 0;
        if (!key.is_required || !is_for_all || find(table, key.name) != nullptr) continue;
        std::string message = "is missing: " + bracketed<Section>() + " needs it";
        if (key.kinds != kAllKinds) message += " when kind is \"" + kind_names(kinds) + '"';
        reading.at('.' + std::string(key.name)).mistake(place, message);
    }
}

template <class Section>
void read_file_section(Section& section, const Table& root, const Reading& reading) {
    const std::string name(table_of<Section>().name);
    const Value* value = find(root, name);
    if (value == nullptr) return;
    Reading at_section = reading.at(name);
    if (const auto* table = value->as<Table>()) {
        read_section(section, *table, value->place, at_section);
    } else {
        at_section.mistake(value->place,
                           "stands in the file once, as a table: write [" + name + ']');
    }
}

template <class Section>
void read_list(std::vector<Section>& items, const Section& defaults, const Table& root,
               const Reading& reading) {
    const std::string name(table_of<Section>().name);
    const Value* value = find(root, name);
    if (value == nullptr) return;
    Reading at_list = reading.at(name);
    const auto* array = value->as<Array>();
    if (array == nullptr) {
        at_list.mistake(value->place, "is a list: write [[" + name + "]]");
        return;
    }
    for (const Value& item : *array) {
        Reading at_item = at_list.at('[' + std::to_string(items.size()) + ']');
        Section& section = items.emplace_back(defaults);
        if (const auto* table = item.as<Table>()) {
            read_section(section, *table, item.place, at_item);
        } else {
            at_item.unexpected(item, "a table: write [[" + name + "]]");
        }
    }
}

void read_unknown_sections(const Table& root, const Reading& reading) {
    std::vector<std::string> names;
    Config config;
    visit_sections(config, [&]<class Section>(const Section&) {
        names.emplace_back(table_of<Section>().name);
    });
    visit_lists(config, [&]<class Section>(const std::vector<Section>&) {
        names.emplace_back(table_of<Section>().name);
    });
    for (const Member& member : root) {
        if (is_one_of(member.key, names)) continue;
        const bool is_section = member.value.as<Table>() || member.value.as<Array>();
        const auto elsewhere = section_with(member.key);
        Reading at_member = reading.at(visible(member.key));
        if (!is_section && elsewhere) {
            at_member.mistake(member.place, "unknown key; it belongs to " + *elsewhere);
        } else {
            at_member.mistake(member.place, "unknown section" + suggestion(member.key, names));
        }
    }
}

void read_environment(Config& config, const Reading& reading) {
    visit_sections(config, [&]<class Section>(Section& section) {
        const std::string name(table_of<Section>().name);
        for (const Key<Section>& key : table_of<Section>().keys) {
            const auto variable = reading.environment.find(variable_name(name, key.name));
            if (variable == reading.environment.end()) continue;
            const Value value = key.from_text(variable->second, {variable->first});
            read_key(key, section, value, reading.at(name + '.' + std::string(key.name)));
        }
    });
}

// Variables that Kubernetes makes for a service called, say, rouse-server.
bool is_service_link(std::string_view rest) {
    const bool port = rest == "PORT" || (rest.starts_with("PORT_") &&
                                         (rest.contains("_TCP") || rest.contains("_UDP")));
    return port || rest == "SERVICE_HOST" || rest == "SERVICE_PORT" ||
           rest.starts_with("SERVICE_PORT_");
}

template <class Section>
void check_variables(const Reading& reading) {
    const std::string prefix = variable_name(table_of<Section>().name, "");
    std::vector<std::string> known;
    for (const Key<Section>& key : table_of<Section>().keys)
        known.push_back(variable_name(table_of<Section>().name, key.name).substr(prefix.size()));
    for (auto variable = reading.environment.lower_bound(prefix);
         variable != reading.environment.end() && variable->first.starts_with(prefix); ++variable) {
        const std::string& name = variable->first;
        const std::string_view rest = std::string_view(name).substr(prefix.size());
        if (is_one_of(rest, known) || reading.named_variables.contains(name) ||
            is_service_link(rest)) {
            continue;
        }
        const auto meant = nearest(rest, known);
        Reading(reading).mistake(
            {name}, "unknown variable" + (meant ? ", did you mean \"" + prefix + *meant + "\"?"
                                                : suggestion(rest, known)));
    }
}

template <class Section>
bool read_flag(Section& section, std::string_view key_text, const std::string& text,
               const Reading& reading) {
    const std::string name(table_of<Section>().name);
    if (!key_text.starts_with(name + '.')) return false;
    const Key<Section>* key = find_key<Section>(key_text.substr(name.size() + 1));
    if (key == nullptr) return false;
    const Value value = key->from_text(text, {std::string(kCommandLine)});
    read_key(*key, section, value, reading.at(key_text));
    return true;
}

void read_flags(Config& config, const ConfigSources& sources, const Reading& reading) {
    for (const auto& [key, text] : sources.flags) {
        bool found = false;
        std::vector<std::string> known;
        visit_sections(config, [&]<class Section>(Section& section) {
            found = found || read_flag(section, key, text, reading);
            for (const Key<Section>& k : table_of<Section>().keys) {
                known.push_back(std::string(table_of<Section>().name) + '.' + std::string(k.name));
            }
        });
        if (found) continue;
        const auto meant = nearest(key, known);
        reading.at(visible(key))
            .mistake(
                {std::string(kCommandLine)},
                "unknown key" + (meant ? ", did you mean \"" + *meant + "\"?" : std::string()));
    }
}

void find_data_directory(StoreConfig& store, const Reading& reading) {
    if (!store.path.empty()) return;
    if (const auto given = reading.origins.find("store.path"); given != reading.origins.end()) {
        const bool is_known = std::ranges::find(reading.mistakes, "store.path",
                                                &ConfigMistake::key) != reading.mistakes.end();
        if (!is_known) reading.at("store.path").mistake(given->second, "must not be empty");
        return;
    }
    const auto value_of = [&](const char* name) {
        const auto variable = reading.environment.find(name);
        return variable == reading.environment.end() ? std::string() : variable->second;
    };
    // The XDG specification has relative paths ignored.
    if (const std::string data = value_of("XDG_DATA_HOME"); data.starts_with('/')) {
        store.path = data + "/rouse";
    } else if (const std::string home = value_of("HOME"); !home.empty()) {
        store.path = home + "/.local/share/rouse";
    } else {
        reading.at("store.path")
            .mistake({"environment"},
                     "is missing: without HOME and XDG_DATA_HOME there is no default");
    }
}

// A call that its turn stands still for must not take as long as one from outside.
void find_timeouts(Config& config, const ConfigOrigins& origins) {
    for (std::size_t i = 0; i < config.tools.size(); ++i) {
        ToolConfig& tool = config.tools[i];
        if (origins.contains("tools[" + std::to_string(i) + "].timeout")) continue;
        const bool waits =
            tool.kind == ToolConfig::Kind::external || tool.async || tool.detach_after.has_value();
        tool.timeout = waits ? config.limits.call_timeout : config.limits.tool_time;
    }
}

void read_lists(Config& config, const Table& root, const Reading& reading) {
    AgentConfig agent;
    agent.max_iterations = config.limits.model_iterations;
    agent.time_limit = config.limits.turn_time;
    agent.run_tokens = config.limits.run_tokens;
    agent.session_tokens = config.limits.session_tokens;
    read_list(config.agents, agent, root, reading);
    read_list(config.tools, {}, root, reading);
    read_list(config.webhooks, {}, root, reading);
}

Table read_file(const ConfigSources& sources, Reading& reading) {
    if (!sources.file_text) return {};
    auto root = read_toml(*sources.file_text, sources.file_name);
    if (root) return *std::move(root);
    reading.mistake(root.error().place, root.error().message);
    return {};
}

void sort_by_place(std::vector<ConfigMistake>& mistakes) {
    std::ranges::stable_sort(mistakes, {}, [](const ConfigMistake& mistake) {
        const int source = mistake.line > 0 ? 0 : mistake.file == kCommandLine ? 2 : 1;
        return std::tuple(source, mistake.line, mistake.column);
    });
}

}  // namespace

std::map<std::string, std::string> process_environment() {
    std::map<std::string, std::string> variables;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        const std::size_t equals = text.find('=');
        if (equals == std::string_view::npos) continue;
        variables.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
    return variables;
}

ConfigResult load_config(const ConfigSources& sources) {
    ConfigResult result;
    std::set<std::string> named_variables;
    Reading reading{sources.environment, result.mistakes, result.origins, named_variables};
    const Table root = read_file(sources, reading);
    visit_sections(result.config,
                   [&](auto& section) { read_file_section(section, root, reading); });
    read_unknown_sections(root, reading);
    read_environment(result.config, reading);
    read_flags(result.config, sources, reading);
    read_lists(result.config, root, reading);
    find_data_directory(result.config.store, reading);
    find_timeouts(result.config, result.origins);
    check_whole(result.config, reading);
    visit_sections(result.config,
                   [&]<class Section>(const Section&) { check_variables<Section>(reading); });
    sort_by_place(result.mistakes);
    return result;
}

}  // namespace rouse
