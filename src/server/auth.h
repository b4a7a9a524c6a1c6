#pragma once

// Who may ask: bearer tokens with scopes, the names a request may be addressed to, and patience
// with those who guess. On the loop of the connections.

#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/secret.h"
#include "runtime/system_log.h"
#include "server/http.h"

namespace rouse::server {

struct AuthOptions {
    std::string admin_hash;  // of the token in the data directory; empty with `open`
    bool open = false;       // no authentication: loopback only
    std::vector<std::string> allowed_hosts;
    std::vector<std::string> cors_origins;
    std::size_t failed_logins_per_minute = 10;
    std::size_t refused_results_per_minute = 60;
};

// How often an address was refused lately.
class Patience {
 public:
    Patience(Clock& clock, std::size_t limit, std::chrono::seconds window)
        : clock_(clock), limit_(limit), window_(window) {}
    // Seconds until the next try is allowed; nothing when it is.
    std::optional<std::int64_t> refuses(const std::string& who);
    void note(const std::string& who);

 private:
    std::deque<std::chrono::nanoseconds>& recent(const std::string& who);

    Clock& clock_;
    std::size_t limit_;
    std::chrono::seconds window_;
    std::unordered_map<std::string, std::deque<std::chrono::nanoseconds>> refused_;
};

class Auth final {
 public:
    Auth(Clock& clock, AuthOptions options, SystemLog& system);

    // The Host, the Origin and the bearer token. Fills in the principal; a problem when the request
    // must not go on.
    std::optional<Problem> check_origin(const Request& request) const;
    // The page that asks is one of those that the configuration names.
    bool is_cors_origin(std::string_view origin) const;
    std::optional<Problem> identify(Request& request);

    Patience& submissions() { return submissions_; }

 private:
    bool host_is_ours(std::string_view host) const;
    std::optional<Principal> find(std::string_view token) const;

    AuthOptions options_;
    SystemLog& system_;
    Patience logins_;
    Patience submissions_;
};

// rk_<id>.<secret>: what a client sends; the id leads to the record.
struct ApiTokenText {
    std::string id;
    std::string secret;
};
std::optional<ApiTokenText> parse_api_token(std::string_view text);

}  // namespace rouse::server
