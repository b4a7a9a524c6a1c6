#include <algorithm>

#include "base/limits.h"
#include "domain/fold.h"
#include "server/api.h"
#include "server/body.h"
#include "server/transcripts.h"

namespace rouse {

template <>
inline constexpr std::string_view kEnumNames<OnWaiting>[] = {"supersede", "reject", "queue"};
template <>
inline constexpr std::string_view kEnumNames<OnRunning>[] = {"queue", "reject"};
template <>
inline constexpr std::string_view kEnumNames<CancelMode>[] = {"discard", "acknowledge"};

namespace server {
namespace {

std::optional<Problem> check_name(std::string_view name, const std::string& value) {
    if (value.empty() || is_valid_id_text(value)) return std::nullopt;
    return invalid_request(std::string(name) +
                               " has up to 64 letters, digits, dashes and underscores and begins "
                               "with a letter or digit",
                           "/" + std::string(name));
}

std::optional<Seq> read_seq(const std::optional<std::string>& text) {
    if (!text) return std::nullopt;
    const std::optional<std::int64_t> number = read_json_int(*text);
    if (!number || *number < 0) return std::nullopt;
    return static_cast<Seq>(*number);
}

}  // namespace

// ---- making and changing --------------------------------------------------------------------

Task<Response> Api::create_session(Request& request) {
    Body body(request.body);
    SessionCreated created;
    created.agent = body.text_or_empty("agent");
    created.title = body.text_or_empty("title");
    created.working_dir = body.text_or_empty("working_dir");
    created.task_id = body.text_or_empty("task_id");
    created.alias = body.text_or_empty("alias");
    created.external_id = body.text_or_empty("external_id");
    const RawJson provider = body.object("provider");
    if (!provider.absent() && !codec::read(std::string_view(provider.text()), created.provider)) {
        body.complain("provider", "must be an object with type and model");
    }
    created.provider.chosen = false;  // that is for the coordinator to say
    created.provider.extra = {};
    created.metadata = body.object("metadata");
    Content message = body.content("message");
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    if (auto problem = check_name("alias", created.alias)) co_return fail(request, *problem);
    if (auto problem = check_name("task_id", created.task_id)) co_return fail(request, *problem);
    if (!request.principal.sees_task(created.task_id)) {
        co_return fail(request, Problem{403, "forbidden", "Forbidden",
                                        "this token is for sessions of certain tasks only"});
    }
    const Result<Wait> wait = wait_of(request);
    if (!wait) co_return fail(request, wait.error());
    Task<Result<Reply>> command =
        parts_.coordinator.create(std::move(created), std::move(message), request.note);
    Result<Done> done =
        co_await on_work(carry_out(std::move(command), patience_of(request, *wait)));
    if (!done) co_return fail(request, done.error());
    co_return session_response(request, status_of(request, *done), done->reply.session,
                               done->reply.run, done->report);
}

Task<Response> Api::patch_session(Request& request) {
    const Result<std::shared_ptr<const SessionState>> state = find_session(request);
    if (!state) co_return fail(request, state.error());
    Body body(request.body);
    SessionUpdated update;
    update.title = body.text_or_null("title");
    update.alias = body.text_or_null("alias");
    update.metadata = body.object("metadata");
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    if (update.alias) {
        if (auto problem = check_name("alias", *update.alias)) co_return fail(request, *problem);
    }
    const SessionId id = (*state)->id;
    Task<Result<Reply>> command = parts_.coordinator.update(id, std::move(update), request.note);
    const Result<Reply> done = co_await on_work(std::move(command));
    if (!done) co_return fail(request, done.error());
    co_return session_response(request, 200, id, {}, {});
}

Task<Response> Api::delete_session(Request& request) {
    const Result<std::shared_ptr<const SessionState>> state = find_session(request);
    if (!state && state.error().reason != "session_damaged") {
        co_return fail(request, state.error());
    }
    SessionId id(request.path_parameters.at(0));
    Task<Result<Reply>> command = parts_.coordinator.remove(std::move(id));
    const Result<Reply> done = co_await on_work(std::move(command));
    if (!done) co_return fail(request, done.error());
    co_return json_response(204, "");
}

Task<Response> Api::fork_session(Request& request) {
    const Result<std::shared_ptr<const SessionState>> state = find_session(request);
    if (!state) co_return fail(request, state.error());
    Body body(request.body);
    const std::optional<std::int64_t> at = body.integer("at_seq");
    std::string title = body.text_or_empty("title");
    if (at && *at < 1) body.complain("at_seq", "must be at least 1");
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    std::optional<Seq> at_seq;
    if (at) at_seq = static_cast<Seq>(*at);
    Task<Result<Reply>> command =
        parts_.coordinator.fork((*state)->id, at_seq, std::move(title), request.note);
    const Result<Reply> done = co_await on_work(std::move(command));
    if (!done) co_return fail(request, done.error());
    co_return session_response(request, 201, done->session, {}, {});
}

Task<Response> Api::compact_session(Request& request) {
    const Result<std::shared_ptr<const SessionState>> state = find_session(request);
    if (!state) co_return fail(request, state.error());
    Body body(request.body);
    const std::int64_t keep_last = body.integer("keep_last").value_or(0);
    std::string summary =
        body.text("summary").value_or("(What was said before was left out here.)");
    if (keep_last < 0) body.complain("keep_last", "must not be negative");
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    Task<Result<Reply>> command = parts_.coordinator.compact(
        (*state)->id, static_cast<std::size_t>(keep_last), std::move(summary), request.note);
    co_return co_await answer(request, std::move(command));
}

// ---- runs and waits -------------------------------------------------------------------------

Task<Response> Api::post_message(Request& request) {
    const Result<std::shared_ptr<const SessionState>> state = find_session(request);
    if (!state) co_return fail(request, state.error());
    Body body(request.body);
    Content content = body.content("content");
    if (content.empty()) body.complain("content", "is missing; it must be a string or blocks");
    Coordinator::MessageOptions options;
    options.on_waiting = body.choice<OnWaiting>("on_waiting").value_or(OnWaiting::supersede);
    options.on_running = body.choice<OnRunning>("on_running").value_or(OnRunning::queue);
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    Task<Result<Reply>> command =
        parts_.coordinator.message((*state)->id, std::move(content), options, request.note);
    co_return co_await answer(request, std::move(command));
}

Task<Response> Api::resume_session(Request& request) {
    const Result<std::shared_ptr<const SessionState>> state = find_session(request);
    if (!state) co_return fail(request, state.error());
    Body body(request.body);
    const std::optional<std::string> token = body.text("token");
    Content input = body.content("input");
    Coordinator::Results results;
    std::optional<Problem> wrong;
    for (const JsonMember& member : body.members("results")) {
        const std::string id = read_json_string("\"" + std::string(member.key) + "\"").value_or("");
        const auto same = [&](const auto& other) { return other.first.text == id; };
        if (std::ranges::any_of(results, same)) {
            body.complain("results", "has " + id + " twice");
        }
        std::optional<ToolResult> result = read_tool_result(member.value, "/results/" + id, wrong);
        if (result) results.emplace_back(CallId{id}, *std::move(result));
    }
    if (wrong) co_return fail(request, *wrong);
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    if (!token && !request.principal.may(Scope::operate)) {
        co_return fail(request, Error(ErrorKind::invalid, "token_required",
                                      "give the wait's resume token, or use a bearer token that "
                                      "may operate"));
    }
    Task<Result<Reply>> command = parts_.coordinator.resume((*state)->id, token, std::move(results),
                                                            std::move(input), request.note);
    co_return co_await answer(request, std::move(command));
}

Task<Response> Api::rotate_token(Request& request) {
    const Result<std::shared_ptr<const SessionState>> state = find_session(request);
    if (!state) co_return fail(request, state.error());
    request.note.reset();  // the secret is shown once, not kept for a second request
    Body body(request.body);
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    Task<Result<Reply>> command = parts_.coordinator.rotate_token((*state)->id);
    co_return co_await answer(request, std::move(command));
}

Task<Response> Api::continue_session(Request& request) {
    const Result<std::shared_ptr<const SessionState>> state = find_session(request);
    if (!state) co_return fail(request, state.error());
    Body body(request.body);
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    Task<Result<Reply>> command = parts_.coordinator.go_on((*state)->id, request.note);
    co_return co_await answer(request, std::move(command));
}

Task<Response> Api::cancel_session(Request& request) {
    const Result<std::shared_ptr<const SessionState>> state = find_session(request);
    if (!state) co_return fail(request, state.error());
    Body body(request.body);
    const CancelMode mode = body.choice<CancelMode>("mode").value_or(CancelMode::discard);
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    Task<Result<Reply>> command = parts_.coordinator.cancel((*state)->id, mode, request.note);
    co_return co_await answer(request, std::move(command));
}

Task<Response> Api::extend_session(Request& request) {
    const Result<std::shared_ptr<const SessionState>> state = find_session(request);
    if (!state) co_return fail(request, state.error());
    Body body(request.body);
    std::optional<Timestamp> deadline = body.time("deadline_at");
    const std::optional<std::int64_t> seconds = body.integer("seconds");
    constexpr std::int64_t kYear = std::int64_t{366} * 24 * 3600;
    if (deadline.has_value() == seconds.has_value()) {
        body.complain("deadline_at", "or seconds is needed, one of the two");
    } else if (seconds && (*seconds < 1 || *seconds > kYear)) {
        body.complain("seconds", "must be from 1 to a year's");
    }
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    if (seconds) deadline = parts_.env.clock.now() + std::chrono::seconds(*seconds);
    Task<Result<Reply>> command = parts_.coordinator.extend((*state)->id, *deadline, request.note);
    co_return co_await answer(request, std::move(command));
}

// ---- reading --------------------------------------------------------------------------------

Task<Response> Api::list_sessions(Request& request) {
    const Result<std::size_t> limit = limit_of(request, 50, 500);
    if (!limit) co_return fail(request, limit.error());
    SessionFilter filter;
    filter.boot = parts_.coordinator.boot();
    filter.now = parts_.env.clock.now();
    filter.limit = *limit + 1;
    if (const auto status = request.query_value("status")) {
        filter.status = parse_enum<SessionStatus>(*status);
        if (!filter.status) {
            co_return fail(request, invalid_request("status is one of idle, running, waiting, "
                                                    "interrupted_waiting, interrupted_startup"));
        }
    }
    if (const auto suspended = request.query_value("suspended")) {
        if (*suspended != "true" && *suspended != "false") {
            co_return fail(request, invalid_request("suspended is true or false"));
        }
        filter.suspended = *suspended == "true";
    }
    filter.task_id = request.query_value("task_id");
    filter.agent = request.query_value("agent");
    filter.alias = request.query_value("alias");
    filter.external_id = request.query_value("external_id");
    if (const auto parent = request.query_value("parent")) filter.parent = SessionId(*parent);
    if (const auto cursor = request.query_value("cursor")) {
        const Result<SessionId> before = parse_session_id(*cursor);
        if (!before) co_return fail(request, foreign_cursor());
        filter.before = *before;
    }
    std::vector<SessionSummary> found;
    // A token for certain tasks sees the others' sessions as little as those that do not exist.
    for (;;) {
        const std::vector<SessionSummary> page = parts_.store->list(filter);
        for (const SessionSummary& session : page) {
            if (request.principal.sees_task(session.task_id)) found.push_back(session);
        }
        if (page.size() < filter.limit || found.size() > *limit) break;
        filter.before = page.back().id;
    }
    const bool more = found.size() > *limit;
    if (more) found.resize(*limit);
    std::vector<std::string> items;
    items.reserve(found.size());
    for (const SessionSummary& session : found)
        items.push_back(summary_json(session, viewer(request)));
    JsonObject out;
    out.raw("items", json_list(items));
    out.text_or_null("next_cursor", more ? found.back().id.text() : "");
    co_return json_response(200, out.done());
}

Task<Response> Api::get_session(Request& request) {
    const Result<std::shared_ptr<const SessionState>> state = find_session(request);
    if (!state && state.error().reason == "session_damaged") {
        const SessionId id(request.path_parameters.at(0));
        const auto [readable, said] = readable_part(id);
        co_return json_response(200,
                                session_json(readable, open_inputs(readable, said), damage_of(id),
                                             parts_.store->log_bytes(id), viewer(request)));
    }
    if (!state) co_return fail(request, state.error());
    Response response = session_response(request, 200, (*state)->id, {}, {});
    response.headers.clear();
    co_return response;
}

Task<Response> Api::get_messages(Request& request) {
    const Result<std::shared_ptr<const SessionState>> state = find_session(request);
    if (!state) co_return fail(request, state.error());
    // All of it, unless less is asked for.
    Slice slice;
    const Result<std::size_t> limit = limit_of(request, slice.count, 500);
    if (!limit) co_return fail(request, limit.error());
    slice.count = *limit;
    if (const auto cursor = request.query_value("cursor")) {
        const std::optional<std::int64_t> seen = read_json_int(*cursor);
        if (!seen || *seen < 0) co_return fail(request, foreign_cursor());
        slice.first = static_cast<std::size_t>(*seen);
    }
    const Viewer seen_by = viewer(request);
    const auto read = [&]() -> Result<std::string> {
        const Result<Transcript> said = read_transcript(*parts_.store, (*state)->id);
        if (!said) return said.error();
        return transcript_json(**state, *said, slice, seen_by);
    };
    Result<std::string> text = co_await aside((*state)->id, read);
    if (!text) co_return fail(request, text.error());
    co_return json_response(200, *std::move(text));
}

Task<Response> Api::get_log(Request& request) {
    const Result<std::shared_ptr<const SessionState>> state = find_session(request);
    if (!state && state.error().reason != "session_damaged") {
        co_return fail(request, state.error());
    }
    const SessionId id(request.path_parameters.at(0));
    const Result<std::size_t> limit = limit_of(request, 500, 10'000);
    if (!limit) co_return fail(request, limit.error());
    const std::optional<std::string> from_text = request.query_value("from_seq");
    const std::optional<Seq> given = read_seq(from_text);
    if (from_text && !given) co_return fail(request, invalid_request("from_seq is a number"));
    const Seq from = std::max<Seq>(given.value_or(1), 1);
    const ReadLimit page(*limit, limits::kLogPageBytes);
    const auto read = [&] { return parts_.store->read(id, from, page); };
    const Result<std::vector<std::string>> lines = co_await aside(id, read);
    if (!lines) co_return fail(request, lines.error());
    const bool masks = viewer(request).masks_ids;
    if (request.header("accept") == "application/x-ndjson") {
        Response response;
        response.content_type = "application/x-ndjson";
        for (const std::string& line : *lines)
            response.body += line + "\n";
        if (masks) response.body = mask_pending_ids(response.body);
        co_return response;
    }
    JsonObject out;
    out.raw("items", json_list(*lines));
    const Seq next = from + lines->size();
    const bool is_cut = page.is_reached(lines->size(), total_bytes(*lines));
    out.raw("next_seq", is_cut ? std::to_string(next) : "");
    co_return json_response(200, masks ? mask_pending_ids(out.done()) : out.done());
}

Task<Response> Api::get_status(Request& request) {
    const Result<std::shared_ptr<const SessionState>> state = find_session(request);
    if (!state) co_return fail(request, state.error());
    co_return json_response(200, board_status_json(**state, viewer(request)));
}

Task<Response> Api::get_explain(Request& request) {
    const Result<std::shared_ptr<const SessionState>> state = find_session(request);
    if (!state) co_return fail(request, state.error());
    const std::shared_ptr<const Catalogue> catalogue = parts_.registry.catalogue();
    const Viewer seen_by = viewer(request);
    const auto read = [&]() -> Result<std::string> {
        const Result<std::vector<Record>> log = read_records(*parts_.store, (*state)->id);
        if (!log) return log.error();
        Transcript said;
        for (const Record& record : *log)
            said.fold(record);
        return explain_json(**state, *log, said, *catalogue, seen_by);
    };
    Result<std::string> text = co_await aside((*state)->id, read);
    if (!text) co_return fail(request, text.error());
    co_return json_response(200, *std::move(text));
}

Task<Response> Api::list_waits(Request& request) {
    const Result<std::size_t> limit = limit_of(request, 50, 500);
    if (!limit) co_return fail(request, limit.error());
    const std::optional<std::string> kind = request.query_value("kind");
    if (kind == "chain") co_return list_chains(request);
    WaitFilter filter;
    if (kind) filter.kind = parse_enum<WaitKind>(*kind);
    if (kind && !filter.kind) {
        co_return fail(request, invalid_request("kind is one of external, person, timer, child, "
                                                "message, tool_result, user_input, chain"));
    }
    filter.task_id = request.query_value("task_id");
    filter.agent = request.query_value("agent");
    filter.tasks = request.principal.tasks;
    const std::optional<std::string> cursor = request.query_value("cursor");
    if (cursor) {
        const std::size_t at = cursor->find('.');
        const std::optional<std::int64_t> ms = read_json_int(cursor->substr(0, at));
        if (!ms || at == std::string::npos) {
            co_return fail(request, foreign_cursor());
        }
        filter.after = WaitPosition{from_epoch_ms(*ms), SessionId(cursor->substr(at + 1))};
    }
    std::vector<std::string> items;
    const bool all = !kind && !filter.task_id && !filter.agent;
    if (all && !cursor) {
        for (const auto& [id, chain] : stopped_chains(request)) {
            if (items.size() + 1 >= *limit) break;  // all of them: ?kind=chain
            items.push_back(chain);
        }
    }
    // Chains come on top of the page, and do not take the place of the last wait.
    filter.limit = *limit > items.size() ? *limit - items.size() : 1;
    const std::size_t page = filter.limit++;
    std::vector<SessionSummary> waits = parts_.store->waits(filter);
    std::string next;
    if (waits.size() > page) {
        waits.resize(page);
        const WaitPosition last = wait_position(waits.back());
        next = std::to_string(to_epoch_ms(last.deadline)) + "." + last.id.text();
    }
    for (const SessionSummary& one : waits) {
        Task<bool> brought = bring_in(one.id);
        (void)co_await std::move(brought);
        Result<std::shared_ptr<const SessionState>> state = parts_.store->load(one.id);
        if (!state || !(*state)->is_parked()) continue;
        state = parts_.notes.over(*std::move(state));
        const Result<Transcript> said = read_open_calls(*parts_.store, **state);
        if (!said) continue;
        items.push_back(wait_json(**state, open_inputs(**state, *said), viewer(request)));
    }
    co_return list_response(items, next);
}

// ---- streams --------------------------------------------------------------------------------

Task<Response> Api::get_session_events(Request& request) {
    const Result<std::shared_ptr<const SessionState>> state = find_session(request);
    if (!state) co_return fail(request, state.error());
    std::optional<Seq> from;
    const std::string_view last_id = request.header("last-event-id");
    const std::optional<std::string> from_text = request.query_value("from_seq");
    if (!last_id.empty()) {
        const std::optional<Seq> last = read_seq(std::string(last_id));
        if (!last) co_return fail(request, invalid_request("Last-Event-ID is not one of ours"));
        from = *last + 1;
    } else if (from_text) {
        from = read_seq(from_text);
        if (!from) co_return fail(request, invalid_request("from_seq is a number"));
    }
    Response response;
    response.content_type = "text/event-stream";
    response.headers.emplace_back("Cache-Control", "no-store");
    EventHub::ReaderOptions options{request.principal.id, viewer(request).masks_ids};
    response.events = parts_.hub.follow((*state)->id, from, std::move(options));
    co_return response;
}

Task<Response> Api::get_events(Request& request) {
    std::optional<GlobalPosition> behind;
    const std::string_view last_id = request.header("last-event-id");
    if (!last_id.empty()) {
        behind = GlobalPosition::parse(last_id);
        if (!behind) co_return fail(request, invalid_request("Last-Event-ID is not one of ours"));
    }
    Response response;
    response.content_type = "text/event-stream";
    response.headers.emplace_back("Cache-Control", "no-store");
    const Principal principal = request.principal;
    EventHub::ReaderOptions options{principal.id, viewer(request).masks_ids};
    response.events = parts_.hub.follow_all(
        behind, [principal](const std::string& task) { return principal.sees_task(task); },
        std::move(options));
    co_return response;
}

}  // namespace server
}  // namespace rouse
