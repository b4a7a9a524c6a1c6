#include "cli/names.h"

#include <algorithm>

#include "cli/server_commands.h"

namespace rouse::cli {
namespace {

constexpr std::size_t kWholeId = 26;  // characters of an id of ours, behind its prefix
constexpr std::size_t kMostNamed = 3;
constexpr std::size_t kShownTail = 10;

std::string tail_of(std::string_view pending_id) {
    return std::string(pending_id.substr(pending_id.rfind('_') + 1));
}

Error ambiguous(const std::string& name, const std::vector<std::string>& ids) {
    std::string text = "'" + name + "' is the beginning of several: ";
    for (std::size_t i = 0; i < std::min(ids.size(), kMostNamed); ++i)
        text += (i > 0 ? ", " : "") + ids[i];
    if (ids.size() > kMostNamed) text += " and others";
    return usage(text + "; give more of it");
}

Error too_short(const std::string& name, std::size_t least) {
    return usage("'" + name + "' is too short for an id: give all of it or at least " +
                 std::to_string(least) + " characters");
}

// Adds those of a page; the cursor of the next one.
Result<std::optional<std::string>> calls_named(client::Client& client, const std::string& name,
                                               const std::string& status, const client::Page& which,
                                               std::vector<std::string>& found) {
    const auto page = client.calls(std::nullopt, status, which);
    if (!page) return page.error();
    for (const client::CallView& call : page->value.pending) {
        if (tail_of(call.id).starts_with(name)) found.push_back(call.id);
    }
    return page->value.next_cursor;
}

// Lists are newest first, by id: behind those that begin with `prefix` there is no other.
Result<std::vector<std::string>> sessions_beginning_with(client::Client& client,
                                                         const std::string& prefix) {
    std::vector<std::string> found;
    client::SessionQuery query;
    query.page.limit = 500;
    for (;;) {
        const auto page = client.sessions(query);
        if (!page) return page.error();
        for (const client::SessionRow& row : page->value.items) {
            if (row.id.text().starts_with(prefix)) found.push_back(row.id.text());
            if (row.id.text() < prefix) return found;
        }
        if (!page->value.next_cursor) return found;
        query.page.cursor = *page->value.next_cursor;
    }
}

}  // namespace

Result<SessionId> find_session(client::Client& client, const std::string& name) {
    constexpr std::string_view kPrefix = SessionId::kPrefix;
    const std::string whole = name.starts_with(kPrefix) ? name : std::string(kPrefix) + name;
    const std::size_t length = whole.size() - kPrefix.size();
    if (const Result<SessionId> id = parse_session_id(whole); !id) {
        return usage("'" + name + "' is not a session's id");
    } else if (length == kWholeId) {
        return *id;
    }
    const Result<std::vector<std::string>> found = sessions_beginning_with(client, whole);
    if (!found) return found.error();
    if (std::ranges::find(*found, whole) != found->end()) return SessionId(whole);
    if (length < kShortestPrefix) return too_short(name, kShortestPrefix);
    if (found->size() > 1) return ambiguous(name, *found);
    if (found->size() == 1) return SessionId(found->front());
    return Error(ErrorKind::not_found, "not_found", "no session's id begins with " + whole);
}

Result<std::string> find_call(client::Client& client, const std::string& name) {
    if (name.starts_with(PendingId::kPrefix)) return name;
    if (name.size() < kShortestTail) return too_short(name, kShortestTail);
    std::vector<std::string> found;
    client::Page next{1000, {}};
    for (;;) {
        const auto page = calls_named(client, name, "", next, found);
        if (!page) return page.error();
        if (!*page) break;
        next.cursor = **page;
    }
    // Of those that are settled, the latest: the same again is no error.
    if (found.empty()) {
        for (const char* status : {"completed", "failed", "cancelled", "expired"}) {
            const auto page = calls_named(client, name, status, {1000, {}}, found);
            if (!page) return page.error();
        }
    }
    if (found.size() > 1) return ambiguous(name, found);
    if (found.size() == 1) return found.front();
    return Error(ErrorKind::not_found, "unknown_pending_id",
                 "no call that is open or was settled lately has the id '" + name +
                     "'; an older one needs its whole id");
}

std::string short_call_id(std::string_view pending_id) {
    return tail_of(pending_id).substr(0, kShownTail);
}

}  // namespace rouse::cli
