#pragma once

// The life of a resume token: minted with a wait, shown once, then consumed, revoked or expired.
// On the wire it is rt_<id>.<secret>; stored is only the hash of the secret.

#include <optional>
#include <string>
#include <string_view>

#include "base/secret.h"
#include "domain/state.h"

namespace rouse {

// What a new token needs from outside: the id, and the hash of a secret that somebody else keeps.
struct NewToken {
    TokenId token_id;
    std::string hash;
};

struct PresentedToken {
    TokenId token_id;
    Secret secret;
};

std::string hash_of_secret(const Secret& secret);
Secret to_token_text(const TokenId& id, const Secret& secret);
// denied "invalid_token": not of the form rt_<id>.<secret>.
Result<PresentedToken> parse_token_text(std::string_view text);

// May this token resume the session's open wait? Never says more to a stranger than to a guesser:
// unknown id, wrong secret and another session's token are all "invalid_token".
//   denied        invalid_token
//   precondition  token_expired | token_revoked | token_consumed
Result<void> validate_token(const SessionState& state, const PresentedToken& presented,
                            Timestamp now);

// The record that ends the wait's token when its run ends; nothing when there is none to end.
std::optional<RecordBody> revoke_open_token(const SessionState& state, std::string_view reason);

}  // namespace rouse
