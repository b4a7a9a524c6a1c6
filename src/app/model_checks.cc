#include "app/model_checks.h"

#include "config/value.h"
#include "rouse/scripted_model.h"

namespace rouse::app {
namespace {

using Provider = ModelConfig::Provider;

bool is_set(const std::map<std::string, std::string>& environment, const std::string& name) {
    const auto variable = environment.find(name);
    return variable != environment.end() && !variable->second.empty();
}

// The variable that holds the key of an agent's model where nothing else is said; empty: it has a
// key, or needs none.
std::string missing_key(const Config& config, const AgentConfig& agent,
                        const std::map<std::string, std::string>& environment) {
    const bool anthropic = agent.model.provider == Provider::anthropic;
    const SecretText& common = anthropic ? config.anthropic.api_key : config.openai.api_key;
    const std::string& url = anthropic ? config.anthropic.base_url : config.openai.base_url;
    const bool own_server = !agent.base_url.empty() || !url.empty();
    const std::string usual = anthropic ? "ANTHROPIC_API_KEY" : "OPENAI_API_KEY";
    const bool named = !agent.api_key.absent() || !common.absent();
    return named || own_server || is_set(environment, usual) ? "" : usual;
}

}  // namespace

ModelChecks check_models(const ConfigResult& result,
                         const std::map<std::string, std::string>& environment) {
    ModelChecks checks;
    for (std::size_t i = 0; i < result.config.agents.size(); ++i) {
        const AgentConfig& agent = result.config.agents[i];
        const std::string key = "agents[" + std::to_string(i) + "].model";
        const auto origin = result.origins.find(key);
        if (agent.model.name.empty() || origin == result.origins.end()) continue;
        const ConfigPlace& place = origin->second;
        const auto say = [&](std::vector<ConfigMistake>& where, const std::string& what) {
            where.push_back({place.file, place.line, place.column, key, config::visible(what)});
        };
        if (agent.model.provider == Provider::scripted) {
            const auto script = ScriptedModel::from_file(agent.model.name);
            if (!script) say(checks.mistakes, script.error().message);
        } else if (const auto variable = missing_key(result.config, agent, environment);
                   !variable.empty()) {
            say(checks.warnings, "the environment variable " + variable +
                                     " is not set here; the server does not start without it");
        }
    }
    return checks;
}

}  // namespace rouse::app
