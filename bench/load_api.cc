#include "bench/load_api.h"

#include <boost/json.hpp>
#include <initializer_list>
#include <string_view>

namespace rouse::bench {
namespace {

namespace json = boost::json;

std::string describe(const Request& request, const Answer& answer, const std::string& wanted) {
    constexpr std::size_t kShown = 600;
    return std::string(http::to_string(request.method)) + " " + request.path + " answered " +
           std::to_string(answer.status) + ", not " + wanted + ": " + answer.body.substr(0, kShown);
}

[[noreturn]] void refuse(const Request& request, const Answer& answer, const std::string& wanted) {
    throw Unexpected(std::to_string(answer.status), describe(request, answer, wanted));
}

bool is_success(const Answer& answer) {
    return answer.status == 200 || answer.status == 201;
}

// What stands behind the names, one after the other, in the text of an answer: a generator that
// parsed every answer would measure itself. Empty: it is not there, or no string.
std::string_view text_behind(const Answer& answer, std::initializer_list<std::string_view> names) {
    std::string_view rest = answer.body;
    for (const std::string_view name : names) {
        const std::size_t at = rest.find(name);
        if (at == std::string_view::npos) return {};
        rest.remove_prefix(at + name.size());
    }
    if (!rest.starts_with('"')) return {};
    return rest.substr(1, rest.find('"', 1) - 1);
}

std::string_view outcome_of(const Answer& answer) {
    return text_behind(answer, {R"("outcome":{)", R"("status":)"});
}

Request post(std::string path, const json::object& body) {
    return {http::verb::post, std::move(path), json::serialize(body)};
}

Request get(std::string path) {
    return {http::verb::get, std::move(path), {}};
}

Request create_request(const Work& work) {
    json::object body;
    body["agent"] = work.agent;
    body["message"] = work.message;
    return post("/v1/sessions?wait=" + work.wait, body);
}

Request result_request(const Work& work, const std::string& pending_id) {
    json::object result;
    result["title"] = "deployed";
    result["output"] = "v42";
    result["metadata"] = json::object();
    json::object body;
    body["pendingID"] = pending_id;
    body["result"] = std::move(result);
    return post("/async-tool/result?wait=" + work.wait, body);
}

}  // namespace

Task<Waiting> Api::create() {
    return expect_suspended(create_request(work_), "create", "");
}

Task<Waiting> Api::message(std::string session_id) {
    json::object body;
    body["content"] = work_.message;
    Request request = post("/v1/sessions/" + session_id + "/messages?wait=" + work_.wait, body);
    return expect_suspended(std::move(request), "message", std::move(session_id));
}

Task<Waiting> Api::expect_suspended(Request request, std::string kind, std::string session_id) {
    const Answer answer = co_await client_.send(request, kind);
    const std::string wanted = "a suspended run";
    if (!is_success(answer)) refuse(request, answer, wanted);
    Waiting waiting;
    waiting.session_id =
        session_id.empty() ? std::string(text_behind(answer, {R"("id":)"})) : session_id;
    waiting.pending_id =
        text_behind(answer, {R"("outcome":{)", R"("pending_tool_calls":[)", R"("pending_id":)"});
    const bool suspended = outcome_of(answer) == "suspended";
    if (!suspended || waiting.session_id.empty() || waiting.pending_id.empty()) {
        refuse(request, answer, wanted);
    }
    co_return waiting;
}

Task<void> Api::result(std::string pending_id) {
    const Request request = result_request(work_, pending_id);
    const Answer answer = co_await client_.send(request, "result");
    const std::string wanted = "a completed run";
    if (answer.status != 200) refuse(request, answer, wanted);
    if (outcome_of(answer) != "completed") refuse(request, answer, wanted);
}

Task<std::uint64_t> Api::last_seq(std::string session_id) {
    const Request request = get("/v1/sessions/" + session_id);
    const Answer answer = co_await client_.send(request, "session");
    constexpr std::string_view kName = R"("last_seq":)";
    const std::size_t at = answer.body.find(kName);
    if (answer.status != 200 || at == std::string::npos) {
        refuse(request, answer, "a session with its last_seq");
    }
    co_return std::stoull(answer.body.substr(at + kName.size(), 20));
}

Task<void> Api::create_idle(std::string alias) {
    json::object body;
    body["agent"] = work_.agent;
    body["alias"] = alias;
    const Request request = post("/v1/sessions", body);
    const Answer answer = co_await client_.send(request, "create");
    if (answer.status != 201) refuse(request, answer, "a new session");
}

Task<void> Api::letter(std::string alias) {
    json::object body;
    body["to"] = alias;
    body["message"] = work_.message;
    const Request request = post("/v1/broadcast", body);
    const Answer answer = co_await client_.send(request, "letter");
    const std::string_view action = text_behind(answer, {R"("delivered":[)", R"("action":)"});
    const bool woken = answer.status == 202 && action == "woken";
    if (!woken) refuse(request, answer, "a session that it wakes");
}

Task<std::uint64_t> Api::runs() {
    const Request request = get("/metrics");
    const Answer answer = co_await client_.send(request, "metrics");
    std::uint64_t runs = 0;
    for (const char* name : {"\nrouse_runs_in_flight ", "\nrouse_runs_queued "}) {
        const std::size_t at = answer.body.find(name);
        if (at == std::string::npos) refuse(request, answer, "the number of runs");
        runs += std::stoull(answer.body.substr(at + std::string_view(name).size()));
    }
    co_return runs;
}

Task<void> Api::read_session(std::string session_id) {
    const Request request = get("/v1/sessions/" + session_id);
    const Answer answer = co_await client_.send(request, "session");
    const bool right = answer.status == 200 && text_behind(answer, {R"("id":)"}) == session_id;
    if (!right) refuse(request, answer, "that session");
}

Task<void> Api::read_health() {
    const Request request = get("/healthz");
    const Answer answer = co_await client_.send(request, "healthz");
    if (answer.status != 200) refuse(request, answer, "200");
}

Task<void> Api::ceiling_cycle() {
    const Request first = create_request(work_);
    const Answer created = co_await client_.send(first, "create");
    if (created.status != 200) refuse(first, created, "200");
    const Request second = result_request(work_, std::string(52, 'p'));  // as long as a real one
    const Answer done = co_await client_.send(second, "result");
    if (done.status != 200) refuse(second, done, "200");
}

}  // namespace rouse::bench
