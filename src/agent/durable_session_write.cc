// DurableSession: what it writes of runs and turns.

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <iterator>

#include "agent/durable_session.h"
#include "agent/store_async.h"
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

constexpr int kTries = 1000;  // a log that moves so often is moved by a fault of ours

Error turn_in_progress() {
    return {ErrorKind::precondition, "interrupted_turn",
            "a turn is in progress, or was left by a crash after its answers were taken: wait for "
            "it, or send go_on"};
}

Error run_ended() {
    return {ErrorKind::cancelled, "run_ended", "the run was ended by somebody else"};
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
