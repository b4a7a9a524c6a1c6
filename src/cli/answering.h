#pragma once

// Open calls put to the person at the terminal, and what the person says sent to the server.

#include <optional>

#include "cli/prompt.h"
#include "cli/server_commands.h"

namespace rouse::cli {

// What a person made of a call.
struct GivenAnswer {
    std::optional<client::Decision> decision;  // on a call that asks for approval
    std::string result;                        // of any other
};

// Nothing: the person passed, with Ctrl-D or, where that says nothing else, an empty line.
// cancelled: Ctrl-C.
Result<std::optional<GivenAnswer>> put_to_person(const client::PendingView& call, Prompt& prompt,
                                                 const Terminal& terminal);

enum class WhichCalls : std::uint8_t { for_a_person, all };

// The seq behind which the answers are, or nothing when none was given. A call that somebody else
// settled in the meantime is no error.
Result<std::optional<Seq>> answer_calls(Context& context, const client::SessionView& session,
                                        WhichCalls which, Prompt& prompt);

}  // namespace rouse::cli
