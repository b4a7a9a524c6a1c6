#include "store/files/views.h"

#include <algorithm>
#include <map>

namespace rouse::files {
namespace {

struct TokensView {
    Seq last_seq = 0;
    std::vector<Token> tokens;
    static constexpr auto fields() {
        return std::tuple(required("last_seq", &TokensView::last_seq),
                          required("tokens", &TokensView::tokens));
    }
};

Result<void> remove_if_there(Fs& fs, const std::string& path) {
    Result<void> removed = fs.remove(path);
    if (!removed && removed.error().kind == ErrorKind::not_found) return {};
    return removed;
}

// With what a write that was cut or failed has left beside it.
Result<void> remove_view(Fs& fs, const std::string& path) {
    if (Result<void> removed = remove_if_there(fs, path + ".tmp"); !removed) return removed;
    return remove_if_there(fs, path);
}

void append_member(std::string& out, std::string_view key, std::string_view value) {
    if (out.back() != '{') out += ',';
    append_json_string(out, key);
    out += ':';
    out += value;
}

std::string id_list(const std::vector<const OpenPending*>& calls) {
    std::string out = "[";
    for (const OpenPending* call : calls) {
        if (out.size() > 1) out += ',';
        append_json_string(out, call->call.pending_id.text());
    }
    return out + "]";
}

std::string id_lists(const std::map<std::string, std::vector<const OpenPending*>>& lists) {
    std::string out = "{";
    for (const auto& [key, calls] : lists)
        append_member(out, key, id_list(calls));
    return out + "}";
}

}  // namespace

std::string snapshot_text(const SessionState& state) {
    return to_json(state) + "\n";
}

std::string tokens_text(const SessionState& state) {
    return to_json(TokensView{state.last_seq, state.tokens}) + "\n";
}

// S0's names and milliseconds, for the systems that read these files.
std::string pending_text(const SessionState& state, const PendingCall& call) {
    std::string out = "{";
    const auto text = [&](std::string_view key, std::string_view value) {
        if (!value.empty()) append_member(out, key, to_json_string(value));
    };
    const auto time = [&](std::string& into, std::string_view key,
                          const std::optional<Timestamp>& at) {
        if (at) append_member(into, key, std::to_string(to_epoch_ms(*at)));
    };
    text("id", call.pending_id.text());
    text("sessionID", state.id.text());
    text("messageID", call.message_id.text());
    text("callID", call.call_id.text);
    text("partID", call.part_id);
    text("tool", call.tool);
    text("status", to_string(call.status));
    text("webhookURL", call.webhook_url);
    text("externalRef", call.external_ref);
    time(out, "timeout", call.expires_at);
    std::string times = "{";
    time(times, "created", call.created_at);
    time(times, "started", call.started_at);
    append_member(out, "time", times + "}");
    append_member(out, "lastSeq", std::to_string(state.last_seq));
    return out + "}\n";
}

std::string pending_index_text(const std::vector<OpenPending>& calls) {
    std::map<std::string, std::vector<const OpenPending*>> by_session;
    std::map<std::string, std::vector<const OpenPending*>> by_status;
    std::vector<const OpenPending*> by_expiry;
    for (const OpenPending& call : calls) {
        by_session[call.session.text()].push_back(&call);
        by_status[std::string(to_string(call.call.status))].push_back(&call);
        if (call.call.expires_at) by_expiry.push_back(&call);
    }
    std::ranges::stable_sort(by_expiry, {},
                             [](const OpenPending* c) { return *c->call.expires_at; });
    std::string expirations = "[";
    for (const OpenPending* call : by_expiry) {
        std::string one = "{";
        append_member(one, "pendingID", to_json_string(call->call.pending_id.text()));
        append_member(one, "expiresAt", std::to_string(to_epoch_ms(*call->call.expires_at)));
        if (expirations.size() > 1) expirations += ',';
        expirations += one + "}";
    }
    std::string out = "{";
    append_member(out, "bySession", id_lists(by_session));
    append_member(out, "byStatus", id_lists(by_status));
    append_member(out, "byExpiration", expirations + "]");
    return out + "}\n";
}

bool has_open_token(const SessionState& state) {
    return std::ranges::any_of(
        state.tokens, [](const Token& token) { return token.status == TokenStatus::active; });
}

Result<void> write_views(Fs& fs, const Layout& layout, const SessionState& state, Before before) {
    const auto write = [&](const std::string& path, std::string_view text) {
        return before == Before::nothing ? fs.make_view(path, text) : fs.replace_view(path, text);
    };
    Result<void> done = write(layout.snapshot(state.id), snapshot_text(state));
    if (!done) return done;
    if (has_open_token(state)) {
        done = write(layout.tokens(state.id), tokens_text(state));
        if (!done) return done;
    }
    for (const PendingCall& call : state.pending) {
        if (!is_open(call.status)) continue;
        // Other systems watch these: they are there as a whole or not at all.
        done = fs.replace_view(layout.pending(call.pending_id), pending_text(state, call));
        if (!done) return done;
    }
    return {};
}

Result<void> remove_old_views(Fs& fs, const Layout& layout, const SessionState& state,
                              const std::vector<PendingId>& gone) {
    if (!has_open_token(state)) {
        const Result<void> done = remove_if_there(fs, layout.tokens(state.id));
        if (!done) return done;
    }
    for (const PendingId& id : gone) {
        if (Result<void> done = remove_view(fs, layout.pending(id)); !done) return done;
    }
    return {};
}

Result<void> remove_views(Fs& fs, const Layout& layout, const SessionId& id,
                          const std::vector<PendingId>& pending) {
    if (Result<void> done = remove_view(fs, layout.snapshot(id)); !done) return done;
    if (Result<void> done = remove_view(fs, layout.tokens(id)); !done) return done;
    for (const PendingId& one : pending) {
        if (Result<void> done = remove_view(fs, layout.pending(one)); !done) return done;
    }
    return {};
}

}  // namespace rouse::files
