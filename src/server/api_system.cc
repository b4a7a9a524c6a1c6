#include <ranges>

#include "base/digest.h"
#include "server/api.h"
#include "server/body.h"

namespace rouse::server {
namespace {

template <class Rows>
std::vector<std::string> ids_of(const Rows& rows) {
    const auto ids = std::views::keys(rows);
    return {ids.begin(), ids.end()};
}

}  // namespace

// ---- the configuration ----------------------------------------------------------------------

Task<Response> Api::list_agents(Request& request) {
    const std::shared_ptr<const Catalogue> catalogue = parts_.registry.catalogue();
    const Result<Page> page = page_of(request, ids_of(catalogue->agents), ListOrder::by_name);
    if (!page) co_return fail(request, page.error());
    std::vector<std::string> items;
    for (const std::string& name : page->ids) {
        const AgentDefinition& agent = catalogue->agents.at(name);
        JsonObject out;
        out.text("name", name).text("model", agent.model).text("provider", agent.provider);
        out.value("tools", agent.tools).flag("default", name == catalogue->default_agent);
        items.push_back(out.done());
    }
    co_return list_response(items, page->next);
}

Task<Response> Api::list_tools(Request& request) {
    const std::shared_ptr<const Catalogue> catalogue = parts_.registry.catalogue();
    const Result<Page> page = page_of(request, ids_of(catalogue->tools), ListOrder::by_name);
    if (!page) co_return fail(request, page.error());
    std::vector<std::string> items;
    for (const std::string& name : page->ids) {
        const ToolDefinition& tool = catalogue->tools.at(name);
        const ToolAnnotations& notes = tool.spec.annotations;
        JsonObject out;
        out.text("name", name).text("kind", tool.kind);
        out.text("description", tool.spec.description);
        out.raw("parameters", schema_text(tool.spec.parameters));
        out.flag("async", tool.spec.async).flag("approval", notes.approval);
        out.flag("read_only", notes.read_only).flag("idempotent", notes.idempotent);
        out.flag("destructive", notes.destructive);
        out.text("settled_by", to_string(tool.settled_by));
        items.push_back(out.done());
    }
    co_return list_response(items, page->next);
}

Task<Response> Api::list_models(Request& request) {
    const std::shared_ptr<const Catalogue> catalogue = parts_.registry.catalogue();
    const Result<Page> page = page_of(request, catalogue->models, ListOrder::by_name);
    if (!page) co_return fail(request, page.error());
    std::vector<std::string> items;
    for (const std::string& name : page->ids)
        items.push_back(to_json_string(name));
    co_return list_response(items, page->next);
}

// ---- tasks ----------------------------------------------------------------------------------

std::string Api::task_json(const TaskRow& row) const {
    SessionFilter filter;
    filter.task_id = row.task.task_id;
    filter.limit = 500;
    std::vector<std::string> sessions;
    for (const SessionSummary& session : parts_.store->list(filter))
        sessions.push_back(to_json_string(session.id.text()));
    JsonObject out;
    out.text("id", row.task.task_id).text("title", row.task.title);
    out.text("state", to_string(row.task.state)).raw("sessions", json_list(sessions));
    out.time("created_at", row.created_at).time("updated_at", row.updated_at);
    return out.done();
}

Task<Response> Api::create_task(Request& request) {
    Body body(request.body);
    TaskSaved task;
    task.task_id = body.text_or_empty("id");
    task.title = body.text_or_empty("title");
    task.state = body.choice<TaskState>("state").value_or(TaskState::todo);
    if (!task.task_id.empty() && !is_valid_id_text(task.task_id)) {
        body.complain("id", "has up to 64 letters, digits, dashes and underscores");
    }
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    if (task.task_id.empty()) task.task_id = "task_" + ids_.random_text(10);
    if (!request.principal.sees_task(task.task_id)) {
        co_return fail(request, Problem{403, "forbidden", "Forbidden",
                                        "this token is for certain tasks only"});
    }
    TaskRow made;
    made.task = task;
    made.created_at = made.updated_at = parts_.env.clock.now();
    Records along = note_of(request, 201, task_json(made), "/v1/tasks/" + task.task_id);
    Task<Result<void>> saving = parts_.tasks.create(task, std::move(along));
    const Result<void> saved = co_await on_work(std::move(saving));
    if (!saved) co_return fail(request, saved.error());
    const TaskRow row =
        parts_.system.ask([&](const SystemState& state) { return state.tasks.at(task.task_id); });
    Response response = json_response(201, task_json(row));
    response.headers.emplace_back("Location", "/v1/tasks/" + task.task_id);
    co_return response;
}

Task<Response> Api::list_tasks(Request& request) {
    std::map<std::string, TaskRow> rows =
        parts_.system.ask([](const SystemState& state) { return state.tasks; });
    std::erase_if(rows, [&](const auto& row) { return !request.principal.sees_task(row.first); });
    const Result<Page> page = page_of(request, ids_of(rows), ListOrder::newest_first);
    if (!page) co_return fail(request, page.error());
    std::vector<std::string> items;
    for (const std::string& id : page->ids)
        items.push_back(task_json(rows.at(id)));
    co_return list_response(items, page->next);
}

std::optional<TaskRow> Api::find_task(const Request& request) const {
    const std::string& id = request.path_parameters.at(0);
    return parts_.system.ask([&](const SystemState& state) -> std::optional<TaskRow> {
        const auto found = state.tasks.find(id);
        if (found == state.tasks.end() || !request.principal.sees_task(id)) return {};
        return found->second;
    });
}

Problem Api::no_such_task(const Request& request) {
    return {404, "not_found", "No such task", "there is no task " + request.path_parameters.at(0)};
}

Task<Response> Api::get_task(Request& request) {
    const std::optional<TaskRow> row = find_task(request);
    if (!row) co_return fail(request, no_such_task(request));
    co_return json_response(200, task_json(*row));
}

Task<Response> Api::patch_task(Request& request) {
    const std::optional<TaskRow> row = find_task(request);
    if (!row) co_return fail(request, no_such_task(request));
    Body body(request.body);
    TaskChanged change;
    change.task_id = row->task.task_id;
    change.title = body.text("title");
    change.state = body.choice<TaskState>("state");
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    Task<Result<void>> saving = parts_.system.append(to_record(change));
    const Result<void> saved = co_await on_work(std::move(saving));
    if (!saved) co_return fail(request, saved.error());
    co_return co_await get_task(request);
}

Task<Response> Api::get_task_session_status(Request& request) {
    const Result<SessionId> id = parse_session_id(request.path_parameters.at(1));
    const Error not_there(ErrorKind::not_found, "session_not_in_task",
                          "the session does not belong to that task");
    if (!id) co_return fail(request, not_there);
    const Result<std::shared_ptr<const SessionState>> state = find_session(request, *id);
    if (!state || (*state)->task_id != request.path_parameters.at(0)) {
        co_return fail(request, not_there);
    }
    co_return json_response(200, board_status_json(**state, viewer(request)));
}

// ---- API tokens -----------------------------------------------------------------------------

Task<Response> Api::create_api_token(Request& request) {
    Body body(request.body);
    ApiTokenCreated token;
    token.name = body.text_or_empty("name");
    token.scope = body.choice<Scope>("scope").value_or(Scope::read);
    token.tasks = body.texts("tasks");
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    if (!request.principal.covers(token.tasks)) {
        co_return fail(request, Problem{403, "forbidden", "Forbidden",
                                        "this token is for certain tasks; those that it makes are "
                                        "for some of them: name them in tasks"});
    }
    request.note.reset();  // the secret is shown once
    token.token_id = "rk_" + ids_.random_text(10);
    const Secret secret = ids_.secret();
    token.hash = sha256_hex(secret.reveal());
    Task<Result<void>> saving = parts_.system.append(to_record(token));
    const Result<void> saved = co_await on_work(std::move(saving));
    if (!saved) co_return fail(request, saved.error());
    JsonObject out;
    out.text("id", token.token_id).text("name", token.name);
    out.text("scope", to_string(token.scope)).value("tasks", token.tasks);
    out.text("token", token.token_id + "." + secret.reveal());
    co_return json_response(201, out.done());
}

Task<Response> Api::list_api_tokens(Request& request) {
    const auto rows = parts_.system.ask([&](const SystemState& state) {
        std::map<std::string, ApiTokenRow> found;
        for (const auto& [id, row] : state.tokens) {
            if (request.principal.covers(row.token.tasks)) found.emplace(id, row);
        }
        return found;
    });
    const Result<Page> page = page_of(request, ids_of(rows), ListOrder::newest_first);
    if (!page) co_return fail(request, page.error());
    std::vector<std::string> items;
    for (const std::string& id : page->ids) {
        const ApiTokenRow& row = rows.at(id);
        JsonObject out;
        out.text("id", row.token.token_id).text("name", row.token.name);
        out.text("scope", to_string(row.token.scope)).value("tasks", row.token.tasks);
        out.time("created_at", row.created_at);
        items.push_back(out.done());
    }
    co_return list_response(items, page->next);
}

Task<Response> Api::revoke_api_token(Request& request) {
    const std::string& id = request.path_parameters.at(0);
    const bool known = parts_.system.ask([&](const SystemState& state) {
        const auto found = state.tokens.find(id);
        return found != state.tokens.end() && request.principal.covers(found->second.token.tasks);
    });
    if (!known) {
        co_return fail(request,
                       Problem{404, "not_found", "No such token", "there is no token " + id});
    }
    RecordBody revoked = to_record(ApiTokenRevoked{id});
    Task<Result<void>> saving = parts_.system.append(std::move(revoked));
    const Result<void> saved = co_await on_work(std::move(saving));
    if (!saved) co_return fail(request, saved.error());
    parts_.hub.revoke(id);
    waiting_.revoke(id);
    co_return json_response(204, "");
}

// ---- webhooks -------------------------------------------------------------------------------

bool Api::sees_webhook(const Request& request, const DeliveryRow& row) const {
    return request.principal.tasks.empty() || find_session(request, row.webhook.session_id);
}

Task<Response> Api::list_dead_webhooks(Request& request) {
    std::map<std::string, DeliveryRow> rows = parts_.system.ask([](const SystemState& state) {
        std::map<std::string, DeliveryRow> found;
        for (const auto& [order, id] : state.dead)
            found.emplace(id, state.deliveries.at(id));
        return found;
    });
    std::erase_if(rows, [&](const auto& row) { return !sees_webhook(request, row.second); });
    const Result<Page> page = page_of(request, ids_of(rows), ListOrder::newest_first);
    if (!page) co_return fail(request, page.error());
    std::vector<std::string> items;
    for (const std::string& id : page->ids) {
        const DeliveryRow& row = rows.at(id);
        JsonObject out;
        out.text("id", row.webhook.delivery_id).text("url", row.webhook.url);
        out.text("type", row.webhook.type).text("session_id", row.webhook.session_id.text());
        out.number("attempts", row.attempts).text("error", row.error);
        out.time("queued_at", row.webhook.queued_at);
        items.push_back(out.done());
    }
    co_return list_response(items, page->next);
}

Task<Response> Api::retry_dead_webhook(Request& request) {
    const std::string& id = request.path_parameters.at(0);
    Body body(request.body);
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    const DeliveryRow row = parts_.system.ask([&](const SystemState& state) {
        const auto found = state.deliveries.find(id);
        return found == state.deliveries.end() ? DeliveryRow() : found->second;
    });
    if (!row.dead || !sees_webhook(request, row)) {
        co_return fail(request, Problem{404, "not_found", "No such dead webhook",
                                        "there is no dead webhook " + id});
    }
    Response response = json_response(202, "{\"id\":" + to_json_string(id) + "}");
    Records revived = note_of(request, response.status, response.body);
    revived.push_back(to_record(WebhookRevived{id}));
    Task<Result<void>> saving = parts_.system.append_all(std::move(revived));
    const Result<void> saved = co_await on_work(std::move(saving));
    if (!saved) co_return fail(request, saved.error());
    if (parts_.webhook_queued) parts_.webhook_queued();
    co_return response;
}

// ---- the process ----------------------------------------------------------------------------

Task<Response> Api::healthz(Request& request) {
    (void)request;
    Response response;
    response.content_type = "text/plain";
    response.body = "ok\n";
    co_return response;
}

Task<Response> Api::readyz(Request& request) {
    (void)request;
    Response response;
    response.content_type = "text/plain";
    const bool ready = ready_ && parts_.store->health().accepting;
    response.status = ready ? 200 : 503;
    response.body = ready ? "ready\n" : "unready\n";
    co_return response;
}

Task<Response> Api::get_metrics(Request& request) {
    (void)request;
    Metrics::Gauges gauges;
    gauges.runs_in_flight = parts_.driver.in_flight();
    gauges.runs_queued = parts_.driver.queued();
    gauges.streams = parts_.hub.readers();
    const StoreHealth health = parts_.store->health();
    gauges.damaged = health.damaged.size();
    gauges.accepting = health.accepting;
    const Timestamp now = parts_.env.clock.now();
    for (const auto& [kind, count] : parts_.store->count_waits()) {
        const std::string name(to_string(kind));
        gauges.waits[name] = count.waits;
        gauges.oldest_wait_seconds[name] =
            std::chrono::duration<double>(std::max(now, count.oldest) - count.oldest).count();
    }
    Response response;
    response.content_type = "text/plain; version=0.0.4";
    response.body = parts_.metrics.render(gauges);
    co_return response;
}

Task<Response> Api::get_openapi(Request& request) {
    (void)request;
    co_return json_response(200, openapi_json(routes(), parts_.version));
}

}  // namespace rouse::server
