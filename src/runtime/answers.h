#pragma once

// The bodies of answers to commands: contracts with clients.

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "domain/codec.h"
#include "domain/ids.h"

namespace rouse::answers {

struct Messaged {
    MessageId message_id;
    RunId run_id;
    Seq seq = 0;
    bool queued = false;
    std::vector<PendingId> superseded;
    static constexpr auto fields() {
        using S = Messaged;
        return std::tuple(required("message_id", &S::message_id), required("run_id", &S::run_id),
                          required("seq", &S::seq), field("queued", &S::queued),
                          field("superseded", &S::superseded));
    }
};

struct RunChanged {
    RunId run_id;
    Seq seq = 0;
    static constexpr auto fields() {
        return std::tuple(required("run_id", &RunChanged::run_id),
                          required("seq", &RunChanged::seq));
    }
};

struct Resumed {
    RunId run_id;
    Seq seq = 0;
    std::vector<CallId> remaining;
    bool duplicate = false;
    static constexpr auto fields() {
        using S = Resumed;
        return std::tuple(required("run_id", &S::run_id), required("seq", &S::seq),
                          required("remaining", &S::remaining), field("duplicate", &S::duplicate));
    }
};

struct TokenShown {
    std::string token;
    TokenId token_id;
    std::optional<Timestamp> expires_at;
    static constexpr auto fields() {
        using S = TokenShown;
        return std::tuple(required("token", &S::token), required("token_id", &S::token_id),
                          nullable("expires_at", &S::expires_at));
    }
};

// Of the pending-call API, which has words of its own.
struct Settled {
    bool success = true;
    SessionId session_id;
    bool duplicate = false;
    static constexpr auto fields() {
        using S = Settled;
        return std::tuple(required("success", &S::success), required("sessionID", &S::session_id),
                          field("duplicate", &S::duplicate));
    }
};

struct Decided {
    RunId run_id;
    SessionId session_id;
    Seq seq = 0;
    bool duplicate = false;
    static constexpr auto fields() {
        using S = Decided;
        return std::tuple(required("run_id", &S::run_id), required("session_id", &S::session_id),
                          required("seq", &S::seq), field("duplicate", &S::duplicate));
    }
};

}  // namespace rouse::answers
