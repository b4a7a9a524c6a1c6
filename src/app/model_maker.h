#pragma once

// From configuration to models: of agents, and of sessions that name one themselves.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "config/config.h"
#include "domain/record.h"
#include "net/http_client.h"
#include "rouse/models.h"

namespace rouse::app {

// The value of an environment variable.
using Variables = std::function<std::optional<std::string>(const std::string&)>;

class ModelMaker final {
 public:
    // `http` outlives the models.
    ModelMaker(const Config& config, HttpClient& http, Variables variables);

    // invalid  invalid_config: a script that cannot be read, a key that is not there
    Result<std::shared_ptr<Model>> for_agent(const AgentConfig& agent) const;
    // With the agent's settings, where it has a model of the same provider.
    //   invalid  unknown_model: only models of providers, and only with a key
    Result<std::shared_ptr<Model>> for_session(const std::string& agent,
                                               const Provider& provider) const;

 private:
    Result<std::shared_ptr<Model>> make(const AgentConfig& agent) const;
    Result<std::shared_ptr<Model>> make_anthropic(const AgentConfig& agent) const;
    Result<std::shared_ptr<Model>> make_openai(const AgentConfig& agent) const;
    Result<Secret> key_of(const AgentConfig& agent, const SecretText& common,
                          const std::string& usual, bool own_server) const;

    AnthropicConfig anthropic_;
    OpenAiConfig openai_;
    std::map<std::string, AgentConfig> agents_;
    HttpClient& http_;
    Variables variables_;
};

}  // namespace rouse::app
