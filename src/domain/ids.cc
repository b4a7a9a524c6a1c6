#include "domain/ids.h"

namespace rouse {

const SessionId& system_log() {
    static const SessionId id("_system");
    return id;
}

Result<SessionId> parse_session_id(std::string_view text) {
    constexpr std::size_t kPartLength = 26;
    Result<SessionId> id = SessionId::parse(text);
    if (!id) return id;
    const std::string_view part = text.substr(SessionId::kPrefix.size());
    if (part.size() > kPartLength || part.find('_') != std::string_view::npos) {
        return Error(ErrorKind::invalid, "invalid_session_id",
                     "a session id is sess_ and up to 26 letters, digits or dashes");
    }
    return id;
}

PendingId make_pending_id(const SessionId& session, std::string_view random_text) {
    return PendingId(std::string(PendingId::kPrefix) +
                     session.text().substr(SessionId::kPrefix.size()) + "_" +
                     std::string(random_text));
}

Result<SessionId> session_of(const PendingId& pending) {
    const std::string_view text = pending.text();
    const std::size_t split = text.rfind('_');
    if (!PendingId::parse(text) || split <= PendingId::kPrefix.size()) {
        return Error(ErrorKind::invalid, "invalid_id", "not a pending id");
    }
    return parse_session_id(
        std::string(SessionId::kPrefix) +
        std::string(text.substr(PendingId::kPrefix.size(), split - PendingId::kPrefix.size())));
}

}  // namespace rouse
