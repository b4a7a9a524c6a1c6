#include "domain/fold.h"

#include <algorithm>

namespace rouse {
namespace {

constexpr std::size_t kTokensKept = 16;  // rotations of one wait that are answered without the log

PendingCall* find(SessionState& state, const PendingId& id) {
    const auto found = std::ranges::find(state.pending, id, &PendingCall::pending_id);
    return found == state.pending.end() ? nullptr : &*found;
}

void set_phase(SessionState& state, const CallId& id, CallPhase phase) {
    const auto found = std::ranges::find(state.calls, id, &TurnCall::call_id);
    if (found != state.calls.end()) found->phase = phase;
}

void drop_settled(SessionState& state) {
    std::erase_if(state.pending, [](const PendingCall& call) { return !is_open(call.status); });
}

// The fold of one record. `at` and `seq` are the record's.
struct Folder {
    SessionState& state;
    Seq seq;
    Timestamp at;

    // The turn has moved on since the last resume.
    void step() const {
        if (state.run) {
            state.run->resume_unapplied = false;
            state.run->retry.reset();
        }
    }

    void drive(const RunId& run_id, const BootId& boot) const {
        state.recovery.last_boot_seen = boot;
        if (state.run && state.run->run_id == run_id) state.run->boot_id = boot;
    }

    void end(const RunId& run_id, RunOutcome outcome, const std::string& error) const {
        if (!state.run || state.run->run_id != run_id || state.run->outcome) return;
        state.run->outcome = outcome;
        state.run->ended_at = at;
        state.run->error = error;
        state.run->resume_unapplied = false;
        state.run->retry.reset();
        state.run->wait.reset();
    }

    void settle(const PendingId& id, PendingStatus status, const std::string& digest) const {
        PendingCall* call = find(state, id);
        if (call == nullptr || !is_open(call->status)) return;
        call->status = status;
        call->settled_at = at;
        call->digest = digest;
        call->lease_until.reset();
        set_phase(state, call->call_id, CallPhase::settled);
    }

    void operator()(const SessionCreated& r) const {
        state.id = r.id;
        state.created_at = at;
        state.title = r.title;
        state.agent = r.agent;
        state.working_dir = r.working_dir;
        state.provider = r.provider;
        state.task_id = r.task_id;
        state.alias = r.alias;
        state.external_id = r.external_id;
        state.parent = r.parent;
        state.metadata = r.metadata;
    }
    void operator()(const SessionUpdated& r) const {
        if (r.title) state.title = *r.title;
        if (r.alias) state.alias = *r.alias;
        if (!r.metadata.absent()) state.metadata = r.metadata;
    }
    void operator()(const SessionForked& r) const { state.forked_from = r.from; }
    void operator()(const SessionDeleted& r) const {
        if (r.session_id.empty()) state.deleted = true;
    }

    void operator()(const MessageUser& r) const {
        if (!r.queued) return;
        ++state.queued;
        if (r.asked_by) state.queued_asks.push_back(*r.asked_by);
    }
    void operator()(const MessageAssistant& r) const {
        step();
        state.recovery.in_a_row = 0;
        state.usage += r.usage;
        add_paid_tokens(state.unapproved_tokens, r.usage);
        if (state.run) add_paid_tokens(state.run->unapproved_tokens, r.usage);
        state.calls.clear();
        for (const Block& block : r.content) {
            const auto* use = block.get_if<ToolUseBlock>();
            if (use != nullptr) state.calls.push_back({use->id, use->name, CallPhase::requested});
        }
    }

    void operator()(const RunStarted& r) const {
        const bool goes_on = state.run && !r.continues.empty();
        Run run;
        run.run_id = r.run_id;
        run.boot_id = r.boot_id;
        run.started_at = at;
        run.continues = r.continues;
        run.chain_id = r.chain_id;
        run.hops = r.hops;
        run.parent_run = r.parent_run;
        if (!state.run && state.parent) run.parent_run = state.parent->run_id;
        run.unapproved_tokens = goes_on ? state.run->unapproved_tokens : 0;
        state.run = std::move(run);
        state.recovery.last_boot_seen = r.boot_id;
        state.recovery.interruption.reset();
        if (r.continues.empty()) {
            state.queued = 0;
            state.queued_asks.clear();
        }
        for (MailRow& row : state.mail)
            row.offered = true;
        drop_settled(state);
    }
    void operator()(const RunWaiting& r) const {
        if (!state.run || state.run->run_id != r.run_id || state.run->outcome) return;
        step();
        std::optional<Wait>& wait = state.run->wait;
        if (wait && wait->wait_id == r.wait_id) {
            wait->resume_token_id = r.resume_token_id;
            wait->deadline_at = r.deadline_at;
            for (Token& token : state.tokens) {
                if (token.token_id == r.resume_token_id) token.expires_at = r.deadline_at;
            }
            return;
        }
        wait = Wait{r.wait_id, r.wait_kind, seq, r.resume_token_id, r.deadline_at, r.prompt};
        drop_settled(state);
        std::erase_if(state.tokens, [&](const Token& t) { return t.wait_id != r.wait_id; });
    }
    void operator()(const RunResumed& r) const {
        drive(r.run_id, r.boot_id);
        if (!state.run || state.run->run_id != r.run_id) return;
        state.run->wait.reset();
        state.run->resume_unapplied = true;
        if (r.reason != ResumeReason::input) return;
        state.run->unapproved_tokens = 0;
        state.unapproved_tokens = 0;
    }
    void operator()(const RunRedriven& r) const { drive(r.run_id, r.boot_id); }
    void operator()(const RunRetrying& r) const {
        if (state.run) state.run->retry = Retry{r.attempt, r.message, r.next};
    }
    void operator()(const RunCompleted& r) const { end(r.run_id, RunOutcome::completed, {}); }
    void operator()(const RunFailed& r) const { end(r.run_id, RunOutcome::failed, r.error); }
    void operator()(const RunCancelled& r) const { end(r.run_id, RunOutcome::cancelled, {}); }
    void operator()(const RunInterrupted& r) const {
        if (!state.run || state.run->run_id != r.run_id || state.run->outcome) return;
        const WasDoing was = state.run->wait ? WasDoing::waiting : WasDoing::running;
        state.recovery.interruption = Interruption{r.run_id, r.reason, at, was, r.exhausted};
        if (r.reason != InterruptReason::wait_timeout) ++state.recovery.in_a_row;
        end(r.run_id, RunOutcome::interrupted, {});
    }

    void operator()(const ToolStarted& r) const {
        step();
        set_phase(state, r.call_id, CallPhase::started);
    }
    void operator()(const ToolCompleted& r) const {
        step();
        set_phase(state, r.call_id, CallPhase::settled);
    }
    void operator()(const ToolFailed& r) const {
        step();
        set_phase(state, r.call_id, CallPhase::settled);
    }

    void operator()(const PendingCreated& r) const {
        step();
        PendingCall call;
        call.pending_id = r.pending_id;
        call.run_id = r.run_id;
        call.call_id = r.call_id;
        call.message_id = r.message_id;
        call.part_id = r.part_id;
        call.tool = r.tool;
        call.waits_for = r.waits_for;
        call.reason = r.reason;
        call.prompt = r.prompt;
        call.metadata = r.metadata;
        call.input_digest = r.input_digest;
        call.created_at = at;
        call.expires_at = r.expires_at;
        call.by_id = r.by_id;
        call.webhook_url = r.webhook_url;
        call.webhook_secret_env = r.webhook_secret_env;
        call.local_boot = r.local_boot;
        call.ask_if_unknown = r.ask_if_unknown;
        call.repeat_if_unknown = r.repeat_if_unknown;
        state.pending.push_back(std::move(call));
        set_phase(state, r.call_id, CallPhase::pending);
    }
    void operator()(const PendingWaiting& r) const {
        PendingCall* call = find(state, r.pending_id);
        if (call == nullptr || !is_open(call->status)) return;
        if (r.expires_at) {
            call->expires_at = r.expires_at;
            call->warned = false;
        }
        if (!r.external_ref.empty()) call->external_ref = r.external_ref;
        if (r.estimated_ms) call->estimated_ms = r.estimated_ms;
        if (!r.prompt.empty()) call->prompt = r.prompt;
        if (!r.metadata.absent()) call->metadata = r.metadata;
        if (r.reason == "extended") return;  // whoever works on it goes on
        if (r.reason == "started") call->started_at = at;
        if (r.reason == "outcome_unknown") {
            call->local_boot = {};
            call->waits_for = WaitsFor::person;
        }
        call->status = PendingStatus::waiting;
        call->worker.clear();
        call->lease_until.reset();
    }
    void operator()(const PendingProcessing& r) const {
        PendingCall* call = find(state, r.pending_id);
        if (call == nullptr || !is_open(call->status)) return;
        call->status = PendingStatus::processing;
        call->worker = r.worker;
        call->lease_until = r.lease_until;
        if (!call->started_at) call->started_at = at;
    }
    void operator()(const PendingProgress& r) const {
        PendingCall* call = find(state, r.pending_id);
        if (call != nullptr && is_open(call->status)) call->progress = r.progress;
    }
    void operator()(const PendingExpiring& r) const {
        if (PendingCall* call = find(state, r.pending_id)) call->warned = true;
    }
    void operator()(const PendingCompleted& r) const {
        settle(r.pending_id, PendingStatus::completed, r.digest);
    }
    void operator()(const PendingFailed& r) const {
        settle(r.pending_id, PendingStatus::failed, r.digest);
    }
    void operator()(const PendingExpired& r) const {
        settle(r.pending_id, PendingStatus::expired, {});
    }
    void operator()(const PendingCancelled& r) const {
        settle(r.pending_id, PendingStatus::cancelled, {});
    }
    void operator()(const PendingApproved& r) const {
        settle(r.pending_id, PendingStatus::completed, r.input_digest);
        PendingCall* call = find(state, r.pending_id);
        if (call == nullptr) return;
        call->approved = true;
        set_phase(state, r.call_id, CallPhase::approved);
        const auto again = std::ranges::find(state.calls, r.call_id, &TurnCall::call_id);
        if (again != state.calls.end() && !r.reason.empty()) ++again->repeats;
    }

    void operator()(const TokenMinted& r) const {
        Token token{r.token_id,          r.hash, r.run_id, r.wait_id, r.wait_kind, r.expires_at,
                    TokenStatus::active, {}};
        state.tokens.push_back(std::move(token));
        if (state.tokens.size() > kTokensKept) state.tokens.erase(state.tokens.begin());
    }
    void end_token(const TokenId& id, TokenStatus status, const std::string& digest) const {
        const auto token = std::ranges::find(state.tokens, id, &Token::token_id);
        if (token == state.tokens.end() || token->status != TokenStatus::active) return;
        token->status = status;
        token->digest = digest;
    }
    void operator()(const TokenConsumed& r) const {
        end_token(r.token_id, TokenStatus::consumed, r.digest);
    }
    void operator()(const TokenRevoked& r) const {
        end_token(r.token_id, TokenStatus::revoked, {});
    }
    void operator()(const TokenExpired& r) const {
        end_token(r.token_id, TokenStatus::expired, {});
    }

    void operator()(const InboxReceived& r) const {
        const bool stopped = !r.stopped.empty();
        const bool wakes = !r.quiet && !stopped;
        state.mail.push_back({r.message_id, r.from_session, r.chain_id, r.hops, r.asks, wakes,
                              false, false, stopped});
    }
    void operator()(const InboxPresented& r) const {
        for (const MessageId& id : r.message_ids) {
            const auto row = std::ranges::find(state.mail, id, &MailRow::message_id);
            if (row == state.mail.end()) continue;
            if (state.run && !row->chain_id.empty() && row->hops >= state.run->hops) {
                state.run->chain_id = row->chain_id;
                state.run->hops = row->hops;
            }
            row->presented = true;
            if (!row->asks) state.mail.erase(row);
        }
    }
    void forget_letter(const MessageId& id) const {
        std::erase_if(state.mail, [&](const MailRow& row) { return row.message_id == id; });
    }
    void operator()(const InboxHandled& r) const { forget_letter(r.message_id); }
    void operator()(const InboxDropped& r) const { forget_letter(r.message_id); }

    // Everything else says nothing about the session's state.
    void operator()(const auto&) const {}
};

}  // namespace

const PendingCall* SessionState::find_pending(const PendingId& pending_id) const {
    const auto found = std::ranges::find(pending, pending_id, &PendingCall::pending_id);
    return found == pending.end() ? nullptr : &*found;
}

const Token* SessionState::find_token(const TokenId& token_id) const {
    const auto found = std::ranges::find(tokens, token_id, &Token::token_id);
    return found == tokens.end() ? nullptr : &*found;
}

std::size_t SessionState::open_calls() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        pending, [](const PendingCall& call) { return is_open(call.status); }));
}

void fold(SessionState& state, const RecordView& record) {
    std::visit(Folder{state, record.seq, record.at}, record.body);
    state.last_seq = record.seq;
    // Never back: what has expired once must not be seen as open again.
    state.updated_at = std::max(state.updated_at, record.at);
}

}  // namespace rouse
