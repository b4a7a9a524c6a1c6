#include "client/errors.h"

#include <algorithm>
#include <tuple>

#include "domain/codec.h"

namespace rouse::client {
namespace {

// An error's reason is a literal, so a code from the wire is looked up here.
constexpr std::string_view kCodes[] = {
    "invalid_request",
    "unauthorized",
    "forbidden",
    "not_found",
    "method_not_allowed",
    "too_large",
    "wrong_host",
    "rate_limited",
    "internal",
    "store_unavailable",
    "session_damaged",
    "session_gone",
    "idempotency_key_reused",
    "idempotency_in_progress",
    "alias_taken",
    "session_busy",
    "input_on_suspended_session",
    "not_interrupted",
    "not_running",
    "suspended_session",
    "nothing_to_compact",
    "resume_required",
    "digest_mismatch",
    "decision_required",
    "token_required",
    "invalid_token",
    "token_expired",
    "token_revoked",
    "token_consumed",
    "no_suspended_turn",
    "conflicting_result",
    "unknown_pending_tool_call",
    "unknown_pending_id",
    "not_waiting",
    "result_validation_failed",
    "bad_signature",
    "missing_signature",
    "lease_held",
    "unknown_agent",
    "session_not_in_task",
    "task_exists",
    "unknown_alias",
};

struct ProblemView {
    std::string title;
    std::string detail;
    std::string code;
    std::string field_;
    static constexpr auto fields() {
        using S = ProblemView;
        return std::tuple(field("title", &S::title), field("detail", &S::detail),
                          required("code", &S::code), field("field", &S::field_));
    }
};

ErrorKind kind_of_status(int status) {
    switch (status) {
        case 400:
        case 413:
        case 422: return ErrorKind::invalid;
        case 401:
        case 403:
        case 421: return ErrorKind::denied;
        case 404: return ErrorKind::not_found;
        case 409: return ErrorKind::conflict;
        case 410: return ErrorKind::precondition;
        case 429:
        case 502:
        case 503:
        case 504: return ErrorKind::unavailable;
        default: return ErrorKind::internal;
    }
}

}  // namespace

Error to_error(const HttpResponse& response) {
    const ErrorKind kind = kind_of_status(response.status);
    const Result<RawJson> body = RawJson::parse(response.body);
    const Result<ProblemView> problem =
        body ? from_json<ProblemView>(body->text(), "the problem") : body.error();
    if (!problem) {
        return {kind, "unknown_code",
                "the server answered " + std::to_string(response.status) +
                    " without saying why; is it a Rouse server?"};
    }
    const auto* known = std::ranges::find(kCodes, problem->code);
    std::string message = problem->detail.empty() ? problem->title : problem->detail;
    if (known != std::end(kCodes)) return {kind, *known, std::move(message)};
    return {kind, "unknown_code", std::move(message) + " (" + problem->code + ")"};
}

Error to_error(const Error& transport, const std::string& url) {
    Error error = transport;
    if (error.reason == "connect_failed" || error.reason == "connect_timeout") {
        error.message =
            "no server answers at " + url +
            "; start one with 'rouse serve', or say where it is with --url or ROUSE_URL";
        // That nobody listens is said already.
        if (!transport.message.contains("Couldn't connect")) {
            error.message += " (" + transport.message + ")";
        }
    } else if (may_have_been_sent(error)) {
        error.message = "no answer from " + url +
                        "; what was asked may have been done, look before you ask again (" +
                        transport.message + ")";
    }
    return error;
}

}  // namespace rouse::client
