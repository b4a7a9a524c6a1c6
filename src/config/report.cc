#include "config/report.h"

#include "config/print.h"
#include "config/value.h"

namespace rouse {

std::string to_text(const std::vector<ConfigMistake>& mistakes, std::string_view what) {
    std::string out;
    for (const ConfigMistake& mistake : mistakes) {
        out += config::visible(mistake.file);
        if (mistake.line > 0) {
            out += ':' + std::to_string(mistake.line) + ':' + std::to_string(mistake.column);
        }
        out.append(": ").append(what).append(": ");
        if (!mistake.key.empty()) out += mistake.key + ": ";
        out += mistake.message + '\n';
    }
    return out;
}

ConfigReport check_config(const ConfigSources& sources) {
    return report_config(sources, load_config(sources));
}

ConfigReport report_config(const ConfigSources& sources, const ConfigResult& result) {
    const std::string name =
        sources.file_text ? config::visible(sources.file_name) : "no configuration file";
    if (result.ok()) {
        // A comment, so that all of it is a configuration again.
        return {true, print_config(result.config, result.origins) + "\n# " + name + ": valid\n"};
    }
    const std::size_t count = result.mistakes.size();
    return {false, to_text(result.mistakes) + name + ": " + std::to_string(count) +
                       (count == 1 ? " mistake\n" : " mistakes\n")};
}

}  // namespace rouse
