#pragma once

// One question to a model, as far as it takes: the conversation mended to what the provider wants,
// and asked again while that may help.

#include <set>
#include <string>

#include "rouse/agent.h"

namespace rouse {

class ModelCaller {
 public:
    ModelCaller(const RetryPolicy& policy, Session* session) : policy_(policy), session_(session) {}

    // The model's error, when asking again would not help or did not.
    Task<Result<ModelResponse>> ask(Model& model, ModelRequest request, Model::OnText on_text);

 private:
    Task<Result<void>> tell_changes(std::vector<std::string> changes);
    // Before the next attempt. The error, when there should be none.
    Task<Result<void>> wait(std::uint32_t failed, const ModelError& error);
    Milliseconds delay_before(std::uint32_t retry) const;

    const RetryPolicy& policy_;
    Session* session_;            // or null
    std::set<std::string> told_;  // changes, in this call of the agent
};

}  // namespace rouse
