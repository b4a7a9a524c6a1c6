#pragma once

// Server-sent events, from bytes to events.
// https://html.spec.whatwg.org/multipage/server-sent-events.html

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace rouse {

struct SseEvent {
    std::string id;    // as given with this very event; empty: it is not in a log
    std::string name;  // "message" when the sender gave none
    std::string data;
    friend bool operator==(const SseEvent&, const SseEvent&) = default;
};

class SseParser final {
 public:
    using OnEvent = std::function<void(SseEvent)>;

    explicit SseParser(OnEvent on_event) : on_event_(std::move(on_event)) {}

    // Any piece of the stream. io: "event_too_large".
    Result<void> feed(std::string_view bytes);
    // A new connection: what was not whole is forgotten.
    void restart();

    const std::optional<Milliseconds>& retry() const { return retry_; }

 private:
    void take_line(std::string_view line);
    void finish_event();

    OnEvent on_event_;
    std::optional<Milliseconds> retry_;
    std::string line_;
    SseEvent event_;
    bool has_data_ = false;
    bool after_return_ = false;  // a line feed that follows belongs to it
};

}  // namespace rouse
