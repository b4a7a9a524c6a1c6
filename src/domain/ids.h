#pragma once

// The names of things. All but CallId are ours; a call id is the model's and may be any text.

#include <string>
#include <string_view>

#include "base/id.h"

namespace rouse {

struct SessionTag {
    static constexpr std::string_view prefix = "sess_";
};
struct RunTag {
    static constexpr std::string_view prefix = "run_";
};
struct MessageTag {
    static constexpr std::string_view prefix = "msg_";
};
struct PendingTag {
    static constexpr std::string_view prefix = "pnd_";
};
struct WaitTag {
    static constexpr std::string_view prefix = "wait_";
};
struct TokenTag {
    static constexpr std::string_view prefix = "rt_";
};
struct BootTag {
    static constexpr std::string_view prefix = "boot_";
};

using SessionId = Id<SessionTag>;
using RunId = Id<RunTag>;
using MessageId = Id<MessageTag>;
using PendingId = Id<PendingTag>;
using WaitId = Id<WaitTag>;
using TokenId = Id<TokenTag>;
using BootId = Id<BootTag>;

// Turn-scoped and not secret. Never a file name.
struct CallId {
    std::string text;
    friend auto operator<=>(const CallId&, const CallId&) = default;
};

// The position of a record in its log: 1, 2, 3, … without gaps. 0 is before the first.
using Seq = std::uint64_t;

// The log of what belongs to no session. Not a valid session id, so nobody can ask for it by name.
const SessionId& system_log();

// "sess_" and up to 26 letters, digits or dashes: no underscore, so that a pending id can be taken
// apart again. invalid.
Result<SessionId> parse_session_id(std::string_view text);

// pnd_<session part>_<random>: leads to its session without any table.
PendingId make_pending_id(const SessionId& session, std::string_view random_text);
// invalid: not a pending id.
Result<SessionId> session_of(const PendingId& pending);

}  // namespace rouse
