#include "client/client.h"

#include "client/blocking_http.h"
#include "client/errors.h"

namespace rouse::client {
namespace {

constexpr Milliseconds kLongestAnswer{60'000};
constexpr std::size_t kAnswerBytes = 256U << 20U;

// A JSON object of what is given.
class Fields final {
 public:
    Fields& text(std::string_view name, std::string_view value) {
        return raw(name, to_json_string(value));
    }
    Fields& text_if(std::string_view name, std::string_view value) {
        return value.empty() ? *this : text(name, value);
    }
    Fields& raw(std::string_view name, std::string_view json) {
        if (json.empty()) return *this;
        if (!out_.empty()) out_ += ',';
        append_json_string(out_, name);
        out_ += ':';
        out_ += json;
        return *this;
    }
    std::string done() const { return "{" + out_ + "}"; }

 private:
    std::string out_;
};

class Query final {
 public:
    Query& add(std::string_view name, std::string_view value) {
        if (value.empty()) return *this;
        text_ += text_.empty() ? '?' : '&';
        text_.append(name).append("=").append(percent_encode(value));
        return *this;
    }
    Query& add(const Page& page) {
        if (page.limit > 0) add("limit", std::to_string(page.limit));
        return add("cursor", page.cursor);
    }
    const std::string& text() const { return text_; }

 private:
    std::string text_;
};

std::string path_of(const SessionId& id, std::string_view rest = {}) {
    return "/v1/sessions/" + percent_encode(id.text()).append(rest);
}

std::string path_of_call(const std::string& pending_id) {
    return "/async-tool/pending/" + percent_encode(pending_id);
}

}  // namespace

Client::Client(ClientOptions options)
    : server_(std::move(options.server)),
      http_(std::make_unique<BlockingHttp>(options.interrupt)) {}

Client::~Client() = default;

Result<std::string> Client::ask(std::string_view method, const std::string& target,
                                std::string body) {
    HttpRequest request;
    request.method = method;
    request.url = server_.url + target;
    request.ca_file = server_.ca_file;
    request.headers.emplace_back("Accept", "application/json");
    if (!body.empty()) request.headers.emplace_back("Content-Type", "application/json");
    if (!server_.token.reveal().empty()) {
        request.headers.emplace_back("Authorization", "Bearer " + server_.token.reveal());
    }
    request.body = std::move(body);
    request.total_timeout = kLongestAnswer;
    request.max_response_bytes = kAnswerBytes;
    request.allow_private_addresses = true;
    Result<HttpResponse> response = http_->send(std::move(request));
    if (!response) return to_error(response.error(), server_.url);
    if (response->status < 200 || response->status > 299) return to_error(*response);
    return std::move(response->body);
}

template <class T>
Result<Answer<T>> Client::ask_for(std::string_view method, const std::string& target,
                                  std::string body) {
    Result<std::string> json = ask(method, target, std::move(body));
    if (!json) return json.error();
    const Result<RawJson> checked = RawJson::parse(*json);
    Result<T> value =
        checked ? from_json<T>(checked->text(), "the answer") : Result<T>(checked.error());
    if (!value) {
        return Error(ErrorKind::corrupt, "malformed_answer",
                     "the answer of " + server_.url + " to " + std::string(method) + " " + target +
                         " is not what this version expects; is it a Rouse server?");
    }
    return Answer<T>{*std::move(json), *std::move(value)};
}

// ---- sessions -------------------------------------------------------------------------------

Result<Answer<SessionView>> Client::create_session(const NewSession& session) {
    Fields body;
    body.text_if("agent", session.agent).text_if("title", session.title);
    body.text_if("message", session.message);
    if (!session.provider_type.empty()) {
        Fields provider;
        provider.text("type", session.provider_type).text("model", session.provider_model);
        body.raw("provider", provider.done());
    }
    const std::string target = "/v1/sessions" + Query().add("wait", session.wait).text();
    return ask_for<SessionView>("POST", target, body.done());
}

Result<Answer<SessionList>> Client::sessions(const SessionQuery& query) {
    Query text;
    text.add("status", query.status).add("agent", query.agent).add("task_id", query.task_id);
    text.add("alias", query.alias).add(query.page);
    return ask_for<SessionList>("GET", "/v1/sessions" + text.text());
}

Result<Answer<SessionView>> Client::session(const SessionId& id) {
    return ask_for<SessionView>("GET", path_of(id));
}

Result<Answer<Conversation>> Client::messages(const SessionId& id) {
    return ask_for<Conversation>("GET", path_of(id, "/messages"));
}

Result<Answer<LogPage>> Client::log(const SessionId& id, Seq from_seq, std::size_t limit) {
    Query query;
    query.add("from_seq", std::to_string(from_seq)).add("limit", std::to_string(limit));
    return ask_for<LogPage>("GET", path_of(id, "/log") + query.text());
}

Result<Answer<Explanation>> Client::explain(const SessionId& id) {
    return ask_for<Explanation>("GET", path_of(id, "/explain"));
}

Result<Answer<SessionView>> Client::fork(const SessionId& id, std::optional<Seq> at_seq,
                                         const std::string& title) {
    Fields body;
    body.text_if("title", title).raw("at_seq", at_seq ? std::to_string(*at_seq) : "");
    return ask_for<SessionView>("POST", path_of(id, "/fork"), body.done());
}

Result<void> Client::remove(const SessionId& id) {
    const Result<std::string> done = ask("DELETE", path_of(id), {});
    if (!done) return done.error();
    return {};
}

// ---- runs -----------------------------------------------------------------------------------

Result<Answer<Moved>> Client::send_message(const SessionId& id, const std::string& text,
                                           const std::string& on_waiting) {
    Fields body;
    body.text("content", text).text_if("on_waiting", on_waiting);
    return ask_for<Moved>("POST", path_of(id, "/messages"), body.done());
}

Result<Answer<Moved>> Client::resume(const SessionId& id, const CallResults& results) {
    Fields given;
    for (const auto& [call, result] : results)
        given.raw(call.text, to_json(result));
    Fields body;
    body.raw("results", given.done());
    return ask_for<Moved>("POST", path_of(id, "/resume"), body.done());
}

Result<Answer<Moved>> Client::go_on(const SessionId& id) {
    return ask_for<Moved>("POST", path_of(id, "/continue"), "{}");
}

Result<Answer<Moved>> Client::cancel(const SessionId& id, const std::string& mode) {
    return ask_for<Moved>("POST", path_of(id, "/cancel"), Fields().text_if("mode", mode).done());
}

EventStream Client::follow(const SessionId& id, std::optional<Seq> from_seq) {
    return {*http_, server_, path_of(id, "/events"), from_seq};
}

EventStream Client::follow_all() {
    return {*http_, server_, "/v1/events", std::nullopt};
}

// ---- waits and calls ------------------------------------------------------------------------

Result<Answer<WaitList>> Client::waits(const std::string& kind, const Page& page) {
    Query query;
    query.add("kind", kind).add(page);
    return ask_for<WaitList>("GET", "/v1/waits" + query.text());
}

Result<Answer<MailSent>> Client::broadcast(const MailToSend& mail) {
    Fields body;
    body.text_if("from", mail.from).text_if("task_id", mail.task_id).text_if("to", mail.to);
    body.text_if("reply_to", mail.reply_to).text("message", mail.message);
    return ask_for<MailSent>("POST", "/v1/broadcast", body.done());
}

Result<Answer<LetterList>> Client::inbox(const SessionId& id, const Page& page) {
    return ask_for<LetterList>("GET", path_of(id, "/inbox") + Query().add(page).text());
}

Result<Answer<CallList>> Client::calls(const std::optional<SessionId>& session,
                                       const std::string& status, const Page& page) {
    Query query;
    query.add("sessionID", session ? session->text() : "");
    query.add("status", status).add(page);
    return ask_for<CallList>("GET", "/async-tool/pending" + query.text());
}

Result<Answer<OneCall>> Client::call(const std::string& pending_id) {
    return ask_for<OneCall>("GET", path_of_call(pending_id));
}

Result<Answer<Settled>> Client::complete(const std::string& pending_id, const std::string& output,
                                         const std::string& title) {
    const std::string result = Fields().text("title", title).text("output", output).done();
    Fields body;
    body.text("pendingID", pending_id).raw("result", result);
    return ask_for<Settled>("POST", "/async-tool/result", body.done());
}

Result<Answer<Settled>> Client::fail(const std::string& pending_id, const std::string& error) {
    Fields body;
    body.text("pendingID", pending_id).text("error", error);
    return ask_for<Settled>("POST", "/async-tool/error", body.done());
}

Result<Answer<Settled>> Client::cancel_call(const std::string& pending_id) {
    return ask_for<Settled>("DELETE", path_of_call(pending_id));
}

Result<Answer<Moved>> Client::decide(const std::string& pending_id, const Decision& decision) {
    Fields body;
    body.text("decision", decision.approve ? "approve" : "deny");
    body.raw("input", decision.input.text()).text_if("input_digest", decision.input_digest);
    body.text_if("message", decision.message);
    const std::string target = "/v1/pending/" + percent_encode(pending_id) + "/decision";
    return ask_for<Moved>("POST", target, body.done());
}

// ---- tokens ---------------------------------------------------------------------------------

Result<Answer<TokenView>> Client::create_token(const std::string& name, const std::string& scope,
                                               const std::vector<std::string>& tasks) {
    Fields body;
    body.text("name", name).text_if("scope", scope);
    if (!tasks.empty()) body.raw("tasks", to_json(tasks));
    return ask_for<TokenView>("POST", "/v1/tokens", body.done());
}

Result<Answer<TokenList>> Client::tokens(const Page& page) {
    return ask_for<TokenList>("GET", "/v1/tokens" + Query().add(page).text());
}

Result<void> Client::revoke_token(const std::string& id) {
    const Result<std::string> done = ask("DELETE", "/v1/tokens/" + percent_encode(id), {});
    if (!done) return done.error();
    return {};
}

// ---- events ---------------------------------------------------------------------------------

Result<Record> record_of(const Event& event) {
    std::vector<JsonMember> members;
    if (Result<void> split = split_object(event.data, members); !split) return split.error();
    // The stream puts the session in front of what the log has.
    for (const JsonMember& member : members) {
        if (member.key != "seq") continue;
        const auto at = static_cast<std::size_t>(member.key.data() - event.data.data()) - 1;
        return parse_record("{" + event.data.substr(at));
    }
    return Error(ErrorKind::corrupt, "malformed_record", "an event without a seq");
}

}  // namespace rouse::client
