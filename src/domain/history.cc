#include "domain/history.h"

#include <algorithm>

#include "domain/fold.h"

namespace rouse {
namespace {

// The call that the record ends, if it was still open.
const PendingId* ended_by(const RecordBody& body) {
    if (const auto* completed = std::get_if<PendingCompleted>(&body)) return &completed->pending_id;
    if (const auto* failed = std::get_if<PendingFailed>(&body)) return &failed->pending_id;
    if (const auto* expired = std::get_if<PendingExpired>(&body)) return &expired->pending_id;
    if (const auto* cancelled = std::get_if<PendingCancelled>(&body)) return &cancelled->pending_id;
    if (const auto* approved = std::get_if<PendingApproved>(&body)) return &approved->pending_id;
    return nullptr;
}

// A resume stands right behind what ends its wait.
Seq end_of_change(std::span<const Record> log, std::size_t at) {
    for (; at + 1 < log.size(); ++at) {
        const RecordBody& next = log[at + 1].body;
        if (!std::holds_alternative<TokenConsumed>(next) &&
            !std::holds_alternative<RunResumed>(next)) {
            break;
        }
    }
    return log[at].seq;
}

}  // namespace

std::vector<PendingCall> settled_calls(std::span<const Record> log) {
    SessionState state;
    std::vector<PendingCall> found;
    for (const Record& record : log) {
        const PendingId* id = ended_by(record.body);
        const PendingCall* open = id == nullptr ? nullptr : state.find_pending(*id);
        const bool ends = open != nullptr && is_open(open->status);
        fold(state, record);
        if (ends) found.push_back(*state.find_pending(*id));
    }
    return found;
}

std::optional<PendingCall> find_settled_call(std::span<const Record> log, const PendingId& id) {
    SessionState state;
    std::optional<PendingCall> found;
    for (const Record& record : log) {
        fold(state, record);
        const PendingCall* call = state.find_pending(id);
        if (call != nullptr && !is_open(call->status)) found = *call;
    }
    return found;
}

std::optional<Token> find_past_token(std::span<const Record> log, const TokenId& id) {
    SessionState state;
    std::optional<Token> found;
    for (const Record& record : log) {
        fold(state, record);
        if (const Token* token = state.find_token(id)) found = *token;
    }
    return found;
}

Seq seq_of_settlement(std::span<const Record> log, const PendingId& id) {
    for (std::size_t at = 0; at < log.size(); ++at) {
        const PendingId* ended = ended_by(log[at].body);
        if (ended != nullptr && *ended == id) return end_of_change(log, at);
    }
    return 0;
}

Seq seq_of_resume(std::span<const Record> log, const TokenId& id) {
    for (std::size_t at = 0; at < log.size(); ++at) {
        const auto* consumed = std::get_if<TokenConsumed>(&log[at].body);
        if (consumed != nullptr && consumed->token_id == id) return end_of_change(log, at);
    }
    return 0;
}

bool reads_only_asks_of(std::span<const Record> log, const RunId& run, const RunId& asker,
                        std::span<const CallId> calls) {
    bool any = false;
    bool others = false;
    bool only_asks = false;
    for (const Record& record : log) {
        if (const auto* message = std::get_if<MessageUser>(&record.body)) {
            const auto& asked = message->asked_by;
            const bool counts = asked && asked->run_id == asker &&
                                std::ranges::find(calls, asked->call_id) != calls.end();
            (counts ? any : others) = true;
        } else if (const auto* started = std::get_if<RunStarted>(&record.body)) {
            if (started->continues.empty()) {
                only_asks = any && !others;
                any = others = false;
            }
            if (started->run_id == run) return only_asks;
        }
    }
    return false;
}

}  // namespace rouse
