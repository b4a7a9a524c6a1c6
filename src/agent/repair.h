#pragma once

// A conversation as a provider takes it. Ours may be what no provider accepts: a model that said
// nothing, a message that a failed run left unanswered, blocks that only another provider knows, a
// history that a hook put together. It is mended here, on its way out; the log stays as it is.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rouse/model.h"

namespace rouse {

struct Repaired {
    std::vector<Message> messages;
    std::vector<std::string> changes;  // for people, one line each: "message 3: …"
};

// Nothing when it fits as it is.
std::optional<Repaired> repair_conversation(std::span<const Message> history,
                                            std::span<const Message> turn,
                                            const ConversationRules& rules);

}  // namespace rouse
