#include "domain/history.h"

#include "domain/fold.h"

namespace rouse {

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

}  // namespace rouse
