#include "config/print.h"

#include <map>
#include <string_view>

#include "config/keys.h"

namespace rouse {
namespace {

using namespace config;  // NOLINT: this file is that room's front

std::string origin_text(const ConfigPlace& place) {
    const std::string where = place.file == kCommandLine ? "the command line" : visible(place.file);
    return place.line == 0 ? where : where + ':' + std::to_string(place.line);
}

template <class Section>
void print_keys(std::string& out, const Section& section, const std::string& path,
                const ConfigOrigins& origins) {
    for (const Key<Section>& key : table_of<Section>().keys) {
        if ((key.kinds & kinds_of(section)) == 0) continue;
        const std::optional<std::string> value = key.print(section);
        if (!value) continue;
        out += std::string(key.name) + " = " + *value;
        const auto origin = origins.find(path + '.' + std::string(key.name));
        if (origin != origins.end()) out += "  # from " + origin_text(origin->second);
        out += '\n';
    }
}

// Within a cell of a table. What is no Markdown yet has its < and > escaped as well.
std::string cell(std::string_view text, std::string_view escaped = "|") {
    std::string out;
    for (const char c : text) {
        if (escaped.contains(c)) out += '\\';
        out += c;
    }
    return out;
}

template <class Section>
std::string default_text(const Key<Section>& key) {
    if (key.is_required) return "required";
    if (!key.default_words.empty()) return cell(key.default_words);
    const std::optional<std::string> value = key.print(Section());
    return value ? '`' + cell(*value) + '`' : "none";
}

template <class Section>
void print_reference(std::string& out, std::string_view open, std::string_view close) {
    const SectionTable<Section>& table = table_of<Section>();
    out += "\n### `" + std::string(open) + std::string(table.name) + std::string(close) + "`\n\n";
    out += std::string(table.meaning) + "\n\n";
    out += "| key | value | default | meaning |\n| --- | --- | --- | --- |\n";
    for (const Key<Section>& key : table.keys) {
        const std::string kinds = key.kinds == kAllKinds ? "" : kind_names(key.kinds);
        out += "| `" + std::string(key.name) + '`' + (kinds.empty() ? "" : " (" + kinds + ')');
        out += " | " + cell(key.expects, "|<>") + " | " + default_text(key) + " | " +
               cell(key.meaning);
        out += " |\n";
    }
}

// The same keys for any configuration.
std::map<std::string, std::string> values_of(const Config& config) {
    std::map<std::string, std::string> values;
    visit_sections(config, [&]<class Section>(const Section& section) {
        for (const Key<Section>& key : table_of<Section>().keys) {
            const std::string name = std::string(table_of<Section>().name) + '.';
            values[name + std::string(key.name)] = key.print(section).value_or("");
        }
    });
    visit_lists(config, [&]<class Section>(const std::vector<Section>& items) {
        std::string& text = values[std::string(table_of<Section>().name)];
        for (const Section& item : items) {
            text += '\n';
            print_keys(text, item, {}, {});
        }
    });
    return values;
}

}  // namespace

std::string print_config(const Config& config, const ConfigOrigins& origins) {
    std::string out;
    visit_sections(config, [&]<class Section>(const Section& section) {
        const std::string name(table_of<Section>().name);
        out += (out.empty() ? "[" : "\n[") + name + "]\n";
        print_keys(out, section, name, origins);
    });
    visit_lists(config, [&]<class Section>(const std::vector<Section>& items) {
        const std::string name(table_of<Section>().name);
        for (std::size_t i = 0; i < items.size(); ++i) {
            out += "\n[[" + name + "]]\n";
            print_keys(out, items[i], name + '[' + std::to_string(i) + ']', origins);
        }
    });
    return out;
}

std::vector<std::string> changed_keys(const Config& was, const Config& now) {
    const std::map<std::string, std::string> before = values_of(was);
    std::vector<std::string> changed;
    for (const auto& [key, value] : values_of(now)) {
        const auto old = before.find(key);
        if (old == before.end() || old->second != value) changed.push_back(key);
    }
    return changed;
}

std::string print_config_reference() {
    std::string out;
    const Config config;
    visit_sections(config,
                   [&]<class Section>(const Section&) { print_reference<Section>(out, "[", "]"); });
    visit_lists(config, [&]<class Section>(const std::vector<Section>&) {
        print_reference<Section>(out, "[[", "]]");
    });
    return out;
}

}  // namespace rouse
