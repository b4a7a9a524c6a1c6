#pragma once

// A request and a response as the handlers see them. The wire is connection.cc's business.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "domain/system_records.h"
#include "rouse/tool.h"
#include "runtime/request_note.h"

namespace rouse::server {

// Who asks, and what they may do.
struct Principal {
    std::string id;  // empty: nobody knows
    std::optional<Scope> scope;
    std::vector<std::string> tasks;  // empty: all
    bool revocable = false;

    bool may(Scope needed) const { return scope && *scope >= needed; }
    bool sees_task(const std::string& task) const;
    // Sees all that somebody with a token for these tasks sees; none: all tasks.
    bool covers(const std::vector<std::string>& others) const;
};

struct Request {
    std::string id;  // appears in errors and in the log
    std::string method;
    std::string target;                                        // as it came
    std::string path;                                          // decoded, without the query
    std::vector<std::string> path_parameters;                  // in the order of the pattern's
    std::map<std::string, std::string> query = {};             // decoded; the last of a name counts
    std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
    std::string body;
    std::string remote;  // address
    Principal principal;
    std::optional<RequestNote> note = {};  // with an Idempotency-Key
    // What a long log says of a call that the state no longer has, read before it is asked for.
    struct PastCall {
        PendingId id;
        std::optional<PendingCall> call;  // nothing: there never was one
    };
    std::optional<PastCall> past_call = {};
    // Asks to be told when the client closes the connection, or its side of it: which of the two
    // cannot be seen before something is sent. Who does not ask `at_once` is told a second later,
    // and most are answered by then.
    enum class Look : std::uint8_t { at_once, later };
    std::function<std::stop_token(Look)> watch_client = [](Look) { return std::stop_token(); };

    std::string_view header(std::string_view name) const;
    std::optional<std::string> query_value(const std::string& name) const;
};

// What a stream sends: bytes as they come, until it ends.
class EventSource {
 public:
    virtual ~EventSource() = default;
    // The next bytes to send; empty: the stream is over.
    virtual Task<std::string> next() = 0;
    virtual void close() = 0;
    // Nothing more is to be sent, not even the rest of what next() gave, if that is long.
    virtual bool is_closed() const = 0;
};

struct Response {
    int status = 200;
    std::string body = {};
    std::string content_type = "application/json";
    std::vector<std::pair<std::string, std::string>> headers = {};
    std::unique_ptr<EventSource> events = {};  // instead of a body
    bool close = false;
    bool known = false;  // whoever asked showed a valid token
};

// ASCII letters only.
std::string lower_case(std::string_view text);

Response json_response(int status, std::string body);

// An error as clients see it (RFC 9457).
struct Problem {
    int status = 500;
    std::string code;
    std::string title;
    std::string detail;
    std::string field = {};    // where in the body
    std::string members = {};  // more JSON members, each with a leading comma
    std::vector<std::pair<std::string, std::string>> headers = {};
};

// The one place where an error gets its status.
Problem to_problem(const Error& error);
Response problem_response(Problem problem, const std::string& request_id);

}  // namespace rouse::server
