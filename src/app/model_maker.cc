#include "app/model_maker.h"

#include "rouse/scripted_model.h"

namespace rouse::app {
namespace {

using Kind = ModelConfig::Provider;

Error mistake(std::string message) {
    return {ErrorKind::invalid, "invalid_config", std::move(message)};
}

void put_common(ProviderOptions& options, const AgentConfig& agent, const std::string& base_url) {
    options.model = agent.model.name;
    options.base_url = agent.base_url.empty() ? base_url : agent.base_url;
    for (const auto& [name, value] : agent.headers)
        options.headers.emplace_back(name, value.value.reveal());
    options.temperature = agent.temperature;
    options.max_tokens = agent.max_tokens;
    if (!agent.request.empty()) options.request = RawJson::trusted(agent.request);
    options.stream = agent.stream;
    options.request_timeout = agent.request_timeout;
    options.idle_timeout = agent.idle_timeout;
    options.ca_file = agent.ca_file;
}

}  // namespace

ModelMaker::ModelMaker(const Config& config, HttpClient& http, Variables variables)
    : anthropic_(config.anthropic),
      openai_(config.openai),
      http_(http),
      variables_(std::move(variables)) {
    for (const AgentConfig& agent : config.agents)
        agents_.emplace(agent.name, agent);
}

// Servers of one's own often want no key.
Result<Secret> ModelMaker::key_of(const AgentConfig& agent, const SecretText& common,
                                  const std::string& usual, bool own_server) const {
    for (const SecretText* named : {&agent.api_key, &common}) {
        if (!named->absent()) return named->value;
    }
    if (const auto value = variables_(usual); value && !value->empty()) return Secret(*value);
    if (own_server) return Secret();
    return mistake("there is no key: set " + usual +
                   " in the server's environment, or name another variable with api_key_env");
}

Result<std::shared_ptr<Model>> ModelMaker::make_anthropic(const AgentConfig& agent) const {
    AnthropicOptions options;
    put_common(options, agent, anthropic_.base_url);
    Result<Secret> key =
        key_of(agent, anthropic_.api_key, "ANTHROPIC_API_KEY", !options.base_url.empty());
    if (!key) return key.error();
    options.api_key = *std::move(key);
    options.version = agent.anthropic_version;
    options.betas = agent.anthropic_beta;
    return make_anthropic_model(std::move(options), http_);
}

Result<std::shared_ptr<Model>> ModelMaker::make_openai(const AgentConfig& agent) const {
    OpenAiOptions options;
    put_common(options, agent, openai_.base_url);
    Result<Secret> key =
        key_of(agent, openai_.api_key, "OPENAI_API_KEY", !options.base_url.empty());
    if (!key) return key.error();
    options.api_key = *std::move(key);
    const bool responses = agent.api == AgentConfig::Api::responses;
    options.api = responses ? OpenAiApi::responses : OpenAiApi::chat;
    return make_openai_model(std::move(options), http_);
}

Result<std::shared_ptr<Model>> ModelMaker::make(const AgentConfig& agent) const {
    switch (agent.model.provider) {
        case Kind::anthropic: return make_anthropic(agent);
        case Kind::openai: return make_openai(agent);
        case Kind::scripted: break;
    }
    Result<std::shared_ptr<ScriptedModel>> model = ScriptedModel::from_file(agent.model.name);
    if (!model) return mistake(model.error().message);
    return *std::move(model);
}

Result<std::shared_ptr<Model>> ModelMaker::for_agent(const AgentConfig& agent) const {
    Result<std::shared_ptr<Model>> model = make(agent);
    if (!model) return mistake("agent " + agent.name + ": " + model.error().message);
    return model;
}

Result<std::shared_ptr<Model>> ModelMaker::for_session(const std::string& agent,
                                                       const Provider& provider) const {
    AgentConfig wanted;
    const bool known = provider.type == "anthropic" || provider.type == "openai";
    if (!known || provider.model.empty()) {
        return Error(ErrorKind::invalid, "unknown_model",
                     "a session can name a model of \"anthropic\" or \"openai\", not \"" +
                         provider.type + ":" + provider.model + "\"");
    }
    const Kind kind = provider.type == "anthropic" ? Kind::anthropic : Kind::openai;
    const auto found = agents_.find(agent);
    if (found != agents_.end() && found->second.model.provider == kind) wanted = found->second;
    wanted.model = {kind, provider.model};
    Result<std::shared_ptr<Model>> model = make(wanted);
    if (model) return model;
    return Error(ErrorKind::invalid, "unknown_model", model.error().message);
}

}  // namespace rouse::app
