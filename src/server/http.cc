#include "server/http.h"

#include <algorithm>

#include "base/json.h"

namespace rouse::server {
namespace {

struct Mapping {
    std::string_view reason;
    int status;
    std::string_view title;
    std::string_view code = {};  // the reason, unless it has another name outside
};

constexpr Mapping kMappings[] = {
    {"unknown_pending_id", 404, "Unknown pending ID"},
    {"unknown_session", 404, "No such session", "not_found"},
    {"unknown_run", 404, "No such run", "not_found"},
    {"invalid_id", 404, "No such thing", "not_found"},
    {"session_gone", 410, "The session was deleted"},
    {"session_damaged", 409, "The session is damaged"},
    {"not_waiting", 410, "Not waiting"},
    {"token_required", 400, "A token is needed"},
    {"invalid_token", 401, "Invalid token"},
    {"token_expired", 410, "The token has expired"},
    {"token_revoked", 410, "The token was revoked"},
    {"token_consumed", 410, "The token was used"},
    {"no_deadline", 409, "The wait has no deadline"},
    {"no_suspended_turn", 409, "Nothing is suspended"},
    {"resume_required", 409, "The session waits for results"},
    {"conflicting_result", 409, "Settled before with another result"},
    {"unknown_pending_tool_call", 409, "No such pending call"},
    {"suspended_session", 409, "The session is suspended"},
    {"input_on_suspended_session", 409, "The session is suspended"},
    {"session_busy", 409, "A run is in progress"},
    {"not_interrupted", 409, "The session is not interrupted"},
    {"not_running", 409, "Nothing is running"},
    {"decision_required", 409, "The call asks for approval"},
    {"digest_mismatch", 409, "Another input than the one approved"},
    {"lease_held", 409, "Another worker holds the call"},
    {"alias_taken", 409, "The alias is taken"},
    {"nothing_to_compact", 409, "Nothing to compact"},
    {"result_validation_failed", 400, "The result does not fit"},
    {"unknown_agent", 400, "No such agent"},
    {"unknown_alias", 404, "No such recipient"},
    {"unknown_message", 404, "No such message"},
    {"unknown_chain", 404, "No such chain", "not_found"},
    {"message_too_long", 413, "Too large", "too_large"},
    {"message_required", 400, "A message is needed", "invalid_request"},
    {"self_message", 400, "A message to itself", "invalid_request"},
    {"inbox_full", 409, "The inbox is full"},
    {"not_stopped", 409, "The chain was not stopped"},
    {"missing_signature", 401, "A signature is needed"},
    {"bad_signature", 401, "The signature is wrong"},
    {"disk_full", 503, "The disk is full", "store_unavailable"},
    {"store_failed", 503, "The store takes nothing more", "store_unavailable"},
    {"store_closed", 503, "The server is going down", "store_unavailable"},
    {"commit_too_large", 413, "Too large", "too_large"},
    {"rate_limited", 429, "Too many requests"},
    {"idempotency_key_reused", 422, "The key was used for another request"},
    {"idempotency_in_progress", 409, "The first request is under way"},
    {"session_not_in_task", 404, "The session is not in that task"},
};

Problem by_kind(const Error& error) {
    switch (error.kind) {
        case ErrorKind::invalid: return {400, "invalid_request", "Invalid request", error.message};
        case ErrorKind::not_found: return {404, "not_found", "Not found", error.message};
        case ErrorKind::conflict:
        case ErrorKind::precondition:
            return {409, std::string(error.reason), "Conflict", error.message};
        case ErrorKind::denied: return {403, "forbidden", "Forbidden", error.message};
        case ErrorKind::unavailable:
        case ErrorKind::timeout:
        case ErrorKind::cancelled:
        case ErrorKind::io: return {503, "store_unavailable", "Not available now", error.message};
        case ErrorKind::corrupt:
        case ErrorKind::internal: break;
    }
    return {500, "internal", "Internal error",
            "something went wrong on our side; the log has the details under this request's id"};
}

}  // namespace

bool Principal::sees_task(const std::string& task) const {
    return tasks.empty() || std::ranges::find(tasks, task) != tasks.end();
}

bool Principal::covers(const std::vector<std::string>& others) const {
    if (tasks.empty()) return true;
    return !others.empty() &&
           std::ranges::all_of(others, [&](const std::string& task) { return sees_task(task); });
}

std::string_view Request::header(std::string_view name) const {
    for (const auto& [key, value] : headers) {
        if (key == name) return value;
    }
    return {};
}

std::optional<std::string> Request::query_value(const std::string& name) const {
    const auto found = query.find(name);
    if (found == query.end()) return std::nullopt;
    return found->second;
}

std::string lower_case(std::string_view text) {
    std::string out(text);
    std::ranges::transform(out, out.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return out;
}

Response json_response(int status, std::string body) {
    Response response;
    response.status = status;
    response.body = std::move(body);
    return response;
}

Problem to_problem(const Error& error) {
    const auto found = std::ranges::find(kMappings, error.reason, &Mapping::reason);
    if (found == std::end(kMappings)) return by_kind(error);
    const std::string_view code = found->code.empty() ? found->reason : found->code;
    return {found->status, std::string(code), std::string(found->title), error.message};
}

Response problem_response(Problem problem, const std::string& request_id) {
    Response response;
    response.status = problem.status;
    response.content_type = "application/problem+json";
    std::string& out = response.body;
    out = "{\"type\":" + to_json_string("urn:rouse:error:" + problem.code);
    out += ",\"title\":" + to_json_string(problem.title);
    out += ",\"status\":" + std::to_string(problem.status);
    out += ",\"detail\":" + to_json_string(problem.detail);
    out += ",\"code\":" + to_json_string(problem.code);
    if (!problem.field.empty()) out += ",\"field\":" + to_json_string(problem.field);
    out += ",\"request_id\":" + to_json_string(request_id);
    out += problem.members + "}";
    response.headers = std::move(problem.headers);
    return response;
}

}  // namespace rouse::server
