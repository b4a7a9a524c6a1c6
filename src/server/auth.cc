#include "server/auth.h"

#include <algorithm>

#include "base/digest.h"

namespace rouse::server {
namespace {

constexpr std::chrono::seconds kWindow{60};
constexpr std::size_t kAddressesKept = 10'000;

Problem unauthorized(std::string detail) {
    Problem problem{401, "unauthorized", "Unauthorized", std::move(detail)};
    problem.headers.emplace_back("WWW-Authenticate", "Bearer");
    return problem;
}

std::string_view without_port(std::string_view host) {
    if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
    return host.substr(0, host.find(':'));
}

}  // namespace

std::deque<std::chrono::nanoseconds>& Patience::recent(const std::string& who) {
    if (refused_.size() > kAddressesKept) refused_.clear();
    std::deque<std::chrono::nanoseconds>& times = refused_[who];
    while (!times.empty() && times.front() + window_ < clock_.monotonic())
        times.pop_front();
    return times;
}

std::optional<std::int64_t> Patience::refuses(const std::string& who) {
    if (!refused_.contains(who)) return std::nullopt;
    const std::deque<std::chrono::nanoseconds>& times = recent(who);
    if (times.size() < limit_) return std::nullopt;
    const auto left = times.front() + window_ - clock_.monotonic();
    return std::chrono::ceil<std::chrono::seconds>(left).count();
}

void Patience::note(const std::string& who) {
    std::deque<std::chrono::nanoseconds>& times = recent(who);
    times.push_back(clock_.monotonic());
    if (times.size() > limit_) times.pop_front();
}

Auth::Auth(Clock& clock, AuthOptions options, SystemLog& system)
    : options_(std::move(options)),
      system_(system),
      logins_(clock, options_.failed_logins_per_minute, kWindow),
      submissions_(clock, options_.refused_results_per_minute, kWindow) {}

bool Auth::host_is_ours(std::string_view host) const {
    const std::string lower = lower_case(host);
    const std::string_view name = without_port(lower);
    if (name == "localhost" || name == "127.0.0.1" || name == "[::1]") return true;
    return std::ranges::any_of(options_.allowed_hosts, [&](const std::string& allowed) {
        return name == without_port(lower_case(allowed));
    });
}

bool Auth::is_cors_origin(std::string_view origin) const {
    return std::ranges::find(options_.cors_origins, origin) != options_.cors_origins.end();
}

// Nothing else stops a page that has its own name resolve to us.
std::optional<Problem> Auth::check_origin(const Request& request) const {
    const std::string_view host = request.header("host");
    if (!host_is_ours(host)) {
        return Problem{421, "wrong_host", "Wrong host",
                       "this server does not answer to that name; add it to server.allowed_hosts"};
    }
    const std::string_view origin = request.header("origin");
    const std::string_view site = request.header("sec-fetch-site");
    std::string_view origin_host = origin.substr(std::min(origin.find("//"), origin.size()));
    if (origin_host.starts_with("//")) origin_host.remove_prefix(2);
    const bool same = origin.empty() || origin_host == host;
    if ((same && site != "cross-site") || is_cors_origin(origin)) return std::nullopt;
    return Problem{403, "forbidden", "Forbidden",
                   "requests from other sites are refused; see server.cors_origins"};
}

std::optional<Principal> Auth::find(std::string_view token) const {
    Principal principal;
    if (equal_in_constant_time(sha256_hex(token), options_.admin_hash)) {
        principal.id = "admin";
        principal.scope = Scope::admin;
        return principal;
    }
    const std::optional<ApiTokenText> text = parse_api_token(token);
    if (!text) return std::nullopt;
    const std::optional<ApiTokenRow> row =
        system_.ask([&](const SystemState& state) -> std::optional<ApiTokenRow> {
            const auto found = state.tokens.find(text->id);
            if (found == state.tokens.end()) return std::nullopt;
            return found->second;
        });
    if (!row || !equal_in_constant_time(sha256_hex(text->secret), row->token.hash)) {
        return std::nullopt;
    }
    principal.id = row->token.token_id;
    principal.scope = row->token.scope;
    principal.tasks = row->token.tasks;
    principal.revocable = true;
    return principal;
}

std::optional<Problem> Auth::identify(Request& request) {
    if (options_.open) {
        request.principal = {"anybody", Scope::admin, {}};
        return std::nullopt;
    }
    const std::string_view header = request.header("authorization");
    if (header.empty()) return std::nullopt;
    constexpr std::string_view kBearer = "bearer ";
    std::optional<Principal> principal;
    if (lower_case(header.substr(0, kBearer.size())) == kBearer)
        principal = find(header.substr(kBearer.size()));
    // The right token is never refused, whatever others at that address tried.
    if (const auto seconds = logins_.refuses(request.remote); !principal && seconds) {
        Problem problem{429, "rate_limited", "Too many wrong tokens",
                        "wait, then try again with the right token"};
        problem.headers.emplace_back("Retry-After", std::to_string(*seconds));
        return problem;
    }
    if (!principal) {
        logins_.note(request.remote);
        return unauthorized(
            "the token is not one of ours; the first start wrote one to the file "
            "`token` in the data directory");
    }
    request.principal = *std::move(principal);
    return std::nullopt;
}

std::optional<ApiTokenText> parse_api_token(std::string_view text) {
    const std::size_t dot = text.find('.');
    if (!text.starts_with("rk_") || dot == std::string_view::npos) return std::nullopt;
    return ApiTokenText{std::string(text.substr(0, dot)), std::string(text.substr(dot + 1))};
}

}  // namespace rouse::server
