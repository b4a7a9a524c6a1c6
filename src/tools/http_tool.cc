#include "tools/http_tool.h"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/system/system_error.hpp>

#include "base/utf8.h"
#include "tools/job_start.h"
#include "tools/tool_answer.h"

namespace rouse {
namespace {

// Whoever is cancelled does not get an error result: the call has no end.
ToolOutcome failed_request(const Error& error) {
    if (error.kind == ErrorKind::cancelled) {
        throw boost::system::system_error(boost::asio::error::operation_aborted);
    }
    if (!may_have_been_sent(error)) {
        return ToolOutcome::error("the request was not sent: " + to_utf8(error.message));
    }
    return ToolOutcome::error("the request was sent and may have been carried out, but: " +
                              to_utf8(error.message));
}

bool succeeded(const HttpResponse& response) {
    return response.status >= 200 && response.status < 300;
}

ToolOutcome refused(const HttpResponse& response) {
    std::string message = "the tool's server answered " + std::to_string(response.status);
    if (response.status >= 300 && response.status < 400) message += " (redirects are not followed)";
    const std::string words = to_utf8(response.body);
    if (!words.empty()) message += ": " + std::string(utf8_head(words, limits::kToolErrorBytes));
    return ToolOutcome::error(message);
}

bool equal_names(std::string_view a, std::string_view b) {
    const auto lower = [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    };
    return std::ranges::equal(a, b, {}, lower, lower);
}

void add_header(HttpHeaders& headers, std::string_view name, std::string value) {
    const auto named = [&](const auto& header) { return equal_names(header.first, name); };
    if (std::ranges::none_of(headers, named)) headers.emplace_back(name, std::move(value));
}

// invalid: a member that no query can carry.
Result<std::string> to_query(const RawJson& input) {
    std::vector<JsonMember> members;
    if (Result<void> split = split_object(input.text(), members); !split) return split.error();
    std::string query;
    for (const JsonMember& member : members) {
        if (member.value == "null") continue;
        const std::optional<std::string> key =
            read_json_string("\"" + std::string(member.key) + "\"");
        if (!key || member.value.starts_with('{') || member.value.starts_with('[')) {
            return Error(ErrorKind::invalid, "invalid_input",
                         "only texts, numbers and flags fit into this tool's query, not " +
                             std::string(member.key));
        }
        const std::optional<std::string> text = read_json_string(member.value);
        if (!query.empty()) query += '&';
        query += percent_encode(*key) + "=" + percent_encode(text ? *text : member.value);
    }
    return query;
}

std::string with_query(std::string url, const std::string& query) {
    url.resize(std::min(url.find('#'), url.size()));
    if (query.empty()) return url;
    return url + (url.contains('?') ? '&' : '?') + query;
}

class HttpTool final : public Tool {
 public:
    HttpTool(HttpToolOptions options, HttpClient& client)
        : Tool(options.spec), options_(std::move(options)), client_(client) {}

    Task<ToolOutcome> call(ToolCall call) override {
        return spec().async ? start_job(std::move(call)) : ask(std::move(call));
    }

 private:
    Task<ToolOutcome> ask(ToolCall call) {
        Result<HttpRequest> request = make_request(call);
        if (!request) co_return ToolOutcome::error(request.error().message);
        const Result<HttpResponse> response = co_await client_.send(*std::move(request));
        if (!response) co_return failed_request(response.error());
        if (!succeeded(*response)) co_return refused(*response);
        ToolOutcome outcome;
        outcome.result = parse_tool_answer(response->body);
        co_return outcome;
    }

    Task<ToolOutcome> start_job(ToolCall call) {
        if (call.pending_id.empty()) co_return needs_durable_session(call);
        HttpRequest request = make_start(call);
        const Result<HttpResponse> response = co_await client_.send(std::move(request));
        ToolOutcome outcome;
        if (response) {
            if (!succeeded(*response)) co_return refused(*response);
            outcome.suspend = read_job_started(response->body);
        } else {
            const Error& error = response.error();
            const bool unknown = error.kind != ErrorKind::cancelled && may_have_been_sent(error);
            if (!unknown) co_return failed_request(error);
            outcome.suspend = job_not_confirmed();
        }
        outcome.suspend->timeout = spec().timeout;
        co_return outcome;
    }

    HttpRequest common_request() const {
        HttpRequest request;
        request.headers = options_.headers;
        request.total_timeout = options_.timeout;
        request.max_response_bytes = options_.response_bytes;
        request.ca_file = options_.ca_file;
        request.proxy = options_.proxy;
        request.allow_private_addresses = options_.allow_private_addresses;
        return request;
    }

    Result<HttpRequest> make_request(const ToolCall& call) const {
        HttpRequest request = common_request();
        request.method = options_.method;
        request.url = options_.url;
        const ToolAnnotations& annotations = spec().annotations;
        request.may_repeat = annotations.read_only || annotations.idempotent;
        const std::string& method = options_.method;
        if (method == "GET" || method == "HEAD" || method == "DELETE") {
            const Result<std::string> query = to_query(call.input);
            if (!query) return query.error();
            request.url = with_query(std::move(request.url), *query);
        } else {
            request.body = call.input.text();
            add_header(request.headers, "Content-Type", "application/json");
        }
        if (!call.session_id.empty()) {
            // A call id is the model's and may be any text, and come again in another message.
            std::string key = call.session_id.text() + "-";
            if (!call.message_id.empty()) key += call.message_id.text() + "-";
            key += percent_encode(call.id.text);
            add_header(request.headers, "Idempotency-Key", key);
            add_header(request.headers, "X-Rouse-Session", call.session_id.text());
        }
        return request;
    }

    HttpRequest make_start(const ToolCall& call) const {
        HttpRequest request = common_request();
        request.method = "POST";
        request.url = options_.url;
        add_header(request.headers, "Content-Type", "application/json");
        add_header(request.headers, "Idempotency-Key", call.pending_id.text());
        add_header(request.headers, "X-Rouse-Session", call.session_id.text());
        request.body = describe_job(call, options_.callback);
        return request;
    }

    HttpToolOptions options_;
    HttpClient& client_;
};

}  // namespace

std::shared_ptr<Tool> make_http_tool(HttpToolOptions options, HttpClient& client) {
    return std::make_shared<HttpTool>(std::move(options), client);
}

}  // namespace rouse
