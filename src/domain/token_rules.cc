#include "domain/token_rules.h"

#include "base/digest.h"

namespace rouse {
namespace {

Error invalid_token() {
    return {ErrorKind::denied, "invalid_token",
            "this token does not resume this session; ask for a new one with resume-token"};
}

Error ended(std::string_view reason, std::string_view how) {
    return {ErrorKind::precondition, reason,
            "the resume token was " + std::string(how) +
                "; look at the session's status, and ask for a new token if it still waits"};
}

}  // namespace

std::string hash_of_secret(const Secret& secret) {
    return sha256_hex(secret.reveal());
}

Secret to_token_text(const TokenId& id, const Secret& secret) {
    return Secret(id.text() + "." + secret.reveal());
}

Result<PresentedToken> parse_token_text(std::string_view text) {
    const std::size_t dot = text.find('.');
    if (dot == std::string_view::npos || dot + 1 == text.size()) return invalid_token();
    Result<TokenId> id = TokenId::parse(text.substr(0, dot));
    if (!id) return invalid_token();
    return PresentedToken{*std::move(id), Secret(std::string(text.substr(dot + 1)))};
}

Result<void> validate_token(const SessionState& state, const PresentedToken& presented,
                            Timestamp now) {
    const Token* token = state.find_token(presented.token_id);
    const std::string hash = hash_of_secret(presented.secret);
    if (token == nullptr || !equal_in_constant_time(token->hash, hash)) return invalid_token();
    switch (token->status) {
        case TokenStatus::consumed: return ended("token_consumed", "used already");
        case TokenStatus::revoked: return ended("token_revoked", "revoked");
        case TokenStatus::expired: return ended("token_expired", "not used in time");
        case TokenStatus::active: break;
    }
    if (token->expires_at && clamped(state, now) >= *token->expires_at) {
        return ended("token_expired", "not used in time");
    }
    const bool of_this_wait = state.is_parked() && state.run->run_id == token->run_id &&
                              state.run->wait->wait_id == token->wait_id &&
                              state.run->wait->resume_token_id == token->token_id;
    if (!of_this_wait) return ended("token_revoked", "minted for an earlier wait");
    return {};
}

std::optional<RecordBody> revoke_open_token(const SessionState& state, std::string_view reason) {
    if (!state.is_parked()) return std::nullopt;
    const Token* token = state.find_token(state.run->wait->resume_token_id);
    if (token == nullptr || token->status != TokenStatus::active) return std::nullopt;
    return TokenRevoked{token->token_id, std::string(reason), {}};
}

}  // namespace rouse
