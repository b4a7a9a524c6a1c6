#include <algorithm>

#include "base/digest.h"
#include "base/encoding.h"
#include "base/limits.h"
#include "domain/history.h"
#include "server/api.h"
#include "server/body.h"
#include "server/transcripts.h"

namespace rouse::server {
namespace {

constexpr Milliseconds kStandardLease = std::chrono::minutes(1);
constexpr Milliseconds kLongestLease = std::chrono::hours(24);

Error unknown_pending_id() {
    return {ErrorKind::not_found, "unknown_pending_id",
            "Unknown pending ID: no call waits under it, and none ever did"};
}

// hex, with or without "sha256=", of the raw body.
bool signature_holds(std::string_view given, const std::string& secret, std::string_view body) {
    constexpr std::string_view kPrefix = "sha256=";
    if (given.starts_with(kPrefix)) given.remove_prefix(kPrefix.size());
    std::string lower(given);
    std::ranges::transform(lower, lower.begin(), [](char c) {
        return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return equal_in_constant_time(lower, to_hex(hmac_sha256(secret, body)));
}

std::optional<Milliseconds> read_lease(Body& body) {
    const std::optional<std::int64_t> ms = body.integer("leaseMs");
    if (!ms) return kStandardLease;
    if (*ms >= 1 && *ms <= kLongestLease.count()) return Milliseconds(*ms);
    body.complain("leaseMs", "must be from 1 to a day's milliseconds");
    return std::nullopt;
}

Progress read_progress(Body& body, std::string_view name) {
    Progress progress;
    const RawJson given = body.object(name);
    if (given.absent()) body.complain(name, "is missing; it must be an object");
    Body inner(given.absent() ? "{}" : given.text(), "/" + std::string(name));
    const std::optional<std::int64_t> percent = inner.integer("percent");
    if (percent && (*percent < 0 || *percent > 100)) inner.complain("percent", "is from 0 to 100");
    if (percent) progress.percent = static_cast<std::int32_t>(*percent);
    progress.message = inner.text_or_empty("message");
    if (std::optional<Problem> problem = inner.problem()) {
        body.complain(name, "is not right: " + problem->detail);
    }
    return progress;
}

}  // namespace

// ---- who may settle what --------------------------------------------------------------------

Result<Api::FoundCall> Api::find_call(const Request& request, const PendingId& id) const {
    const Result<SessionId> session = session_of(id);
    if (!session) return unknown_pending_id();
    const Result<std::shared_ptr<const SessionState>> state = find_session(request, *session);
    if (!state && state.error().reason == "unknown_session") return unknown_pending_id();
    if (!state) return state.error();
    FoundCall found;
    found.session = *session;
    if (const PendingCall* call = (*state)->find_pending(id)) {
        found.call = *call;
    } else {
        const bool is_read = request.past_call && request.past_call->id == id;
        Result<std::optional<PendingCall>> past = std::optional<PendingCall>();
        if (is_read) {
            past = request.past_call->call;
        } else {
            past = find_past_call(id);
        }
        if (!past) return past.error();
        if (!*past) return unknown_pending_id();
        found.call = **past;
    }
    found.catalogue = parts_.registry.catalogue();
    found.tool = found.catalogue->find_tool(found.call.tool);
    return found;
}

Result<std::optional<PendingCall>> Api::find_past_call(const PendingId& id) const {
    const Result<SessionId> session = session_of(id);
    if (!session) return unknown_pending_id();
    const Result<std::vector<Record>> log = read_back_to(*parts_.store, *session, id);
    if (!log) return log.error();
    return find_settled_call(*log, id);
}

// A bearer token with enough rights always may. Without one, only the system that was told the id
// may, and if the tool has a secret, only with a signature.
std::optional<Problem> Api::may_settle(Request& request, const PendingId& id) {
    const bool known = request.principal.scope.has_value();
    const Result<FoundCall> found = find_call(request, id);
    if (!found) return to_problem(found.error());
    const bool for_person = found->call.waits_for == WaitsFor::person;
    const Scope needed = for_person ? Scope::operate : Scope::submit;
    if (request.principal.may(needed)) return std::nullopt;
    if (known) {
        return Problem{403, "forbidden", "Forbidden",
                       "this needs a token with the scope " + std::string(to_string(needed))};
    }
    if (!found->call.by_id || for_person) {
        Problem problem{401, "unauthorized", "Unauthorized",
                        "this call is not settled by its id alone: send a bearer token"};
        problem.headers.emplace_back("WWW-Authenticate", "Bearer");
        return problem;
    }
    if (found->call.webhook_secret_env.empty()) return std::nullopt;
    const std::string_view signature = request.header("x-webhook-signature");
    if (signature.empty()) {
        return to_problem(Error(ErrorKind::denied, "missing_signature",
                                "sign the raw body: X-Webhook-Signature: sha256=<HMAC-SHA256>"));
    }
    const std::optional<std::string> secret = parts_.secret(found->call.webhook_secret_env);
    if (secret && !secret->empty() && signature_holds(signature, *secret, request.body)) {
        return std::nullopt;
    }
    return to_problem(
        Error(ErrorKind::denied, "bad_signature",
              "the signature does not fit the body; sign the bytes as they are sent"));
}

// A body that names no call is refused for that, later.
Task<std::optional<Response>> Api::refuse_settling(Request& request, PendingId id) {
    if (id.empty()) co_return std::nullopt;
    std::optional<Problem> problem;
    const bool known = request.principal.scope.has_value();
    const auto seconds = parts_.auth.submissions().refuses(request.remote);
    if (!known && seconds) {
        problem = Problem{429, "rate_limited", "Too many refused submissions",
                          "wait, then send results for calls that wait"};
        problem->headers.emplace_back("Retry-After", std::to_string(*seconds));
        co_return fail(request, *std::move(problem));  // and is not one more refused submission
    }
    Task<bool> read = bring_in_call(request, id);
    const bool was_away = co_await std::move(read);
    if (was_away) problem = parts_.auth.identify(request);
    if (!problem) problem = may_settle(request, id);
    if (!problem) co_return std::nullopt;
    if (!known) parts_.auth.submissions().note(request.remote);
    co_return fail(request, *std::move(problem));
}

Task<Response> Api::settle(Request& request, const PendingId& id, Settlement settlement) {
    Task<Result<Reply>> command =
        parts_.coordinator.settle(id, std::move(settlement), request.note);
    co_return co_await bring(request, id, std::move(command));
}

Task<Response> Api::bring(Request& request, const PendingId& id, Task<Result<Reply>> command) {
    Response response = co_await answer(request, std::move(command));
    if (response.status >= 400 && !request.principal.scope) {
        parts_.auth.submissions().note(request.remote);
    }
    tell_status(request, id, response);
    co_return response;
}

// Whoever is late learns what became of the call.
void Api::tell_status(const Request& request, const PendingId& id, Response& response) {
    if (response.status != 410 && response.status != 409) return;
    const Result<FoundCall> found = find_call(request, id);
    if (!found) return;
    response.body.pop_back();
    response.body += ",\"pendingStatus\":" + to_json_string(to_string(found->call.status)) + "}";
}

Response Api::fail_late(const Request& request, const PendingId& id, const Error& error) {
    Response response = fail(request, error);
    tell_status(request, id, response);
    return response;
}

// ---- settling -------------------------------------------------------------------------------

Task<Response> Api::post_result(Request& request) {
    const PendingId id(pending_id_of(request.body));
    Body body(request.body);
    (void)body.required_text("pendingID");
    std::optional<Response> refused = co_await refuse_settling(request, id);
    if (refused) co_return *std::move(refused);
    std::optional<ToolResult> result = body.tool_result("result");
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    co_return co_await settle(request, id, *std::move(result));
}

Task<Response> Api::post_error(Request& request) {
    const PendingId id(pending_id_of(request.body));
    Body body(request.body);
    (void)body.required_text("pendingID");
    std::optional<Response> refused = co_await refuse_settling(request, id);
    if (refused) co_return *std::move(refused);
    const std::string error = body.required_text("error");
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    Settlement failure = CallFailure{error};
    co_return co_await settle(request, id, std::move(failure));
}

Task<Response> Api::post_webhook(Request& request) {
    const PendingId id(pending_id_of(request.body));
    Body body(request.body);
    (void)body.required_text("pendingID");
    std::optional<Response> refused = co_await refuse_settling(request, id);
    if (refused) co_return *std::move(refused);
    (void)body.text("type");  // some say what they bring
    if (body.has("progress")) {
        const Progress progress = read_progress(body, "progress");
        if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
        Task<Result<Reply>> command = parts_.coordinator.progress(id, progress);
        co_return co_await bring(request, id, std::move(command));
    }
    if (body.has("error")) {
        const std::string error = body.required_text("error");
        if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
        Settlement failure = CallFailure{error};
        co_return co_await settle(request, id, std::move(failure));
    }
    std::optional<ToolResult> result = body.tool_result("result");
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    co_return co_await settle(request, id, *std::move(result));
}

Task<Response> Api::post_plain_webhook(Request& request) {
    const PendingId id(request.path_parameters.at(0));
    std::optional<Response> refused = co_await refuse_settling(request, id);
    if (refused) co_return *std::move(refused);
    const Result<RawJson> output = RawJson::parse(request.body);
    if (!output) {
        co_return fail(request, invalid_request("the body is not JSON: " + output.error().message));
    }
    ToolResult result = text_result(output->text());
    co_return co_await settle(request, id, std::move(result));
}

// What the tool would refuse is not approved: the call waits on for a better input.
void Api::check_input(const FoundCall& found, const RawJson& input, Body& body) {
    if (input.absent() || found.tool == nullptr || !is_open(found.call.status)) return;
    const Result<SchemaCheck> schema = SchemaCheck::compile(found.tool->spec.parameters);
    const Result<void> fits = schema ? schema->check(input) : Result<void>();
    if (fits) return;
    body.complain("input", "does not fit the tool's parameters; the call still waits: " +
                               fits.error().message);
}

Task<Response> Api::decide(Request& request) {
    const PendingId id(request.path_parameters.at(0));
    const Result<FoundCall> found = find_call(request, id);
    if (!found) co_return fail(request, found.error());
    Body body(request.body);
    const std::string given = body.required_text("decision");
    if (given != "approve" && given != "deny") {
        body.complain("decision", "must be approve or deny");
    }
    Decision decision;
    decision.approve = given == "approve";
    decision.input = body.object("input");
    decision.input_digest = body.text_or_empty("input_digest");
    decision.message = body.text_or_empty("message");
    if (decision.approve) check_input(*found, decision.input, body);
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    Task<Result<Reply>> command = parts_.coordinator.decide(id, std::move(decision), request.note);
    co_return co_await answer(request, std::move(command));
}

Task<Response> Api::cancel_pending(Request& request) {
    const PendingId id(request.path_parameters.at(0));
    if (const Result<FoundCall> found = find_call(request, id); !found) {
        co_return fail(request, found.error());
    }
    Settlement cancelled = CallCancelled{};
    co_return co_await settle(request, id, std::move(cancelled));
}

// ---- reading --------------------------------------------------------------------------------

std::string Api::call_json(const Request& request, const SessionId& session,
                           const PendingCall& call, const ToolPart* part) const {
    return async_call_json(session, call, part, viewer(request));
}

Task<Response> Api::get_pending(Request& request) {
    const PendingId id(request.path_parameters.at(0));
    const Result<FoundCall> found = find_call(request, id);
    if (!found) co_return fail(request, found.error());
    const Result<Transcript> said = read_transcript_with(*parts_.store, found->session, {id});
    if (!said) co_return fail(request, said.error());
    JsonObject out;
    out.raw("pending", call_json(request, found->session, found->call, find_part(*said, id)));
    co_return json_response(200, out.done());
}

Task<Response> Api::list_async_tools(Request& request) {
    (void)request;
    const std::shared_ptr<const Catalogue> catalogue = parts_.registry.catalogue();
    std::vector<std::string> items;
    for (const auto& [name, tool] : catalogue->tools) {
        if (tool.settled_by == SettledBy::nobody) continue;
        JsonObject out;
        out.text("id", name).text("description", tool.spec.description).text("kind", tool.kind);
        out.raw("parameters", schema_text(tool.spec.parameters));
        if (!tool.result_schema.absent()) out.raw("resultSchema", tool.result_schema.text());
        if (tool.spec.timeout) out.number("timeout", tool.spec.timeout->count());
        items.push_back(out.done());
    }
    JsonObject out;
    out.raw("tools", json_list(items));
    co_return json_response(200, out.done());
}

Task<Response> Api::recovery_status(Request& request) {
    const BootReport& boot = boot_;
    std::vector<std::string> aside;
    for (const SessionId& id : boot.set_aside) {
        if (!request.principal.sees_task(parts_.store->task_of(id))) continue;
        aside.push_back(to_json_string(id.text()));
    }
    JsonObject out;
    out.text("bootID", boot.boot.text()).number("startedAt", to_epoch_ms(boot.started_at));
    out.number("durationMs", boot.took.count());
    out.number("waiting", static_cast<std::int64_t>(boot.waiting));
    out.number("expired", static_cast<std::int64_t>(boot.expired));
    out.number("interrupted", static_cast<std::int64_t>(boot.interrupted));
    out.number("redriven", static_cast<std::int64_t>(boot.to_drive.size()));
    out.raw("setAside", json_list(aside));
    co_return json_response(200, out.done());
}

// ---- workers --------------------------------------------------------------------------------

Task<Response> Api::claim_any(Request& request) {
    Body body(request.body);
    ClaimRequest claim;
    claim.worker = body.required_text("worker");
    claim.tools = body.texts("tools");
    const std::optional<Milliseconds> lease = read_lease(body);
    const std::int64_t most = body.integer("max").value_or(1);
    if (most < 1 || most > 100) body.complain("max", "must be from 1 to 100");
    if (claim.worker.empty()) body.complain("worker", "must not be empty");
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    const Result<Wait> wait = wait_of(request);
    if (!wait) co_return fail(request, wait.error());
    claim.max = static_cast<std::size_t>(most);
    claim.lease = *lease;
    claim.wait = wait->value_or(Milliseconds(0));
    claim.tasks = request.principal.tasks;
    const Patience patience = patience_of(request, *wait, Request::Look::at_once);
    claim.gone = patience.gone;
    Task<Result<std::vector<PendingId>>> asked = parts_.claims.claim(std::move(claim));
    const Result<std::vector<PendingId>> claimed = co_await on_work(std::move(asked));
    if (!claimed) co_return fail(request, claimed.error());
    Response response = claimed_response(request, *claimed);
    // Nobody waited to the end: with the same key they may wait again.
    if (claimed->empty() && patience.gone.stop_requested()) {
        if (auto problem = parts_.auth.identify(request)) co_return fail(request, *problem);
        co_return response;
    }
    // The calls' inputs may be long, and are shown as they are then anyway.
    std::vector<std::string> ids;
    ids.reserve(claimed->size());
    for (const PendingId& id : *claimed)
        ids.push_back("{\"id\":" + to_json_string(id.text()) + "}");
    std::string kept = "{\"pending\":" + json_list(ids) + "}";
    co_return co_await remember(request, std::move(response), std::move(kept));
}

// As they are by now: an answer that comes again must not promise a lease that is gone.
Response Api::claimed_response(const Request& request, const std::vector<PendingId>& claimed) {
    std::vector<std::string> items;
    for (const PendingId& id : claimed) {
        const Result<FoundCall> found = find_call(request, id);
        if (!found) continue;
        const Result<Transcript> said = read_transcript_with(*parts_.store, found->session, {id});
        if (!said) continue;
        items.push_back(call_json(request, found->session, found->call, find_part(*said, id)));
    }
    JsonObject out;
    out.raw("pending", json_list(items));
    return json_response(200, out.done());
}

std::vector<PendingId> Api::claimed_in(const RawJson& answer) {
    struct Call {
        PendingId id;
        static constexpr auto fields() { return std::tuple(required("id", &Call::id)); }
    };
    struct Calls {
        std::vector<Call> pending;
        static constexpr auto fields() { return std::tuple(required("pending", &Calls::pending)); }
    };
    std::vector<PendingId> claimed;
    const Result<Calls> calls = from_json<Calls>(answer.text(), "an answer to a claim");
    for (const Call& call : calls ? calls->pending : std::vector<Call>())
        claimed.push_back(call.id);
    return claimed;
}

Task<Response> Api::claim_one(Request& request) {
    const PendingId id(request.path_parameters.at(0));
    Body body(request.body);
    std::string worker = body.required_text("worker");
    const std::optional<Milliseconds> lease = read_lease(body);
    if (worker.empty()) body.complain("worker", "must not be empty");
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    const Result<FoundCall> found = find_call(request, id);
    if (!found) co_return fail(request, found.error());
    if (found->call.waits_for != WaitsFor::external || !found->call.local_boot.empty()) {
        co_return fail(
            request, Problem{403, "forbidden", "Forbidden", "the call does not wait for a worker"});
    }
    Task<Result<Reply>> command = parts_.coordinator.claim(id, std::move(worker), *lease);
    const Result<Reply> done = co_await on_work(std::move(command));
    if (!done) co_return fail_late(request, id, done.error());
    co_return co_await get_pending(request);
}

Task<Response> Api::renew_lease(Request& request) {
    const PendingId id(request.path_parameters.at(0));
    Body body(request.body);
    std::string worker = body.required_text("worker");
    const std::optional<Milliseconds> lease = read_lease(body);
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    const Result<FoundCall> found = find_call(request, id);
    if (!found) co_return fail(request, found.error());
    const PendingCall& call = found->call;
    const bool held = call.status == PendingStatus::processing;
    if (is_open(call.status) && (!held || call.worker != worker)) {
        Problem problem = to_problem(Error(ErrorKind::conflict, "lease_held",
                                           "this worker does not hold the call; claim it first"));
        if (!held) problem.title = "Nobody holds the call";
        co_return fail(request, std::move(problem));
    }
    Task<Result<Reply>> command = parts_.coordinator.claim(id, std::move(worker), *lease);
    const Result<Reply> done = co_await on_work(std::move(command));
    if (!done) co_return fail_late(request, id, done.error());
    co_return co_await get_pending(request);
}

Task<Response> Api::release_lease(Request& request) {
    const PendingId id(request.path_parameters.at(0));
    Body body(request.body);
    std::string worker = body.required_text("worker");
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    if (const Result<FoundCall> found = find_call(request, id); !found) {
        co_return fail(request, found.error());
    }
    Task<Result<Reply>> command = parts_.coordinator.release(id, std::move(worker));
    const Result<Reply> done = co_await on_work(std::move(command));
    if (!done) co_return fail_late(request, id, done.error());
    co_return co_await get_pending(request);
}

Task<Response> Api::post_progress(Request& request) {
    const PendingId id(request.path_parameters.at(0));
    Body body(request.body);
    const std::optional<std::string> worker = body.text("worker");
    const Progress progress = read_progress(body, "progress");
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    const Result<FoundCall> found = find_call(request, id);
    if (!found) co_return fail(request, found.error());
    const bool held = found->call.status == PendingStatus::processing;
    if (held && worker && *worker != found->call.worker) {
        co_return fail(request, Error(ErrorKind::conflict, "lease_held",
                                      "another worker holds the call by now"));
    }
    Task<Result<Reply>> command = parts_.coordinator.progress(id, progress);
    Response response = co_await answer(request, std::move(command));
    tell_status(request, id, response);
    co_return response;
}

}  // namespace rouse::server
