#include "net/sse.h"

#include <charconv>

namespace rouse {
namespace {

constexpr std::size_t kEventBytes = 64U << 20U;  // no record of a log is as long

}  // namespace

void SseParser::restart() {
    line_.clear();
    event_ = {};
    has_data_ = false;
    after_return_ = false;
}

Result<void> SseParser::feed(std::string_view bytes) {
    while (!bytes.empty()) {
        if (after_return_ && bytes.front() == '\n') bytes.remove_prefix(1);
        after_return_ = false;
        const std::size_t end = bytes.find_first_of("\r\n");
        line_ += bytes.substr(0, end);
        if (line_.size() + event_.data.size() > kEventBytes) {
            return Error(ErrorKind::io, "event_too_large", "the server sent an endless event");
        }
        if (end == std::string_view::npos) return {};
        after_return_ = bytes[end] == '\r';
        bytes.remove_prefix(end + 1);
        take_line(line_);
        line_.clear();
    }
    return {};
}

void SseParser::take_line(std::string_view line) {
    if (line.empty()) return finish_event();
    const std::size_t colon = line.find(':');
    const std::string_view name = line.substr(0, colon);
    std::string_view value;
    if (colon != std::string_view::npos) value = line.substr(colon + 1);
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (name == "data") {
        if (has_data_) event_.data += '\n';
        event_.data += value;
        has_data_ = true;
    } else if (name == "event") {
        event_.name = value;
    } else if (name == "id") {
        event_.id = value;
    } else if (name == "retry") {
        std::int64_t ms = 0;
        const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), ms);
        const bool whole = error == std::errc() && rest == value.data() + value.size();
        if (whole && ms >= 0) retry_ = Milliseconds(ms);
    }
}

void SseParser::finish_event() {
    SseEvent event = std::move(event_);
    event_ = {};
    if (!std::exchange(has_data_, false)) return;
    if (event.name.empty()) event.name = "message";
    on_event_(std::move(event));
}

}  // namespace rouse
