// DurableSession: what it writes.

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <iterator>
#include <ranges>

#include "agent/durable_session.h"
#include "agent/store_async.h"
#include "base/limits.h"
#include "domain/child.h"
#include "domain/fold.h"
#include "domain/mail.h"
#include "domain/recovery_plan.h"
#include "domain/run_rules.h"
#include "domain/wait_rules.h"

namespace rouse {

namespace asio = boost::asio;

namespace {

const Error kNotSuspended(ErrorKind::precondition, "not_suspended",
                          "the session waits for nothing; send it a message instead");

constexpr std::size_t kPendingRandomBytes = 20;
constexpr int kTries = 1000;  // a log that moves so often is moved by a fault of ours

std::string plain_text(const ToolResult& result) {
    if (const auto text = read_json_string(result.content.text())) return *text;
    return result.content.text();
}

Error turn_in_progress() {
    return {ErrorKind::precondition, "interrupted_turn",
            "a turn is in progress, or was left by a crash after its answers were taken: wait for "
            "it, or send go_on"};
}

Error run_ended() {
    return {ErrorKind::cancelled, "run_ended", "the run was ended by somebody else"};
}

// What settles a pending call of ours with the result that its tool gave at once.
RecordBody settled(const PendingCall& call, const ToolResult& result) {
    return PendingCompleted{call.pending_id, call.call_id, result, digest_of(result)};
}

// Sets a flag, unless it came to what was expected before something was thrown.
class Unless {
 public:
    explicit Unless(bool& flag) : flag_(flag) {}
    Unless(const Unless&) = delete;
    Unless& operator=(const Unless&) = delete;
    ~Unless() { flag_ = flag_ || !happened_; }
    void happened() { happened_ = true; }

 private:
    bool& flag_;
    bool happened_ = false;
};

// Whoever is cancelled while it waits throws, and must not be found in the line after that.
class InLine {
 public:
    InLine(std::vector<asio::steady_timer*>& line, asio::steady_timer& one)
        : line_(line), one_(one) {
        line_.push_back(&one_);
    }
    InLine(const InLine&) = delete;
    InLine& operator=(const InLine&) = delete;
    ~InLine() { std::erase(line_, &one_); }

 private:
    std::vector<asio::steady_timer*>& line_;
    asio::steady_timer& one_;
};

}  // namespace

void DurableSession::fold_ahead(const Records& records) {
    for (const RecordBody& record : records)
        note(RecordView(state_.last_seq + 1, now(), record));
}

void DurableSession::keep(RecordBody record) {
    note(RecordView(state_.last_seq + 1, now(), record));
    kept_.push_back(std::move(record));
}

Task<Result<void>> DurableSession::write_kept() {
    const Plan nothing_more = [](const SessionState&) { return Result<Records>(Records()); };
    co_return co_await write(nothing_more);
}

// Somebody else wrote. What they wrote comes first, unless it ended the run that this turn is.
Result<void> DurableSession::put_back(Records kept, const std::optional<RunId>& run) {
    if (Result<void> read = reload(); !read) return read;
    const bool goes_on = !run || (state_.run_is_open() && state_.run->run_id == *run);
    if (!goes_on) return run_ended();
    for (RecordBody& record : kept)
        keep(std::move(record));
    return {};
}

std::optional<RunId> DurableSession::open_run() const {
    if (!state_.run_is_open()) return std::nullopt;
    return state_.run->run_id;
}

// Calls of one batch end side by side; their records go one after the other.
Task<void> DurableSession::until_nobody_writes() {
    asio::steady_timer turn(co_await asio::this_coro::executor);
    turn.expires_at(asio::steady_timer::time_point::max());
    while (writing_) {
        const InLine place(writers_, turn);
        (void)co_await turn.async_wait(asio::as_tuple(asio::use_awaitable));
    }
}

DurableSession::Writing::~Writing() {
    session_.writing_ = false;
    if (!session_.writers_.empty()) session_.writers_.front()->cancel();
}

Task<Result<void>> DurableSession::send(Commit commit, Companions::Then then) {
    const Result<Committed> done = co_await commit_async(*store_, std::move(commit));
    if (!done) co_return done.error();
    if (then) then();
    co_return Result<void>();
}

// What the store refuses, it refuses at once; what it takes fails with the disk alone.
Task<Result<void>> DurableSession::send_last(Commit commit, Companions::Then then) {
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    const std::shared_ptr<CommitUnderWay> sent = start_commit(*store_, std::move(commit), loop_);
    if (sent->refused()) {
        const Result<Committed> refused = co_await sent->wait(executor);
        co_return refused.error();
    }
    if (then) sent->when_durable(std::move(then));
    go_ahead_of(sent);
    co_return Result<void>();
}

Task<Result<void>> DurableSession::write(Plan plan, Step step) {
    std::optional<RunId> run = open_run();
    const bool behind_another = writing_;
    if (behind_another) co_await until_nobody_writes();
    const Writing writing(*this);
    // What the one before wrote, or should have written, may be what this one builds on.
    if (behind_another && run && open_run() != run) co_return run_ended();
    if (stale_ && lost_) co_return *lost_;
    for (int tries = 0;; ++tries) {
        run = open_run();
        Result<Records> planned = plan(state_);
        if (!planned) co_return planned.error();
        Records kept = std::exchange(kept_, {});
        kept_bytes_ = 0;
        const bool ends = step == Step::last && !planned->empty() && loop_;
        const std::size_t own = kept.size() + planned->size();
        if (own == 0) co_return Result<void>();
        fold_ahead(*planned);
        Records records = kept;
        std::ranges::move(*planned, std::back_inserter(records));
        Commit commit = make_commit(id_, sent_, std::move(records));
        Companions::Then then;
        if (companions_ != nullptr) {
            Result<Companions::Then> joined = companions_->join(state_, commit);
            stale_ = stale_ || !joined;
            if (!joined) co_return joined.error();
            then = *std::move(joined);
            const Records& all = commit.appends.front().records;
            if (all.size() > own) {
                fold_ahead(Records(all.begin() + static_cast<std::ptrdiff_t>(own), all.end()));
            }
        }
        const std::size_t count = commit.appends.front().records.size();
        Unless sent(stale_);  // cancelled here, it would know more than the log
        Result<void> done;
        if (ends) {
            done = co_await send_last(std::move(commit), std::move(then));
        } else {
            done = co_await send(std::move(commit), std::move(then));
        }
        sent.happened();
        if (done) {
            sent_ += count;
            co_return Result<void>();
        }
        stale_ = true;
        if (!is_outdated(done.error()) || tries == kTries) {
            lost_ = done.error();
            co_return done.error();
        }
        co_await until_it_shows(tries);
        // The log is read again, and must have what this turn began with.
        if (Result<void> there = co_await until_it_arrives(); !there) co_return there;
        std::ranges::move(kept_, std::back_inserter(kept));  // what others kept meanwhile
        Result<void> again = put_back(std::move(kept), run);
        if (!again) co_return again;
    }
}

Task<Result<void>> DurableSession::begin_turn(std::vector<Message> input) {
    for (const Message& message : input) {
        if (message.role == Role::user) continue;
        co_return Error(ErrorKind::invalid, "not_a_user_message",
                        "a durable session takes messages of the user; the rest is in its log");
    }
    MessageCommand command;
    command.message = {ids_.make<MessageId>(), std::move(input.back().content), false, {}};
    command.new_run = ids_.make<RunId>();
    command.boot = boot_;
    command.on_waiting = OnWaiting::reject;
    command.on_running = OnRunning::reject;
    command.now = now();
    input.pop_back();
    Records earlier;
    for (Message& message : input) {
        earlier.emplace_back(
            MessageUser{ids_.make<MessageId>(), std::move(message.content), false, {}});
    }
    RunId run;
    const Plan plan = [&](const SessionState& state) -> Result<Records> {
        if (state.run_is_open() && !state.is_parked()) return turn_in_progress();
        Result<MessagePlan> begun = plan_message(state, command);
        if (!begun) return begun.error();
        run = begun->run_id;
        Records records = earlier;
        std::ranges::move(begun->records, std::back_inserter(records));
        return records;
    };
    if (Result<void> written = co_await write(plan); !written) co_return written;
    run_ = run;
    co_return Result<void>();
}

Task<Result<void>> DurableSession::add_assistant(AssistantStep step) {
    MessageAssistant record;
    record.message_id = coming_step();
    coming_step_.reset();
    record.run_id = run_;
    record.content = std::move(step.message.content);
    record.model = std::move(step.model);
    record.stop_reason = std::move(step.stop_reason);
    record.usage = step.usage;
    keep(std::move(record));
    co_return Result<void>();
}

const MessageId& DurableSession::coming_step() {
    if (!coming_step_) coming_step_ = ids_.make<MessageId>();
    return *coming_step_;
}

Task<Result<void>> DurableSession::add_user(Message message) {
    keep(MessageUser{ids_.make<MessageId>(), std::move(message.content), false, {}});
    co_return Result<void>();
}

// Others may have written while this turn keeps records back.
Result<void> DurableSession::catch_up() {
    if (runs_ahead()) return {};
    if (lost_) return *lost_;
    const Result<Seq> latest = store_->last_seq(id_);
    if (!latest) return latest.error();
    if (*latest <= sent_) return {};
    if (kept_.empty()) return read_from(sent_ + 1);
    return put_back(std::exchange(kept_, {}), open_run());
}

Task<Result<std::optional<Message>>> DurableSession::new_mail() {
    if (writing_) co_await until_nobody_writes();
    const Writing writing(*this);
    const Result<void> fresh = catch_up();
    if (!fresh) co_return fresh.error();
    if (!state_.run_is_open() || state_.run->run_id != run_) co_return run_ended();
    InboxPresented shown;
    shown.run_id = run_;
    std::vector<InboxReceived> letters;
    std::vector<Timestamp> times;
    for (const auto& [letter, at] : letters_) {
        const auto row = std::ranges::find(state_.mail, letter.message_id, &MailRow::message_id);
        if (row == state_.mail.end() || !row->may_be_shown()) continue;
        shown.message_ids.push_back(letter.message_id);
        letters.push_back(letter);
        times.push_back(at);
    }
    if (letters.empty()) co_return std::optional<Message>();
    shown.text = render_mail(letters, times);
    Message message = user_message(shown.text);
    keep(std::move(shown));
    co_return std::optional<Message>(std::move(message));
}

Task<Result<void>> DurableSession::calls_starting(std::vector<CallId> calls) {
    const Plan plan = [this, calls = std::move(calls)](const SessionState& state) {
        Records records;
        for (const CallId& id : calls) {
            const auto call = std::ranges::find(state_.calls, id, &TurnCall::call_id);
            const std::string tool = call == state_.calls.end() ? "" : call->tool;
            records.emplace_back(ToolStarted{state.run->run_id, id, tool, {}});
        }
        return Result<Records>(std::move(records));
    };
    co_return co_await write(plan);
}

const PendingCall* DurableSession::open_call(const CallId& id) const {
    const auto call = std::ranges::find_if(state_.pending, [&](const PendingCall& one) {
        return one.call_id == id && is_open(one.status);
    });
    return call == state_.pending.end() ? nullptr : &*call;
}

// True when the call has the input that the model wrote: then the log has it already.
bool DurableSession::is_written(const PendingToolCall& call) const {
    for (const TranscriptEntry& entry : std::views::reverse(turn())) {
        if (entry.role != Role::assistant) continue;
        return std::ranges::any_of(entry.content, [&](const Block& block) {
            const auto* use = block.get_if<ToolUseBlock>();
            return use != nullptr && use->id == call.id && use->input == call.input;
        });
    }
    return false;
}

MessageId DurableSession::latest_step() const {
    const auto entries = std::views::reverse(turn());
    const auto assistant = std::ranges::find(entries, Role::assistant, &TranscriptEntry::role);
    return assistant == entries.end() ? MessageId() : assistant->message_id;
}

PendingCreated DurableSession::created(const PendingToolCall& call, Timestamp at) {
    PendingCreated record;
    record.pending_id = make_pending_id(id_, ids_.random_text(kPendingRandomBytes));
    record.run_id = run_;
    record.call_id = call.id;
    record.message_id = latest_step();
    record.part_id = call.id.text;
    record.tool = call.name;
    record.waits_for = call.waits_for;
    record.reason = to_string(call.reason);
    record.prompt = call.prompt;
    record.metadata = call.metadata;
    record.input_digest = digest_of_input(call.input);
    if (!is_written(call)) record.input = call.input;
    record.by_id = call.callback.by_id;
    record.webhook_url = call.callback.webhook_url;
    record.webhook_secret_env = call.callback.secret_env;
    if (call.timeout_ms > 0) record.expires_at = at + Milliseconds(call.timeout_ms);
    return record;
}

Task<Result<std::vector<PendingId>>> DurableSession::calls_pending(std::vector<Starting> calls) {
    Records records;
    std::vector<PendingId> ids;
    for (const Starting& starting : calls) {
        PendingCreated record = created(starting.call, now());
        if (starting.local) record.local_boot = boot_;
        record.ask_if_unknown = starting.local && starting.ask_if_unknown;
        record.repeat_if_unknown = starting.local && starting.may_run_again;
        ids.push_back(record.pending_id);
        records.emplace_back(std::move(record));
    }
    const Plan plan = [records](const SessionState&) { return Result<Records>(records); };
    if (Result<void> written = co_await write(plan); !written) co_return written.error();
    co_return ids;
}

// True if the turn is not about to park: other calls are under way.
bool DurableSession::others_are_under_way(const CallId& id) const {
    return std::ranges::any_of(state_.calls, [&](const TurnCall& call) {
        if (call.call_id == id) return false;
        // Of those that may run again, the log says nothing before they end.
        if (call.phase == CallPhase::started || call.phase == CallPhase::requested) return true;
        const PendingCall* pending = open_call(call.call_id);
        return pending != nullptr && !pending->started_at;
    });
}

// Goes along with the commit that parks the turn, if that comes next: after a crash in between, the
// call waits all the same.
Task<Result<void>> DurableSession::call_started(Started started) {
    if (open_call(started.call.id) == nullptr) co_return Result<void>();
    PendingWaiting record;
    record.pending_id = started.call.pending_id;
    record.reason = "started";
    record.external_ref = std::move(started.external_ref);
    if (started.estimated) record.estimated_ms = started.estimated->count();
    record.prompt = std::move(started.call.prompt);
    record.metadata = std::move(started.call.metadata);
    keep(std::move(record));
    if (others_are_under_way(started.call.id)) co_return co_await write_kept();
    co_return Result<void>();
}

Task<Result<ToolResult>> DurableSession::call_ended(CallId call, ToolResult result) {
    const auto known = std::ranges::find(state_.calls, call, &TurnCall::call_id);
    const bool was_announced = known != state_.calls.end() && known->phase != CallPhase::requested;
    // What a call starts (a letter, a child) begins with its record, not after the next model call.
    const bool starts = read_letter(result.metadata) || read_wish(result.metadata);
    if (!was_announced && !starts) {
        kept_bytes_ += result.content.text().size() + result.metadata.text().size();
        keep(ToolCompleted{std::move(call), result});
        if (kept_bytes_ < limits::kKeptResultBytes) co_return result;
        if (Result<void> written = co_await write_kept(); !written) co_return written.error();
        co_return result;
    }
    bool ours = true;
    const Plan plan = [&](const SessionState& state) -> Result<Records> {
        // The latest: an earlier message of the run may have used the same id.
        const auto latest = std::views::reverse(state.pending);
        const auto mine = std::ranges::find_if(latest, [&](const PendingCall& one) {
            return one.call_id == call && one.run_id == run_ && !one.approved;
        });
        if (mine == latest.end()) return Records{ToolCompleted{call, result}};
        ours = is_open(mine->status);
        return ours ? Records{settled(*mine, result)} : Records{};
    };
    if (Result<void> written = co_await write(plan); !written) co_return written.error();
    if (ours) co_return result;
    for (const TranscriptEntry& entry : std::views::reverse(turn())) {
        const auto part = std::ranges::find(entry.parts, call, &ToolPart::call_id);
        if (part != entry.parts.end() && part->result) co_return *part->result;
    }
    co_return result;
}

Task<Result<Suspension>> DurableSession::save_suspended_turn(Suspension suspension) {
    if (state_.is_parked()) {
        if (Result<void> written = co_await write_kept(); !written) co_return written.error();
        co_return suspension;
    }
    const Secret secret = ids_.secret();
    ParkCommand command;
    command.run_id = run_;
    command.wait_id = ids_.make<WaitId>();
    command.token = {ids_.make<TokenId>(), hash_of_secret(secret)};
    for (PendingToolCall& call : suspension.pending_tool_calls) {
        if (!call.pending_id.empty()) continue;
        command.calls.push_back(created(call, now()));
        call.pending_id = command.calls.back().pending_id;
    }
    Plan plan = [&](const SessionState& state) { return plan_park(state, command); };
    if (Result<void> written = co_await write(std::move(plan), Step::last); !written) {
        co_return written.error();
    }
    const bool all_open = std::ranges::all_of(
        suspension.pending_tool_calls,
        [&](const PendingToolCall& call) { return open_call(call.id) != nullptr; });
    Suspension answer = all_open ? std::move(suspension) : turn_so_far().so_far;
    if (!answer.pending_tool_calls.empty()) {
        answer.resume_token = to_token_text(command.token.token_id, secret).reveal();
    }
    co_return answer;
}

Task<Result<void>> DurableSession::save_turn(Turn /*turn*/) {
    if (state_.is_parked()) {
        co_return Error(ErrorKind::conflict, "suspended_session",
                        "the session waits; resume it or cancel its suspension first");
    }
    if (!state_.run_is_open()) {
        co_return Error(ErrorKind::precondition, "not_running", "no turn is in progress");
    }
    const RunId run = run_;
    const Plan plan = [run](const SessionState& state) { return plan_complete(state, run); };
    co_return co_await write(plan, Step::last);
}

Task<Result<void>> DurableSession::save_resumed_turn(Turn turn) {
    if (!state_.run_is_open()) co_return kNotSuspended;
    co_return co_await save_turn(std::move(turn));
}

Task<Result<void>> DurableSession::cancel_suspension() {
    if (Result<void> fresh = refresh(); !fresh) co_return fresh;
    if (!state_.is_parked()) co_return kNotSuspended;
    const Plan plan = [this](const SessionState& state) {
        return plan_cancel(state, CancelMode::discard, boot_);
    };
    co_return co_await write(plan);
}

// The log wins: a state from outside may only speak of what is open here.
Result<Suspension> DurableSession::choose_state(const Suspension& stored,
                                                const Suspension& passed) {
    for (const PendingToolCall& call : passed.pending_tool_calls) {
        const bool known =
            std::ranges::find(stored.pending_tool_calls, call.id, &PendingToolCall::id) !=
            stored.pending_tool_calls.end();
        if (known) continue;
        return Error(ErrorKind::conflict, "unknown_pending_tool_call",
                     "the session does not wait for call " + call.id.text +
                         "; leave out the state, the session has the latest");
    }
    return stored;
}

Result<Records> DurableSession::plan_answers(const SessionState& state, const Answers& answers) {
    Records records;
    SessionState ahead = state;
    const auto take = [&](const Records& more) {
        for (const RecordBody& record : more) {
            fold(ahead, RecordView(ahead.last_seq + 1, now(), record));
            records.push_back(record);
        }
    };
    for (const auto& [id, answer] : answers) {
        const auto call = std::ranges::find_if(ahead.pending, [&](const PendingCall& one) {
            return one.call_id == id && is_open(one.status);
        });
        if (call == ahead.pending.end()) {
            return Error(ErrorKind::conflict, "unknown_pending_tool_call",
                         "the session does not wait for call " + id.text + " any more");
        }
        const bool asks = call->reason == to_string(SuspendReason::approval_required);
        Decision decision;
        if (const auto* approval = std::get_if<Approval>(&answer)) {
            decision = {true, approval->input, approval->input_digest, {}};
        } else if (asks) {
            decision.message = plain_text(std::get<ToolResult>(answer));
        }
        const Result<SettlePlan> plan =
            asks ? plan_decide(ahead, call->pending_id, decision, boot_, now())
                 : plan_settle(ahead, call->pending_id, std::get<ToolResult>(answer), boot_, now());
        if (!plan) return plan.error();
        take(plan->records);
    }
    return records;
}

Task<Result<void>> DurableSession::accept_answers(Answers answers) {
    const Plan plan = [this, answers = std::move(answers)](const SessionState& state) {
        return plan_answers(state, answers);
    };
    co_return co_await write(plan);
}

Task<Result<void>> DurableSession::model_retrying(RetryStep step) {
    coming_step_.reset();
    RunRetrying record;
    record.run_id = run_;
    record.attempt = step.attempt;
    record.message = std::move(step.message);
    record.next = now() + step.delay;
    const Plan plan = [record](const SessionState&) { return Result<Records>(Records{record}); };
    co_return co_await write(plan);
}

Task<Result<void>> DurableSession::context_repaired(std::vector<std::string> changes) {
    keep(ContextRepaired{run_, std::move(changes), {}});
    co_return Result<void>();
}

std::optional<Session::Paid> DurableSession::paid() const {
    if (!state_.run) return std::nullopt;
    return Paid{state_.run->unapproved_tokens, state_.unapproved_tokens};
}

bool DurableSession::waits_for_input() const {
    return state_.is_parked() && state_.run->wait->kind == WaitKind::user_input;
}

Task<Result<Suspension>> DurableSession::wait_for_input(InputWait wait) {
    const Secret secret = ids_.secret();
    ParkCommand command;
    command.run_id = run_;
    command.wait_id = ids_.make<WaitId>();
    command.token = {ids_.make<TokenId>(), hash_of_secret(secret)};
    command.for_user_input = true;
    command.prompt = std::move(wait.prompt);
    if (wait.timeout) command.deadline_at = now() + *wait.timeout;
    const Plan plan = [command](const SessionState& state) { return plan_park(state, command); };
    if (Result<void> written = co_await write(plan); !written) co_return written.error();
    Suspension answer = turn_so_far().so_far;
    answer.resume_token = to_token_text(command.token.token_id, secret).reveal();
    co_return answer;
}

Task<Result<void>> DurableSession::turn_failed(Error error) {
    coming_step_.reset();
    (void)co_await until_it_arrives();
    if (stale_) {
        if (Result<void> read = reload(); !read) co_return read;
    }
    const bool ours = state_.run_is_open() && state_.run->run_id == run_;
    if (!ours || state_.is_parked()) {
        stale_ = true;
        co_return Result<void>();
    }
    const RunId run = run_;
    const Plan plan = [run, error = std::move(error)](const SessionState& state) {
        // Whoever was cancelled may go on later; anything else is the end of the run.
        if (error.kind == ErrorKind::cancelled) return Result<Records>(plan_shutdown(state));
        return plan_fail(state, run, error.reason, error.message);
    };
    Result<void> written = co_await write(plan);
    if (written) co_return written;
    stale_ = true;
    if (written.error().reason == "run_ended") co_return Result<void>();
    co_return written;
}

Task<Result<void>> DurableSession::go_on() {
    if (state_.run_is_open()) co_return Result<void>();
    const RunId run = ids_.make<RunId>();
    const Plan plan = [this, run](const SessionState& state) {
        return plan_continue(state, run, boot_);
    };
    if (Result<void> written = co_await write(plan); !written) co_return written;
    run_ = run;
    co_return Result<void>();
}

}  // namespace rouse
