#pragma once

// The events of a session as they happen, over broken connections and restarts of the server.

#include <memory>
#include <optional>
#include <string>

#include "client/server_address.h"
#include "net/sse.h"

namespace rouse::client {

class BlockingHttp;

using Event = SseEvent;  // its id is the seq; empty: it is not in a log

// Names of events that no server sends.
inline constexpr std::string_view kConnectionLost = "client.lost";
inline constexpr std::string_view kConnectionBack = "client.back";

class EventStream final {
 public:
    // `from_seq`: the first record to be told of; without, one `snapshot` event and then live.
    EventStream(BlockingHttp& http, const ServerAddress& server, const std::string& path,
                std::optional<std::uint64_t> from_seq);
    ~EventStream();
    EventStream(const EventStream&) = delete;
    EventStream& operator=(const EventStream&) = delete;

    // Nothing: `patience` is over. Once it was connected, it comes back by itself as often as it
    // takes, behind the last event that had an id.
    //   cancelled     interrupted
    //   otherwise     as client/errors.h, when the server refuses, or cannot be reached at first
    Result<std::optional<Event>> next(std::optional<Milliseconds> patience = {});

 private:
    class Following;
    BlockingHttp& http_;
    std::shared_ptr<Following> following_;  // shared with what runs on the loop
};

}  // namespace rouse::client
