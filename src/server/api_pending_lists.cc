// Lists of pending calls: the open ones are in the store's index, the settled ones only in the
// logs.

#include <algorithm>

#include "base/limits.h"
#include "domain/history.h"
#include "server/api.h"
#include "server/body.h"
#include "server/transcripts.h"

namespace rouse::server {
namespace {

// So much of an id that no other begins like it, and too little to settle the call.
std::string cursor_behind(const PendingId& id) {
    constexpr std::size_t kRandomLetters = 8;
    const std::string& text = id.text();
    return text.substr(0, text.rfind('_') + 1 + kRandomLetters);
}

// What one request reads of logs. The first one is read however long it is.
class ReadBudget {
 public:
    bool allows(std::uint64_t log_bytes) const {
        return logs_ == 0 ||
               (logs_ < limits::kListedLogs && bytes_ + log_bytes <= limits::kListedLogBytes);
    }
    void spend(std::uint64_t log_bytes) {
        ++logs_;
        bytes_ += log_bytes;
    }

 private:
    std::size_t logs_ = 0;
    std::uint64_t bytes_ = 0;
};

}  // namespace

Task<Api::CallPage> Api::list_open(Request& request, PendingFilter filter) {
    const std::size_t limit = filter.limit++;
    filter.tasks = request.principal.tasks;
    std::vector<OpenPending> open = parts_.store->pending(filter);
    CallPage page;
    if (open.size() > limit) {
        open.resize(limit);
        page.next_cursor = cursor_behind(open.back().call.pending_id);
    }
    // The calls of a session stand together: its log is read once.
    SessionId read;
    Result<Transcript> said;
    CallParts parts;
    for (const OpenPending& one : open) {
        Task<bool> brought = bring_in(one.session);
        (void)co_await std::move(brought);
        const auto state = find_session(request, one.session);
        const PendingCall* call = state ? (*state)->find_pending(one.call.pending_id) : nullptr;
        if (call == nullptr) continue;
        if (one.session != read) {
            read = one.session;
            said = read_open_calls(*parts_.store, **state);
            parts = said ? call_parts(*said) : CallParts();
        }
        if (!said) continue;
        const auto part = parts.find(call->pending_id);
        page.calls.push_back(
            {call->pending_id,
             call_json(request, one.session, *call, part == parts.end() ? nullptr : part->second)});
    }
    co_return page;
}

// Those of one log behind the call that `behind` begins, in the order of their ends. One more than
// the limit tells that there are more.
void Api::add_settled(const Request& request, const PendingFilter& filter, const SessionId& session,
                      const std::string& behind, CallPage& page) const {
    const Result<std::vector<Record>> log = read_records(*parts_.store, session);
    if (!log) return;
    std::vector<PendingCall> calls = settled_calls(*log);
    const auto is_last_seen = [&](const PendingCall& call) {
        return call.pending_id.text().starts_with(behind);
    };
    auto call = behind.empty() ? calls.begin() : std::ranges::find_if(calls, is_last_seen);
    if (!behind.empty() && call != calls.end()) ++call;
    Transcript said;
    std::optional<CallParts> parts;
    for (; call != calls.end() && page.calls.size() <= filter.limit; ++call) {
        if (call->status != *filter.status) continue;
        if (filter.takes_tool && !filter.takes_tool(call->tool)) continue;
        if (!parts) {
            for (const Record& record : *log)
                said.fold(record);
            parts = call_parts(said);
        }
        const auto part = parts->find(call->pending_id);
        page.calls.push_back(
            {call->pending_id,
             call_json(request, session, *call, part == parts->end() ? nullptr : part->second)});
    }
}

// From the newest session to the oldest. A cursor names the last call that was shown, or the last
// session whose log was read to its end; never one that the caller may not see.
Api::CallPage Api::list_settled(const Request& request, const PendingFilter& filter,
                                const std::string& cursor) const {
    CallPage page;
    ReadBudget budget;
    SessionId last;
    const auto look_into = [&](const SessionId& session, const std::string& behind) {
        last = session;
        budget.spend(parts_.store->log_bytes(session));
        add_settled(request, filter, session, behind, page);
    };
    const auto is_cut = [&] {
        if (page.calls.size() <= filter.limit) return false;
        page.calls.pop_back();
        page.next_cursor = cursor_behind(page.calls.back().id);
        return true;
    };
    SessionFilter older;
    older.limit = limits::kListedLogs;
    std::optional<SessionId> first;
    if (const Result<SessionId> shown = session_of(PendingId(cursor))) {
        first = older.before = *shown;
    } else if (!cursor.empty()) {
        older.before = SessionId(cursor);
    } else {
        first = filter.session;
    }
    const bool is_asked_for = first && first == filter.session.value_or(*first);
    if (is_asked_for && find_session(request, *first)) {
        look_into(*first, cursor);
        if (is_cut()) return page;
    }
    if (filter.session) return page;
    for (;;) {
        const std::vector<SessionSummary> sessions = parts_.store->list(older);
        for (const SessionSummary& session : sessions) {
            if (!request.principal.sees_task(session.task_id)) continue;
            if (!budget.allows(parts_.store->log_bytes(session.id))) {
                page.next_cursor = last.text();
                return page;
            }
            look_into(session.id, "");
            if (is_cut()) return page;
        }
        if (sessions.size() < older.limit) return page;
        older.before = sessions.back().id;
    }
}

Task<Response> Api::list_pending(Request& request) {
    const Result<std::size_t> limit = limit_of(request, 1000, 1000);
    if (!limit) co_return fail(request, limit.error());
    PendingFilter filter;
    filter.limit = *limit;
    if (const auto session = request.query_value("sessionID")) filter.session = SessionId(*session);
    if (const auto tool = request.query_value("tool")) {
        filter.takes_tool = [wanted = *tool](std::string_view name) { return name == wanted; };
    }
    if (const auto status = request.query_value("status")) {
        filter.status = parse_enum<PendingStatus>(*status);
        if (!filter.status) {
            co_return fail(request, invalid_request("status is one of waiting, processing, "
                                                    "completed, failed, expired, cancelled"));
        }
    }
    const bool settled = filter.status && !is_open(*filter.status);
    const std::optional<std::string> cursor = request.query_value("cursor");
    if (cursor && !session_of(PendingId(*cursor)) && !(settled && parse_session_id(*cursor))) {
        co_return fail(request, foreign_cursor());
    }
    if (cursor) filter.after = PendingId(*cursor);
    CallPage page;
    if (settled) {
        const auto read = [&] { return list_settled(request, filter, cursor.value_or("")); };
        page = co_await aside(read);
    } else {
        page = co_await list_open(request, std::move(filter));
    }
    std::vector<std::string> items;
    items.reserve(page.calls.size());
    for (const ListedCall& call : page.calls)
        items.push_back(call.json);
    JsonObject out;
    out.raw("pending", json_list(items));
    out.number("count", static_cast<std::int64_t>(items.size()));
    out.text_or_null("next_cursor", page.next_cursor);
    co_return json_response(200, out.done());
}

}  // namespace rouse::server
