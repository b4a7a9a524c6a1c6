#include "agent/durable_session.h"

#include <algorithm>
#include <boost/asio/this_coro.hpp>

#include "agent/store_async.h"
#include "domain/fold.h"
#include "domain/wait_rules.h"

namespace rouse {

namespace asio = boost::asio;

namespace {

// What was paid since a run last ended.
void add_usage(Usage& usage, const RecordBody& record) {
    if (const auto* said = std::get_if<MessageAssistant>(&record)) usage += said->usage;
    const bool ended = std::holds_alternative<RunCompleted>(record) ||
                       std::holds_alternative<RunFailed>(record) ||
                       std::holds_alternative<RunCancelled>(record);
    const auto* started = std::get_if<RunStarted>(&record);
    const bool begins = started != nullptr && started->continues.empty();
    if (ended || begins) usage = Usage{};
}

}  // namespace

DurableSession::DurableSession(std::shared_ptr<void> world, Env env, std::shared_ptr<Store> store,
                               BootId boot, SessionId id, Companions* companions)
    : world_(std::move(world)),
      env_(env),
      store_(std::move(store)),
      ids_(env.clock, env.random),
      boot_(std::move(boot)),
      id_(std::move(id)),
      companions_(companions) {}

// ---- reading --------------------------------------------------------------------------------

Result<void> DurableSession::refresh() {
    if (runs_ahead()) return {};
    const Result<Seq> latest = store_->last_seq(id_);
    if (!latest) return latest.error();
    if (stale_) return reload();
    if (*latest <= sent_) return {};
    return kept_.empty() ? read_from(sent_ + 1) : reload();
}

// What comes before the latest turn does not change any more.
std::size_t DurableSession::conversation_bytes() {
    for (; weighed_entries_ < transcript_.turn_start(); ++weighed_entries_)
        weighed_bytes_ += text_bytes(transcript_.entries()[weighed_entries_]);
    std::size_t bytes = weighed_bytes_;
    for (const TranscriptEntry& entry : turn())
        bytes += text_bytes(entry);
    return bytes;
}

Result<void> DurableSession::reload() {
    state_ = SessionState{};
    transcript_ = Transcript{};
    weighed_entries_ = weighed_bytes_ = 0;
    lent_.push_back(std::exchange(history_, {}));
    history_entries_ = 0;
    history_compacted_.reset();
    turn_usage_ = Usage{};
    letters_.clear();
    kept_.clear();
    lost_.reset();
    sent_ = 0;
    stale_ = true;
    if (Result<void> read = read_from(1); !read) return read;
    stale_ = false;
    return {};
}

Result<void> DurableSession::read_from(Seq seq) {
    const Result<std::vector<Record>> records = read_records(*store_, id_, seq);
    if (!records) return records.error();
    for (const Record& record : *records)
        note(record);
    sent_ = state_.last_seq;
    if (!state_.deleted) return {};
    return Error(ErrorKind::not_found, "session_gone", "session " + id_.text() + " was deleted");
}

void DurableSession::take_over(Seq first, const Records& records) {
    if (!can_take_over(first)) return;
    fold_ahead(records);
    sent_ = state_.last_seq;
    stale_ = false;
}

bool DurableSession::can_take_over(Seq first) const {
    const bool continues = stale_ ? first == 1 && state_.last_seq == 0 : first == sent_ + 1;
    return continues && !writing_ && kept_.empty() && is_on_disk();
}

// While what was taken over is on its way, readers of the log see less than this object has.
// Should it not arrive, this object is wrong.
bool DurableSession::runs_ahead() {
    if (!ahead_) return false;
    if (!ahead_->ended()) return true;
    if (ahead_->refused()) {
        stale_ = true;
        lost_ = ahead_->error();
    }
    ahead_.reset();
    return false;
}

Task<Result<void>> DurableSession::reach_disk() {
    const bool is_lost = !runs_ahead() && lost_;
    if (!is_lost && !kept_.empty()) {
        if (Result<void> written = co_await write_kept(); !written) co_return written;
    }
    co_return co_await until_it_arrives();
}

Task<Result<void>> DurableSession::until_it_arrives() {
    if (runs_ahead()) {
        const std::shared_ptr<CommitUnderWay> commit = ahead_;
        const asio::any_io_executor executor = co_await asio::this_coro::executor;
        (void)co_await commit->wait(executor);
        (void)runs_ahead();
    }
    if (lost_) co_return *lost_;
    co_return Result<void>();
}

void DurableSession::note(const RecordView& record) {
    fold(state_, record);
    transcript_.fold(record);
    add_usage(turn_usage_, record.body);
    if (const auto* letter = std::get_if<InboxReceived>(&record.body)) {
        letters_.emplace_back(*letter, record.at);
    } else if (!letters_.empty()) {
        std::erase_if(letters_, [&](const auto& kept) {
            const auto row =
                std::ranges::find(state_.mail, kept.first.message_id, &MailRow::message_id);
            return row == state_.mail.end() || row->presented;
        });
    }
}

std::span<const TranscriptEntry> DurableSession::turn() const {
    return std::span(transcript_.entries()).subspan(transcript_.turn_start());
}

Task<Result<std::span<const Message>>> DurableSession::history() {
    if (Result<void> fresh = refresh(); !fresh) co_return fresh.error();
    const ToolResult unknown = error_result(kOutcomeUnknown);
    if (history_compacted_ != transcript_.compacted()) {
        history_ = build_context(transcript_, unknown, transcript_.turn_start());
        history_entries_ = transcript_.turn_start();
        history_compacted_ = transcript_.compacted();
    }
    for (; history_entries_ < transcript_.turn_start(); ++history_entries_)
        append_context(history_, transcript_.entries()[history_entries_], unknown);
    co_return std::span<const Message>(history_);
}

Task<Result<std::optional<Suspension>>> DurableSession::load_suspension() {
    lent_.clear();  // this is how a turn begins
    if (Result<void> fresh = refresh(); !fresh) co_return fresh.error();
    // With companions there is somebody who sees to it, and knows more of leases than the log.
    const bool ours = companions_ == nullptr;
    if (ours && !plan_due(state_, boot_, now()).empty()) {
        const Plan plan = [this](const SessionState& state) {
            return Result<Records>(plan_due(state, boot_, now()));
        };
        if (Result<void> written = co_await write(plan); !written) co_return written.error();
    }
    if (!state_.is_parked() || state_.open_calls() == 0) co_return std::optional<Suspension>();
    run_ = state_.run->run_id;
    co_return turn_so_far().so_far;
}

// The turn as the log has it. Its last assistant message stands without results: they are listed.
Session::Interrupted DurableSession::turn_so_far() const {
    Interrupted left;
    Suspension& state = left.so_far;
    state.usage = turn_usage_;
    const std::span<const TranscriptEntry> entries = turn();
    const auto last = std::ranges::find(entries.rbegin(), entries.rend(), Role::assistant,
                                        &TranscriptEntry::role);
    for (const TranscriptEntry& entry : entries) {
        state.turn_messages.push_back({entry.role, entry.content, {}});
        const bool is_last = last != entries.rend() && &entry == &*last;
        if (entry.parts.empty() || is_last) continue;
        state.turn_messages.push_back(results_message(entry.parts, error_result(kOutcomeUnknown)));
    }
    if (last == entries.rend()) return left;
    for (const ToolPart& part : last->parts) {
        const auto call = std::ranges::find(state_.calls, part.call_id, &TurnCall::call_id);
        const auto waits = std::ranges::find_if(state_.pending, [&](const PendingCall& one) {
            return one.call_id == part.call_id && is_open(one.status);
        });
        if (part.result) {
            state.completed_tool_calls.push_back(
                {part.call_id, part.tool, part.input, *part.result, {}});
        } else if (waits != state_.pending.end()) {
            const auto reason = parse_enum<SuspendReason>(waits->reason);
            PendingToolCall pending{
                part.call_id,  part.tool,       part.input,
                waits->prompt, waits->metadata, reason.value_or(SuspendReason::input_required)};
            pending.pending_id = waits->pending_id;
            pending.waits_for = waits->waits_for;
            if (waits->expires_at) {
                pending.timeout_ms = (*waits->expires_at - waits->created_at).count();
            }
            state.pending_tool_calls.push_back(std::move(pending));
        } else if (call != state_.calls.end() && call->phase == CallPhase::approved) {
            state.approved_tool_calls.push_back({part.call_id, part.input, {}});
        } else if (call != state_.calls.end() && call->phase == CallPhase::started) {
            left.may_have_run.push_back(part.call_id);
        }
    }
    return left;
}

Task<Result<std::optional<Session::Interrupted>>> DurableSession::interrupted() {
    if (Result<void> fresh = refresh(); !fresh) co_return fresh.error();
    const bool left = state_.run && state_.run->outcome == RunOutcome::interrupted;
    const bool accepted = state_.run_is_open() && !state_.is_parked();
    if (!left && !accepted) co_return std::optional<Interrupted>();
    run_ = state_.run->run_id;
    Interrupted found = turn_so_far();
    found.resumed = state_.run->resume_unapplied;
    co_return found;
}

}  // namespace rouse
