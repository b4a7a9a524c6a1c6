#include "bench/load_api.h"

#include <boost/json.hpp>

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

// The members of an answer, in memory that is given back as a whole.
class Parsed {
 public:
    explicit Parsed(const Answer& answer) {
        json::error_code failed;
        value_ = json::parse(answer.body, failed, &memory_);
        if (failed) value_ = nullptr;
    }

    // Empty: there is no string at this pointer.
    std::string_view text(std::string_view pointer) const {
        json::error_code failed;
        const json::value* found = value_.find_pointer(pointer, failed);
        if (found == nullptr || !found->is_string()) return {};
        return found->get_string();
    }

    std::optional<std::uint64_t> number(std::string_view pointer) const {
        json::error_code failed;
        const json::value* found = value_.find_pointer(pointer, failed);
        if (found == nullptr || !found->is_int64()) return std::nullopt;
        return static_cast<std::uint64_t>(found->get_int64());
    }

 private:
    unsigned char buffer_[16384];
    json::monotonic_resource memory_{buffer_};
    json::value value_ = json::value(json::storage_ptr(&memory_));
};

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
    const Parsed parsed(answer);
    Waiting waiting;
    waiting.session_id = session_id.empty() ? std::string(parsed.text("/id")) : session_id;
    waiting.pending_id = parsed.text("/outcome/suspension/pending_tool_calls/0/pending_id");
    const bool suspended = parsed.text("/outcome/status") == "suspended";
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
    const Parsed parsed(answer);
    if (parsed.text("/outcome/status") != "completed") refuse(request, answer, wanted);
}

Task<std::uint64_t> Api::last_seq(std::string session_id) {
    const Request request = get("/v1/sessions/" + session_id);
    const Answer answer = co_await client_.send(request, "session");
    const Parsed parsed(answer);
    const std::optional<std::uint64_t> seq = parsed.number("/last_seq");
    if (answer.status != 200 || !seq) refuse(request, answer, "a session with its last_seq");
    co_return *seq;
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
    const Parsed parsed(answer);
    const bool woken = answer.status == 202 && parsed.text("/delivered/0/action") == "woken";
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
    const Parsed parsed(answer);
    const bool right = answer.status == 200 && parsed.text("/id") == session_id;
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
