#include "server/api.h"

#include <algorithm>

#include "base/digest.h"
#include "base/limits.h"
#include "base/nearest.h"
#include "domain/fold.h"
#include "server/body.h"
#include "server/transcripts.h"

namespace rouse::server {
namespace {

// {name} takes one segment. Nothing: another path.
std::optional<std::vector<std::string>> match(std::string_view pattern, std::string_view path) {
    std::vector<std::string> parameters;
    while (!pattern.empty() && !path.empty()) {
        if (pattern.front() == '{') {
            const std::size_t end = path.find('/');
            const std::string_view segment = path.substr(0, end);
            if (segment.empty()) return std::nullopt;
            parameters.emplace_back(segment);
            pattern.remove_prefix(pattern.find('}') + 1);
            path.remove_prefix(segment.size());
        } else if (pattern.front() == path.front()) {
            pattern.remove_prefix(1);
            path.remove_prefix(1);
        } else {
            return std::nullopt;
        }
    }
    if (!pattern.empty() || !path.empty()) return std::nullopt;
    return parameters;
}

constexpr std::string_view kSessionPath = "/v1/sessions/";

// Whose keys these are. Those who come without a token are strangers to one another: each has the
// call that it speaks of.
std::string key_owner(const Request& request) {
    return request.principal.scope ? request.principal.id : pending_id_of(request.body);
}

RunReport without_token(RunReport report) {
    if (report.suspension) report.suspension->resume_token.clear();
    return report;
}

}  // namespace

std::string Api::new_request_id() {
    return "req_" + ids_.random_text(10);
}

Response Api::fail(const Request& request, Problem problem) {
    if (problem.status >= 500) {
        parts_.env.log.error("request.failed", {{"request", request.id},
                                                {"path", request.path},
                                                {"code", problem.code},
                                                {"detail", problem.detail}});
    }
    return problem_response(std::move(problem), request.id);
}

Response Api::fail(const Request& request, const Error& error) {
    Problem problem = to_problem(error);
    if (problem.status == 500) {
        parts_.env.log.error(
            "request.internal",
            {{"request", request.id}, {"reason", error.reason}, {"error", error.message}});
    }
    if (error.reason == "not_waiting" || error.reason == "conflicting_result" ||
        error.reason == "token_consumed") {
        parts_.metrics.duplicate_refused();
    }
    return fail(request, std::move(problem));
}

Response Api::refuse(Problem problem, const std::string& request_id) {
    Response response = problem_response(std::move(problem), request_id);
    response.close = true;
    return response;
}

Task<Response> Api::handle(Request request) {
    const std::string origin(request.header("origin"));
    Response response = co_await find_route(request);
    response.known = request.principal.scope.has_value();
    if (!parts_.auth.is_cors_origin(origin)) co_return response;
    response.headers.emplace_back("Access-Control-Allow-Origin", origin);
    response.headers.emplace_back("Vary", "Origin");
    response.headers.emplace_back("Access-Control-Expose-Headers",
                                  "Location, X-Request-Id, Idempotency-Replayed, Retry-After");
    co_return response;
}

Response Api::answer_preflight(const std::string& methods) const {
    Response response;
    response.status = 204;
    response.headers = {{"Access-Control-Allow-Methods", methods},
                        {"Access-Control-Allow-Headers",
                         "Authorization, Content-Type, Accept, Idempotency-Key, Last-Event-ID"},
                        {"Access-Control-Max-Age", "600"}};
    return response;
}

Task<Response> Api::find_route(Request& request) {
    if (std::optional<Problem> problem = parts_.auth.check_origin(request)) {
        co_return fail(request, *std::move(problem));
    }
    std::string allow;
    for (const Route& route : routes()) {
        std::optional<std::vector<std::string>> parameters = match(route.pattern, request.path);
        if (!parameters) continue;
        if (route.method == request.method) {
            request.path_parameters = *std::move(parameters);
            co_return co_await dispatch(route, request);
        }
        allow += (allow.empty() ? "" : ", ") + std::string(route.method);
    }
    if (allow.empty()) {
        co_return fail(request, Problem{404, "not_found", "Not found",
                                        "there is nothing at " + request.path +
                                            "; GET /openapi.json lists what there is"});
    }
    const bool preflight = request.method == "OPTIONS" &&
                           !request.header("access-control-request-method").empty() &&
                           parts_.auth.is_cors_origin(request.header("origin"));
    if (preflight) co_return answer_preflight(allow);
    Problem problem{405, "method_not_allowed", "Method not allowed", "use " + allow};
    problem.headers.emplace_back("Allow", allow);
    co_return fail(request, std::move(problem));
}

std::optional<Problem> Api::check_access(const Route& route, const Request& request) const {
    Scope needed = Scope::read;
    switch (route.access) {
        case Access::open:
        case Access::or_pending_id: return std::nullopt;  // the handler knows more
        case Access::read: needed = Scope::read; break;
        case Access::submit: needed = Scope::submit; break;
        case Access::operate: needed = Scope::operate; break;
        case Access::admin: needed = Scope::admin; break;
    }
    if (request.principal.may(needed)) return std::nullopt;
    if (!request.principal.scope) {
        Problem problem{401, "unauthorized", "Unauthorized",
                        "send the header Authorization: Bearer <token>; the first start wrote a "
                        "token to the file `token` in the data directory"};
        problem.headers.emplace_back("WWW-Authenticate", "Bearer");
        return problem;
    }
    return Problem{403, "forbidden", "Forbidden",
                   "this needs a token with the scope " + std::string(to_string(needed))};
}

// A filter that is misspelt would find everything. Those who call back from outside may have more
// in their addresses than we know.
std::optional<Problem> Api::check_query(const Route& route, const Request& request) {
    if (request.query.empty()) return std::nullopt;
    if (route.access == Access::open || route.access == Access::or_pending_id) return std::nullopt;
    const std::vector<std::string> known = route.query_names();
    for (const auto& [name, value] : request.query) {
        if (std::ranges::find(known, name) != known.end()) continue;
        std::string text = "there is no query parameter '" + name + "' here";
        if (const auto meant = nearest(name, known)) text += ", did you mean '" + *meant + "'?";
        return invalid_request(std::move(text));
    }
    return std::nullopt;
}

// A page of another site can send a form, but not JSON.
std::optional<Problem> Api::check_content_type(const Route& route, const Request& request) const {
    if (request.body.empty() || route.access == Access::or_pending_id) return std::nullopt;
    std::string_view type = request.header("content-type");
    type = type.substr(0, type.find(';'));  // parameters say nothing
    type = type.substr(0, type.find_last_not_of(" \t") + 1);
    if (lower_case(type) == "application/json") return std::nullopt;
    return invalid_request("send the body as application/json");
}

Records Api::note_of(const Request& request, int status, std::string answer, std::string location) {
    if (!request.note) return {};
    RequestAnswered answered;
    answered.key = request.note->key;
    answered.body_digest = request.note->body_digest;
    answered.status = status;
    answered.location = std::move(location);
    answered.answer = RawJson::trusted(std::move(answer));
    return {to_record(answered)};
}

Task<Response> Api::remember(Request& request, Response response, std::string kept) {
    Records note = note_of(request, response.status, std::move(kept));
    if (note.empty()) co_return response;
    Task<Result<void>> appended = parts_.system.append_all(std::move(note));
    const Result<void> there = co_await on_work(std::move(appended));
    if (!there) co_return fail(request, there.error());
    co_return response;
}

Api::FirstAnswer Api::find_answer(const Route& route, Request& request) {
    const std::string_view key = request.header("idempotency-key");
    if (key.empty() || request.method != "POST") return {};
    if (key.size() > 255)
        return {{}, invalid_request("an Idempotency-Key has up to 255 characters")};
    RequestNote note;
    note.key = sha256_hex(key_owner(request) + "\n" + std::string(route.pattern) + "\n" +
                          request.path + "\n" + std::string(key));
    note.body_digest = sha256_hex(request.body);
    if (under_way_->keys.contains(note.key)) {
        return {{},
                to_problem(Error(ErrorKind::conflict, "idempotency_in_progress",
                                 "the first request with this key is not answered yet"))};
    }
    const std::optional<AnsweredRow> row =
        parts_.system.ask([&](const SystemState& state) -> std::optional<AnsweredRow> {
            const auto found = state.answered.find(note.key);
            if (found == state.answered.end()) return std::nullopt;
            return found->second;
        });
    if (!row || parts_.env.clock.now() - row->at > limits::kAnswersKept) {
        request.note = std::move(note);
        return {};
    }
    if (row->request.body_digest != note.body_digest) {
        return {{},
                to_problem(Error(ErrorKind::conflict, "idempotency_key_reused",
                                 "the key was used with another body; choose a new one"))};
    }
    return {row->request, {}};
}

// The first answer again. What it shows of a session and of a run is what holds by now, and a
// secret is not shown twice. If the session is gone, so is the answer: that refusal is no replay.
Task<Response> Api::replay(const Route& route, Request& request, RequestAnswered first) {
    const Result<Wait> wait = first.run_id.empty() ? Wait() : wait_of(request);
    if (!wait) co_return fail(request, wait.error());
    Done done;
    done.reply = {first.status, first.answer.text(), first.location, first.session_id,
                  first.run_id, first.last_seq,      first.queued};
    if (*wait) {
        const Patience patience = patience_of(request, *wait);
        Task<Result<SharedReport>> waiting = wait_for_outcome(
            parts_.driver, *parts_.store, asked_run(done.reply), **wait, patience.gone);
        const Result<SharedReport> report = co_await on_work(std::move(waiting));
        if (!report) co_return fail(request, report.error());
        if (*report) done.report = std::make_shared<const RunReport>(without_token(**report));
    }
    Response response;
    if (first.location.starts_with(kSessionPath)) {
        const SessionId id(first.location.substr(kSessionPath.size()));
        response =
            session_response(request, status_of(request, done), id, first.run_id, done.report);
    } else if (route.handler == &Api::claim_any) {
        response = claimed_response(request, claimed_in(first.answer));
    } else {
        response = render(request, std::move(done));
    }
    if (response.status < 400) response.headers.emplace_back("Idempotency-Replayed", "true");
    co_return response;
}

Task<Response> Api::dispatch(const Route& route, Request& request) {
    const auto began = parts_.env.clock.monotonic();
    struct Counted {
        std::shared_ptr<UnderWay> among;
        explicit Counted(std::shared_ptr<UnderWay> all) : among(std::move(all)) {
            ++among->requests;
        }
        Counted(const Counted&) = delete;
        Counted& operator=(const Counted&) = delete;
        ~Counted() { --among->requests; }
    };
    const Counted counted(under_way_);
    Response response = co_await call(route, request);
    parts_.metrics.request(request.method, response.status, parts_.env.clock.monotonic() - began);
    if (parts_.env.log.takes(LogLevel::debug)) {
        parts_.env.log.debug("request", {{"request", request.id},
                                         {"method", request.method},
                                         {"path", request.path},
                                         {"status", response.status}});
    }
    co_return response;
}

Task<Response> Api::call(const Route& route, Request& request) {
    if (route.access != Access::open) {
        if (std::optional<Problem> problem = parts_.auth.identify(request)) {
            co_return fail(request, *std::move(problem));
        }
    }
    if (std::optional<Problem> problem = check_access(route, request)) {
        co_return fail(request, *std::move(problem));
    }
    if (std::optional<Problem> problem = check_query(route, request)) {
        co_return fail(request, *std::move(problem));
    }
    if (std::optional<Problem> problem = check_content_type(route, request)) {
        co_return fail(request, *std::move(problem));
    }
    FirstAnswer first = find_answer(route, request);
    if (first.problem) co_return fail(request, *std::move(first.problem));
    if (first.answer) {
        co_return co_await replay(route, request, *std::move(first.answer));
    }
    struct KeyTaken {
        std::shared_ptr<UnderWay> among;
        std::string key;
        ~KeyTaken() { among->keys.erase(key); }
    };
    std::optional<KeyTaken> taken;
    if (request.note) {
        under_way_->keys.insert(request.note->key);
        taken.emplace(under_way_, request.note->key);
    }
    // Whoever is nobody is looked at first.
    if (route.access != Access::or_pending_id) {
        for (const std::string& name : request.path_parameters) {
            const Result<SessionId> session = parse_session_id(name);
            Task<bool> read =
                session ? bring_in(*session) : bring_in_call(request, PendingId(name));
            const bool was_away = co_await std::move(read);
            if (!was_away || route.access == Access::open) continue;
            // The token may have been revoked.
            if (std::optional<Problem> problem = parts_.auth.identify(request)) {
                co_return fail(request, *std::move(problem));
            }
        }
    }
    Task<Response> handled = (this->*route.handler)(request);
    Response response = co_await std::move(handled);
    co_return response;
}

// ---- tools of the handlers ------------------------------------------------------------------

Viewer Api::viewer(const Request& request) const {
    return {parts_.coordinator.boot(), parts_.env.clock.now(),
            !request.principal.may(Scope::submit)};
}

Result<Api::Wait> Api::wait_of(const Request& request) const {
    const std::optional<std::string> given = request.query_value("wait");
    if (!given) return Wait();
    const std::optional<Milliseconds> wait = parse_wait(*given);
    if (wait && *wait <= limits::kLongestWait) return wait;
    return Error(ErrorKind::invalid, "invalid_request",
                 "wait is a time such as 500ms, 30s or 2m, at most 5m");
}

Result<std::size_t> Api::limit_of(const Request& request, std::size_t standard,
                                  std::size_t most) const {
    const std::optional<std::string> given = request.query_value("limit");
    if (!given) return standard;
    const std::optional<std::int64_t> number = read_json_int(*given);
    if (number && *number > 0 && static_cast<std::size_t>(*number) <= most) {
        return static_cast<std::size_t>(*number);
    }
    return Error(ErrorKind::invalid, "invalid_request",
                 "limit is a number from 1 to " + std::to_string(most));
}

Result<Api::Page> Api::page_of(const Request& request, std::vector<std::string> ids,
                               ListOrder order) const {
    const Result<std::size_t> limit = limit_of(request, 50, 500);
    if (!limit) return limit.error();
    const auto comes_first = [order](const std::string& a, const std::string& b) {
        return order == ListOrder::newest_first ? a > b : a < b;
    };
    std::ranges::sort(ids, comes_first);
    // A cursor is the last id of the page before, whether it is still there or not.
    if (const auto cursor = request.query_value("cursor")) {
        if (order == ListOrder::newest_first && !is_valid_id_text(*cursor)) {
            return Error(ErrorKind::invalid, "invalid_request", foreign_cursor().detail);
        }
        ids.erase(ids.begin(), std::ranges::upper_bound(ids, *cursor, comes_first));
    }
    Page page{std::move(ids)};
    if (page.ids.size() > *limit) {
        page.ids.resize(*limit);
        page.next = page.ids.back();
    }
    return page;
}

Response Api::list_response(const std::vector<std::string>& items, const std::string& next) {
    JsonObject out;
    out.raw("items", json_list(items)).text_or_null("next_cursor", next);
    return json_response(200, out.done());
}

Result<std::shared_ptr<const SessionState>> Api::find_session(const Request& request,
                                                              const SessionId& id) const {
    Result<std::shared_ptr<const SessionState>> state = parts_.store->load(id);
    const bool damaged = !state && state.error().reason == "session_damaged";
    if (!state && !damaged) return state;
    const std::string task = damaged ? readable_part(id).first.task_id : (*state)->task_id;
    if (!damaged) state = parts_.notes.over(*std::move(state));
    if (request.principal.sees_task(task)) return state;
    return Error(ErrorKind::not_found, "unknown_session", "there is no session " + id.text());
}

Result<std::shared_ptr<const SessionState>> Api::find_session(const Request& request) const {
    const Result<SessionId> id = parse_session_id(request.path_parameters.at(0));
    if (!id) {
        return Error(ErrorKind::not_found, "unknown_session",
                     "there is no session " + request.path_parameters.at(0));
    }
    return find_session(request, *id);
}

// Ahead of those who ask for the state of a session: of one that is long and not in memory, the log
// is read aside.
Task<bool> Api::bring_in(SessionId session) {
    if (!parts_.store->loads_slowly(session)) co_return false;
    const auto read = [this, &session] { (void)parts_.store->load(session); };
    (void)co_await aside(session, read);
    co_return true;
}

Task<bool> Api::bring_in_call(Request& request, PendingId id) {
    const Result<SessionId> session = session_of(id);
    if (!session) co_return false;
    Task<bool> state_read = bring_in(*session);
    const bool was_away = co_await std::move(state_read);
    if (parts_.store->log_bytes(*session) < limits::kLongLog) co_return was_away;
    const auto state = parts_.store->load(*session);
    if (!state || (*state)->find_pending(id) != nullptr) co_return was_away;
    const auto read = [this, &id] { return find_past_call(id); };
    Result<std::optional<PendingCall>> found = co_await aside(*session, read);
    if (found) request.past_call = Request::PastCall{id, *std::move(found)};
    co_return true;
}

std::pair<SessionState, Transcript> Api::readable_part(const SessionId& id) const {
    std::pair<SessionState, Transcript> readable;
    const Result<std::vector<Record>> records = read_records(*parts_.store, id);
    for (const Record& record : records ? *records : std::vector<Record>()) {
        fold(readable.first, record);
        readable.second.fold(record);
    }
    return readable;
}

std::optional<Damage> Api::damage_of(const SessionId& id) const {
    for (const auto& [session, damage] : parts_.store->health().damaged) {
        if (session == id) return damage;
    }
    return std::nullopt;
}

Api::Patience Api::patience_of(Request& request, Wait wait, Request::Look look) {
    if (!wait || *wait == Milliseconds(0)) return {wait, {}};
    std::stop_token hung_up = request.watch_client(look);
    if (!request.principal.revocable) return {wait, std::move(hung_up)};
    auto place = waiting_.add(request.principal.id, std::move(hung_up));
    std::stop_token gone = place->gone();
    return {wait, std::move(gone), std::move(place)};
}

AskedRun Api::asked_run(const Reply& reply) {
    return {reply.session, reply.run, reply.seq, reply.queued};
}

Task<Result<Api::Done>> Api::carry_out(Task<Result<Reply>> command, Patience patience) {
    Result<Reply> reply = co_await std::move(command);
    if (!reply) co_return reply.error();
    Done done;
    done.reply = *std::move(reply);
    if (!patience.wait || done.reply.run.empty()) co_return done;
    Result<SharedReport> report =
        co_await wait_for_outcome(parts_.driver, *parts_.store, asked_run(done.reply),
                                  *patience.wait, std::move(patience.gone));
    if (!report) co_return report.error();
    done.report = *std::move(report);
    co_return done;
}

std::string Api::report_json(const Request& request, const RunReport& report) const {
    // Whoever knows one pending id settles that call, and learns nothing of what follows from it.
    if (!request.principal.scope) {
        RunReport shown;
        shown.run_id = report.run_id;
        shown.status = report.status;
        return to_json(shown);
    }
    if (!report.suspension) return to_json(report);
    const bool asks_person = std::ranges::any_of(
        report.suspension->pending_tool_calls,
        [](const PendingToolCall& call) { return call.waits_for == WaitsFor::person; });
    // The token answers every call of the wait.
    const Scope needed = asks_person ? Scope::operate : Scope::submit;
    if (request.principal.may(needed)) return to_json(report);
    return to_json(without_token(report));
}

// 200 with an outcome, 202 when the time was over before there was one.
int Api::status_of(const Request& request, const Done& done) {
    if (!request.query_value("wait") || done.reply.run.empty()) return done.reply.status;
    return done.report ? 200 : 202;
}

Response Api::render(Request& request, Done done) {
    Response response = json_response(status_of(request, done), std::move(done.reply.body));
    if (done.report) {
        response.body.pop_back();
        response.body += ",\"outcome\":" + report_json(request, *done.report) + "}";
    }
    if (!done.reply.location.empty()) {
        response.headers.emplace_back("Location", done.reply.location);
    }
    return response;
}

Task<Response> Api::answer(Request& request, Task<Result<Reply>> command) {
    const Result<Wait> wait = wait_of(request);
    if (!wait) co_return fail(request, wait.error());
    Result<Done> done =
        co_await on_work(carry_out(std::move(command), patience_of(request, *wait)));
    if (!done) co_return fail(request, done.error());
    co_return render(request, *std::move(done));
}

Response Api::session_response(Request& request, int status, const SessionId& id, const RunId& run,
                               const SharedReport& report) {
    Result<std::shared_ptr<const SessionState>> state = parts_.store->load(id);
    if (!state) return fail(request, state.error());
    state = parts_.notes.over(*std::move(state));
    OpenInputs inputs;
    if (report && report->suspension) inputs = open_inputs(*report->suspension);
    if ((*state)->open_calls() > inputs.size()) {
        const Result<Transcript> said = read_open_calls(*parts_.store, **state);
        if (!said) return fail(request, said.error());
        inputs = open_inputs(**state, *said);
    }
    std::string body =
        session_json(**state, inputs, std::nullopt, parts_.store->log_bytes(id), viewer(request));
    body.pop_back();
    if (!run.empty()) body += ",\"run_id\":" + to_json_string(run.text());
    if (report) body += ",\"outcome\":" + report_json(request, *report);
    Response response = json_response(status, body + "}");
    response.headers.emplace_back("Location", std::string(kSessionPath) + id.text());
    return response;
}

}  // namespace rouse::server
