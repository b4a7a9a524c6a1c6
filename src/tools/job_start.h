#pragma once

// How a job is started whose answer comes later: what the other side is told, and what it may say
// at once.

#include <string>

#include "rouse/tool.h"

namespace rouse {

struct JobCallback {
    std::string base_url;     // ours, without a path
    std::string secret_name;  // of the secret that the other side is to sign with; may be empty

    std::string url() const;
};

// {pendingID, callID, sessionID, tool, input, callbackURL, webhookSecretName?}
std::string describe_job(const ToolCall& call, const JobCallback& callback);

// {externalRef?, estimatedDuration?, output?}; anything else says nothing.
Suspend read_job_started(const std::string& answer);
// Whether it started is not known: it may answer all the same.
Suspend job_not_confirmed();

// The error of a tool that has no session to wait in.
ToolOutcome needs_durable_session(const ToolCall& call);

}  // namespace rouse
