// Mail between agents: who can be written to, what was written, and chains that were stopped.

#include "base/limits.h"
#include "domain/mail.h"
#include "server/api.h"
#include "server/body.h"
#include "server/views.h"

namespace rouse::server {

// A session by its id, or by its alias within the task. not_found.
Result<SessionId> Api::find_sender(const Request& request, const std::string& name,
                                   const std::string& task_id) const {
    const Result<SessionId> id = parse_session_id(name);
    if (id) {
        const Result<std::shared_ptr<const SessionState>> state = find_session(request, *id);
        if (state) return *id;
    }
    if (!request.principal.sees_task(task_id)) {
        return Error(ErrorKind::not_found, "unknown_alias",
                     "Unknown session \"" + name + "\"; an alias needs its task_id");
    }
    const Result<MailAddress> address = parts_.mail_planner.find(name, task_id);
    if (!address) return address.error();
    const Result<std::shared_ptr<const SessionState>> state =
        find_session(request, address->session_id);
    if (!state) return state.error();
    return address->session_id;
}

Response Api::fail_mail(const Request& request, const Error& error, const std::string& task_id) {
    Problem problem = to_problem(error);
    if (error.reason == "unknown_alias" && request.principal.sees_task(task_id)) {
        std::vector<std::string> names;
        for (const MailAddress& address : parts_.mail_planner.aliases(task_id))
            names.push_back(to_json_string(address.name));
        problem.members = ",\"known\":" + json_list(names);
    }
    return fail(request, std::move(problem));
}

Task<Response> Api::post_broadcast(Request& request) {
    Body body(request.body);
    MailQuestion question;
    const std::string from = body.text_or_empty("from");
    question.task_id = body.text_or_empty("task_id");
    question.message = body.required_text("message");
    const RawJson to = body.any("to");
    if (!to.absent() && to.text() != "null") {
        const bool one = read_json_string(to.text()).has_value();
        question.to =
            one ? std::vector<std::string>(1, *read_json_string(to.text())) : body.texts("to");
    }
    if (const auto reply_to = body.text("reply_to")) question.reply_to = MessageId(*reply_to);
    question.resume = body.flag("resume");
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    // A session that is named by its id brings its task along.
    const bool names_a_task = from.empty() || !question.task_id.empty();
    if (names_a_task && !request.principal.sees_task(question.task_id)) {
        co_return fail(request, Problem{403, "forbidden", "Forbidden",
                                        "this token is for certain tasks only"});
    }
    if (!from.empty()) {
        if (!request.principal.may(Scope::operate)) {
            co_return fail(request, Problem{403, "forbidden", "Forbidden",
                                            "to write in a session's name takes a token that may "
                                            "operate"});
        }
        const Result<SessionId> sender = find_sender(request, from, question.task_id);
        if (!sender) co_return fail_mail(request, sender.error(), question.task_id);
        question.from = *sender;
        const Result<std::shared_ptr<const SessionState>> state = find_session(request, *sender);
        if (state) question.task_id = (*state)->task_id;
    }
    question.may_see = [principal = request.principal](const std::string& task) {
        return principal.sees_task(task);
    };
    const std::string task = question.task_id;
    Task<Result<Mailroom::Sent>> sending = parts_.mailroom.send(std::move(question), request.note);
    const Result<Mailroom::Sent> sent = co_await on_work(std::move(sending));
    if (!sent) co_return fail_mail(request, sent.error(), task);
    co_return json_response(202, sent->answer);
}

Task<Response> Api::list_aliases(Request& request) {
    const Result<std::size_t> limit = limit_of(request, 50, 500);
    if (!limit) co_return fail(request, limit.error());
    SessionFilter filter;
    filter.limit = std::numeric_limits<std::size_t>::max();
    filter.task_id = request.query_value("task_id");
    filter.has_alias = true;
    if (const auto cursor = request.query_value("cursor")) {
        const Result<SessionId> before = parse_session_id(*cursor);
        if (!before) co_return fail(request, foreign_cursor());
        filter.before = *before;
    }
    std::vector<std::string> items;
    std::string next;
    std::string last;
    for (const SessionSummary& session : parts_.store->list(filter)) {
        if (!request.principal.sees_task(session.task_id)) continue;
        if (items.size() == *limit) {
            next = last;
            break;
        }
        JsonObject out;
        out.text("alias", session.alias).text("session_id", session.id.text());
        out.text_or_null("task_id", session.task_id);
        out.text("status", session.is_active() ? "active" : "idle");
        out.time("last_activity", session.updated_at);
        items.push_back(out.done());
        last = session.id.text();
    }
    JsonObject out;
    out.raw("items", json_list(items)).text_or_null("next_cursor", next);
    co_return json_response(200, out.done());
}

Task<Response> Api::get_inbox(Request& request) {
    const Result<std::shared_ptr<const SessionState>> state = find_session(request);
    if (!state) co_return fail(request, state.error());
    const auto read = [&]() -> Result<Inbox> {
        const Result<std::vector<Record>> log = read_records(*parts_.store, (*state)->id);
        if (!log) return log.error();
        Inbox inbox;
        for (const Record& record : *log)
            inbox.fold(record);
        return inbox;
    };
    const Result<Inbox> inbox = co_await aside((*state)->id, read);
    if (!inbox) co_return fail(request, inbox.error());
    std::vector<std::string> ids;
    for (const InboxEntry& entry : inbox->entries())
        ids.push_back(entry.letter.message_id.text());
    const Result<Page> page = page_of(request, std::move(ids), ListOrder::newest_first);
    if (!page) co_return fail(request, page.error());
    std::vector<std::string> items;
    for (const std::string& id : page->ids) {
        const InboxEntry* entry = inbox->find(MessageId(id));
        const InboxReceived& letter = entry->letter;
        JsonObject out;
        out.text("message_id", letter.message_id.text()).text("from", letter.from);
        out.text_or_null("from_session", letter.from_session.text()).text("text", letter.text);
        out.time("received_at", entry->at).text_or_null("reply_to", letter.reply_to.text());
        out.flag("presented", entry->presented).flag("handled", entry->handled);
        out.flag("asks", letter.asks).text("chain_id", letter.chain_id);
        out.number("hops", letter.hops).text_or_null("stopped", letter.stopped);
        items.push_back(out.done());
    }
    co_return list_response(items, page->next);
}

// As JSON, by their ids.
std::map<std::string, std::string> Api::stopped_chains(const Request& request) const {
    const std::vector<ChainRow> stopped = parts_.system.ask([](const SystemState& state) {
        std::vector<ChainRow> rows;
        for (const auto& [id, row] : state.chains) {
            if (!row.stopped.empty()) rows.push_back(row);
        }
        return rows;
    });
    std::map<std::string, std::string> chains;
    for (const ChainRow& row : stopped) {
        std::vector<std::string> sessions;
        for (const SessionId& id : row.sessions) {
            if (find_session(request, id)) sessions.push_back(to_json_string(id.text()));
        }
        if (sessions.empty()) continue;
        JsonObject out;
        out.text("kind", "chain").text("chain_id", row.chain_id).text("reason", row.stopped);
        out.raw("session_id", sessions.front()).raw("sessions", json_list(sessions));
        out.text("title", "a chain of messages was stopped: too many " + row.stopped);
        out.number("wakes", row.wakes).raw("deadline_at", "").raw("pending", "[]");
        chains.emplace(row.chain_id, out.done());
    }
    return chains;
}

Response Api::list_chains(const Request& request) {
    const std::map<std::string, std::string> chains = stopped_chains(request);
    std::vector<std::string> ids;
    ids.reserve(chains.size());
    for (const auto& [id, chain] : chains)
        ids.push_back(id);
    const Result<Page> page = page_of(request, std::move(ids), ListOrder::newest_first);
    if (!page) return fail(request, page.error());
    std::vector<std::string> items;
    for (const std::string& id : page->ids)
        items.push_back(chains.at(id));
    return list_response(items, page->next);
}

Task<Response> Api::continue_chain(Request& request) {
    Body body(request.body);
    const std::int64_t hops = body.integer("hops").value_or(limits::kChainHops);
    const std::int64_t wakes = body.integer("wakes").value_or(limits::kChainWakes);
    constexpr std::int64_t kMost = 1000;
    if (hops < 0 || hops > kMost) body.complain("hops", "must be from 0 to 1000");
    if (wakes < 1 || wakes > kMost) body.complain("wakes", "must be from 1 to 1000");
    if (std::optional<Problem> problem = body.problem()) co_return fail(request, *problem);
    Mailroom::MaySee may_see;
    if (!request.principal.tasks.empty()) {
        may_see = [principal = request.principal](const std::string& task) {
            return principal.sees_task(task);
        };
    }
    Task<Result<void>> continuing = parts_.mailroom.continue_chain(
        request.path_parameters.at(0), static_cast<std::uint32_t>(hops),
        static_cast<std::uint32_t>(wakes), std::move(may_see));
    const Result<void> done = co_await on_work(std::move(continuing));
    if (!done) co_return fail(request, done.error());
    JsonObject out;
    out.text("chain_id", request.path_parameters.at(0));
    out.number("hops", hops).number("wakes", wakes);
    Response response = json_response(202, out.done());
    std::string kept = response.body;
    co_return co_await remember(request, std::move(response), std::move(kept));
}

}  // namespace rouse::server
