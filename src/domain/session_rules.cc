#include "domain/session_rules.h"

#include "domain/token_rules.h"

namespace rouse {
namespace {

void copy_entry(const TranscriptEntry& entry, Records& records) {
    switch (entry.role) {
        case Role::user:
            records.emplace_back(MessageUser{entry.message_id, entry.content, false, {}});
            break;
        case Role::system:
            records.emplace_back(MessageSystem{entry.message_id, entry.content, {}});
            break;
        case Role::assistant:
            records.emplace_back(
                MessageAssistant{entry.message_id, {}, entry.content, {}, {}, {}, {}});
            break;
    }
    for (const ToolPart& part : entry.parts) {
        if (part.result) {
            records.emplace_back(ToolCompleted{part.call_id, *part.result, {}});
        } else {
            records.emplace_back(ToolFailed{
                part.call_id, "The session was forked before this call ended", "forked", {}});
        }
    }
}

}  // namespace

Result<Records> plan_update(const SessionState& state, const SessionUpdated& update) {
    if (Result<void> live = require_live(state); !live) return live.error();
    if (!update.title && !update.alias && update.metadata.absent()) {
        return Error(ErrorKind::invalid, "nothing_to_update", "give a title, alias or metadata");
    }
    return Records{update};
}

Records plan_fork(const SessionCreated& fork, const ForkOrigin& origin,
                  const Transcript& source_up_to_seq) {
    constexpr Seq kFirstCopied = 3;  // behind session.created and session.forked
    const std::optional<SessionCompacted>& compacted = source_up_to_seq.compacted();
    Seq summarized = kFirstCopied - 1;  // the summary stands for what the fork has up to here
    Records copied;
    for (const TranscriptEntry& entry : source_up_to_seq.entries()) {
        if (compacted && entry.seq <= compacted->upto_seq) {
            summarized = kFirstCopied + copied.size();
        }
        copy_entry(entry, copied);
    }
    if (compacted) copied.emplace_back(SessionCompacted{summarized, compacted->summary, {}});
    Records records{fork, SessionForked{origin, copied.size(), {}}};
    std::ranges::move(copied, std::back_inserter(records));
    return records;
}

Result<Records> plan_compact(const SessionState& state, const Transcript& transcript,
                             std::size_t keep_last, const std::string& summary) {
    if (Result<void> live = require_live(state); !live) return live.error();
    if (state.run_is_open()) {
        return Error(ErrorKind::conflict, "suspended_session",
                     "a turn is open; finish or cancel it, then compact");
    }
    const std::vector<TranscriptEntry>& entries = transcript.entries();
    if (entries.size() <= keep_last) {
        return Error(ErrorKind::precondition, "nothing_to_compact",
                     "there are not more messages than are to be kept");
    }
    const Seq upto = entries[entries.size() - keep_last - 1].seq;
    return Records{SessionCompacted{upto, summary, {}}};
}

Result<DeletePlan> plan_delete(const SessionState& state) {
    if (Result<void> live = require_live(state); !live) return live.error();
    DeletePlan plan;
    if (state.run_is_open()) {
        close_calls(state, "deleted", "The session was deleted", plan.session);
        if (std::optional<RecordBody> revoked = revoke_open_token(state, "deleted")) {
            plan.session.push_back(*std::move(revoked));
        }
        plan.session.emplace_back(RunCancelled{state.run->run_id, "deleted", {}});
    }
    plan.session.emplace_back(SessionDeleted{{}, {}});
    plan.system.emplace_back(SessionDeleted{state.id, {}});
    return plan;
}

}  // namespace rouse
