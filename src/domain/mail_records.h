#pragma once

// Records of mail between agents.

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "domain/record_words.h"

namespace rouse {

struct InboxReceived {
    MessageId message_id;
    std::string from;
    std::string text;
    MessageId reply_to;
    std::string chain_id;
    std::uint32_t hops = 0;
    SessionId from_session = {};  // empty: a person
    std::string quote = {};       // the beginning of what it answers
    bool asks = false;            // the sender's turn waits for the answer
    bool quiet = false;           // wakes nobody
    std::string stopped = {};     // why its chain wakes nobody any more: hops, wakes
    ROUSE_RECORD(InboxReceived, "inbox.received");
    static constexpr auto fields() {
        using S = InboxReceived;
        return std::tuple(required("message_id", &S::message_id), required("from", &S::from),
                          required("text", &S::text), field("reply_to", &S::reply_to),
                          field("chain_id", &S::chain_id), field("hops", &S::hops),
                          field("from_session", &S::from_session), field("quote", &S::quote),
                          field("asks", &S::asks), field("quiet", &S::quiet),
                          field("stopped", &S::stopped));
    }
};

// Holds the rendered text: it is the transcript entry.
struct InboxPresented {
    std::vector<MessageId> message_ids;
    RunId run_id;
    std::string text;
    ROUSE_RECORD(InboxPresented, "inbox.presented");
    static constexpr auto fields() {
        using S = InboxPresented;
        return std::tuple(required("message_ids", &S::message_ids), field("run_id", &S::run_id),
                          required("text", &S::text));
    }
};

struct InboxHandled {
    MessageId message_id;
    MessageId by;  // the reply
    ROUSE_RECORD(InboxHandled, "inbox.handled");
    static constexpr auto fields() {
        return std::tuple(required("message_id", &InboxHandled::message_id),
                          field("by", &InboxHandled::by));
    }
};

struct InboxDropped {
    MessageId message_id;
    std::string reason;
    ROUSE_RECORD(InboxDropped, "inbox.dropped");
    static constexpr auto fields() {
        return std::tuple(required("message_id", &InboxDropped::message_id),
                          field("reason", &InboxDropped::reason));
    }
};

struct OutboxSent {
    MessageId message_id;
    std::vector<std::string> to;
    std::string text;
    MessageId reply_to;
    std::string chain_id;
    std::uint32_t hops = 0;
    ROUSE_RECORD(OutboxSent, "outbox.sent");
    static constexpr auto fields() {
        using S = OutboxSent;
        return std::tuple(required("message_id", &S::message_id), required("to", &S::to),
                          required("text", &S::text), field("reply_to", &S::reply_to),
                          field("chain_id", &S::chain_id), field("hops", &S::hops));
    }
};

}  // namespace rouse
