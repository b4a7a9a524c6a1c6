#include <ranges>

#include "server/api.h"

namespace rouse::server {

const std::vector<Api::Route>& Api::routes() {
    using enum Access;
    static const std::vector<Route> kRoutes = {
        {"POST", "/v1/sessions", submit, "Make a session, and start a run if a message is given",
         &Api::create_session},
        {"GET", "/v1/sessions", read, "List sessions", &Api::list_sessions,
         "status task_id agent alias external_id parent suspended limit cursor"},
        {"GET", "/v1/sessions/{id}", read, "One session", &Api::get_session},
        {"PATCH", "/v1/sessions/{id}", operate, "Change title, alias or metadata",
         &Api::patch_session},
        {"DELETE", "/v1/sessions/{id}", operate, "Cancel what is open and remove the session",
         &Api::delete_session},
        {"POST", "/v1/sessions/{id}/messages", submit, "Send a message", &Api::post_message},
        {"POST", "/v1/sessions/{id}/resume", submit, "Give results for the open wait's calls",
         &Api::resume_session},
        {"POST", "/v1/sessions/{id}/resume-token", operate, "A new token for the open wait",
         &Api::rotate_token},
        {"POST", "/v1/sessions/{id}/continue", operate,
         "Go on from the last durable step after an interruption", &Api::continue_session},
        {"POST", "/v1/sessions/{id}/cancel", operate, "Cancel the open run", &Api::cancel_session},
        {"POST", "/v1/sessions/{id}/extend", operate, "Move the open wait's deadline",
         &Api::extend_session},
        {"POST", "/v1/sessions/{id}/fork", operate, "A session of its own with the same past",
         &Api::fork_session},
        {"POST", "/v1/sessions/{id}/compact", operate, "Put a summary in place of what was said",
         &Api::compact_session},
        {"GET", "/v1/sessions/{id}/messages", read, "The conversation", &Api::get_messages,
         "limit cursor"},
        {"GET", "/v1/sessions/{id}/log", read, "The records of the log", &Api::get_log,
         "from_seq limit"},
        {"GET", "/v1/sessions/{id}/status", read, "The status, in three vocabularies",
         &Api::get_status},
        {"GET", "/v1/sessions/{id}/explain", read, "Why the session is as it is",
         &Api::get_explain},
        {"GET", "/v1/sessions/{id}/events", read, "Events of one session (SSE)",
         &Api::get_session_events, "from_seq"},
        {"GET", "/v1/events", read, "Events of all sessions (SSE)", &Api::get_events},
        {"GET", "/v1/waits", read, "Open waits, earliest deadline first", &Api::list_waits,
         "kind task_id agent limit cursor"},
        {"GET", "/v1/sessions/{id}/inbox", read, "What other agents wrote to this one",
         &Api::get_inbox, "limit cursor"},
        {"POST", "/v1/broadcast", submit, "Write to agents", &Api::post_broadcast},
        {"GET", "/v1/aliases", read, "Who can be written to", &Api::list_aliases,
         "task_id limit cursor"},
        {"POST", "/v1/chains/{id}/continue", operate, "Let a stopped chain of messages go on",
         &Api::continue_chain},
        {"POST", "/v1/pending/{pending_id}/decision", operate,
         "Approve or deny a call that asks for approval", &Api::decide},

        {"POST", "/async-tool/result", or_pending_id, "The result of a pending call",
         &Api::post_result},
        {"POST", "/async-tool/error", or_pending_id, "A pending call failed", &Api::post_error},
        {"POST", "/async-tool/webhook", or_pending_id, "Result, error or progress, signed",
         &Api::post_webhook},
        {"POST", "/async-tool/webhook/{pending_id}", or_pending_id,
         "Any JSON as the result of a pending call", &Api::post_plain_webhook},
        {"GET", "/async-tool/pending", read, "Pending calls", &Api::list_pending,
         "sessionID status tool limit cursor"},
        {"GET", "/async-tool/pending/{pending_id}", read, "One pending call", &Api::get_pending},
        {"DELETE", "/async-tool/pending/{pending_id}", operate, "Cancel a pending call",
         &Api::cancel_pending},
        {"POST", "/async-tool/claim", submit, "Lease calls to a worker", &Api::claim_any},
        {"POST", "/async-tool/pending/{pending_id}/claim", submit, "Lease one call",
         &Api::claim_one},
        {"POST", "/async-tool/pending/{pending_id}/renew", submit, "Renew a lease",
         &Api::renew_lease},
        {"POST", "/async-tool/pending/{pending_id}/release", submit, "Give a lease back",
         &Api::release_lease},
        {"POST", "/async-tool/pending/{pending_id}/progress", submit, "Report progress",
         &Api::post_progress},
        {"GET", "/async-tool/tools", read, "Tools whose calls wait", &Api::list_async_tools},
        {"GET", "/async-tool/recovery/status", read, "What the last boot found",
         &Api::recovery_status},

        {"GET", "/v1/agents", read, "Agents of the configuration", &Api::list_agents,
         "limit cursor"},
        {"GET", "/v1/tools", read, "Tools of the configuration", &Api::list_tools, "limit cursor"},
        {"GET", "/v1/models", read, "Models of the configuration", &Api::list_models,
         "limit cursor"},
        {"POST", "/v1/tasks", submit, "Make a task", &Api::create_task},
        {"GET", "/v1/tasks", read, "List tasks", &Api::list_tasks, "limit cursor"},
        {"GET", "/v1/tasks/{id}", read, "One task with its sessions", &Api::get_task},
        {"PATCH", "/v1/tasks/{id}", submit, "Change a task", &Api::patch_task},
        {"GET", "/v1/tasks/{id}/sessions/{session_id}/status", read,
         "The status of a session of a task", &Api::get_task_session_status},
        {"POST", "/v1/tokens", admin, "Make an API token; shown once", &Api::create_api_token},
        {"GET", "/v1/tokens", admin, "List API tokens", &Api::list_api_tokens, "limit cursor"},
        {"DELETE", "/v1/tokens/{id}", admin, "Revoke an API token", &Api::revoke_api_token},
        {"GET", "/v1/webhooks/dead", admin, "Webhooks that were given up", &Api::list_dead_webhooks,
         "limit cursor"},
        {"POST", "/v1/webhooks/dead/{id}/retry", admin, "Try a dead webhook again",
         &Api::retry_dead_webhook},

        {"GET", "/healthz", open, "The process is up", &Api::healthz},
        {"GET", "/readyz", open, "Recovery is done and the store accepts", &Api::readyz},
        {"GET", "/metrics", read, "For Prometheus", &Api::get_metrics},
        {"GET", "/openapi.json", read, "This API", &Api::get_openapi},
    };
    return kRoutes;
}

// Whatever is posted may be waited for.
std::vector<std::string> Api::Route::query_names() const {
    std::vector<std::string> names;
    if (method == "POST") names.emplace_back("wait");
    for (const auto& name : std::views::split(query, ' ')) {
        if (!name.empty()) names.emplace_back(name.begin(), name.end());
    }
    return names;
}

}  // namespace rouse::server
