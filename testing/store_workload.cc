#include "testing/store_workload.h"

#include <algorithm>
#include <utility>

#include "domain/session_rules.h"
#include "domain/transcript.h"
#include "store/files/packs.h"

namespace rouse::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kProse =
    "The build went through, the preview answers on its port, and the smoke tests are green. "
    "Before it goes out to everybody somebody should look at the banner once more: it says 1 < 2. ";

std::string prose(std::string_view start, std::size_t times) {
    std::string text(start);
    for (std::size_t i = 0; i < times; ++i) {
        text += kProse;
    }
    return text;
}

SessionId session(std::string_view name) {
    return SessionId("sess_" + std::string(name));
}

Error nothing_there(std::string_view what) {
    return {ErrorKind::precondition, "not_now", std::string(what)};
}

template <class Plan>
Result<Records> records_of(Result<Plan> plan) {
    if (!plan) return plan.error();
    return std::move(plan->records);
}

Result<PendingCall> open_call(const SessionState& state, std::size_t index) {
    for (const PendingCall& call : state.pending) {
        if (is_open(call.status) && index-- == 0) return call;
    }
    return nothing_there("no such call is open");
}

}  // namespace

FileStoreOptions tiny_store_options() {
    FileStoreOptions options;
    options.threads = FileStoreOptions::Threads::none;
    options.segment_bytes = 8U << 10U;
    options.checkpoint_bytes = 14U << 10U;
    options.open_logs = 3;
    options.tail_bytes = 3U << 10U;
    options.cache_bytes = 2U << 10U;
    options.reserve_bytes = 4U << 10U;
    options.journal_kept = Milliseconds(0);
    options.journal_kept_bytes = 0;
    return options;
}

// ---- one process ----------------------------------------------------------------------------

StoreProcess::StoreProcess(StoreWorld& world, Fs& fs, BootId boot,
                           RecordingStore::Observer observer)
    : world_(world),
      fs_(fs),
      boot_(std::move(boot)),
      observer_(std::move(observer)),
      ids_(world.clock, world.random) {}

Result<void> StoreProcess::open() {
    Result<std::unique_ptr<FileStore>> opened =
        FileStore::open(world_.env(fs_), kStoreDirectory, tiny_store_options());
    if (!opened) return opened.error();
    files_ = *std::move(opened);
    recording_ = std::make_unique<RecordingStore>(*files_, world_.ledger, observer_);
    return {};
}

Result<BootReport> StoreProcess::recover() {
    return RecoveryManager(world_.env(fs_), *recording_).recover(boot_);
}

Result<void> StoreProcess::close() {
    return files_->close();
}

Result<Committed> StoreProcess::commit(const SessionId& id, Seq expected, Records records,
                                       Urgency urgency) {
    Commit commit = make_commit(id, expected, std::move(records));
    commit.urgency = urgency;
    return recording_->commit_and_wait(std::move(commit));
}

template <class Plan>
Result<Committed> StoreProcess::plan_and_commit(const SessionId& id, Plan plan) {
    const Result<std::shared_ptr<const SessionState>> state = recording_->load(id);
    if (!state) return state.error();
    Result<Records> records = plan(**state);
    if (!records) return records.error();
    return commit(id, (*state)->last_seq, *std::move(records));
}

Result<Committed> StoreProcess::create(const SessionId& id) {
    SessionCreated created;
    created.id = id;
    created.title = "Deploy the preview";
    created.agent = "helper";
    created.task_id = "task_1";
    return commit(id, 0, {created});
}

Result<Committed> StoreProcess::message(const SessionId& id, std::string text,
                                        OnWaiting on_waiting) {
    return plan_and_commit(id, [&](const SessionState& state) {
        MessageCommand command;
        command.message.message_id = ids_.make<MessageId>();
        command.message.content = text_content(std::move(text));
        command.new_run = ids_.make<RunId>();
        command.boot = boot_;
        command.on_waiting = on_waiting;
        command.now = world_.now();
        return records_of(plan_message(state, command));
    });
}

Result<Committed> StoreProcess::say(const SessionId& id, std::string text, std::size_t calls) {
    return plan_and_commit(id, [&](const SessionState& state) -> Result<Records> {
        if (!state.run_is_open() || state.is_parked()) return nothing_there("nobody speaks");
        for (const TurnCall& call : state.calls) {
            if (call.phase != CallPhase::settled) return nothing_there("calls come first");
        }
        MessageAssistant said;
        said.message_id = ids_.make<MessageId>();
        said.run_id = state.run->run_id;
        said.content = text_content(std::move(text));
        for (std::size_t i = 1; i <= calls; ++i) {
            said.content.emplace_back(ToolUseBlock{CallId{"call_" + std::to_string(i)},
                                                   "deploy",
                                                   RawJson::trusted(R"({"n":1.50})"),
                                                   {}});
        }
        said.usage.output_tokens = 3;
        return Records{said};
    });
}

Result<Committed> StoreProcess::run_tool(const SessionId& id, std::size_t call) {
    return plan_and_commit(id, [&](const SessionState& state) -> Result<Records> {
        if (!state.run_is_open() || call >= state.calls.size()) return nothing_there("no call");
        const TurnCall& turn_call = state.calls[call];
        return Records{ToolStarted{state.run->run_id, turn_call.call_id, turn_call.tool, {}},
                       ToolCompleted{turn_call.call_id, text_result(prose("done. ", 1)), {}}};
    });
}

Result<Committed> StoreProcess::park(const SessionId& id, std::optional<Milliseconds> timeout) {
    return plan_and_commit(id, [&](const SessionState& state) -> Result<Records> {
        if (!state.run_is_open()) return nothing_there("no run to park");
        ParkCommand command;
        command.run_id = state.run->run_id;
        command.wait_id = ids_.make<WaitId>();
        const PresentedToken token{ids_.make<TokenId>(), ids_.secret()};
        tokens_.emplace_back(id, token);
        command.token = {token.token_id, hash_of_secret(token.secret)};
        for (const TurnCall& call : state.calls) {
            if (call.phase != CallPhase::requested) continue;
            PendingCreated created;
            created.pending_id = make_pending_id(id, ids_.random_text(20));
            created.run_id = state.run->run_id;
            created.call_id = call.call_id;
            created.tool = call.tool;
            if (timeout) created.expires_at = world_.now() + *timeout;
            command.calls.push_back(std::move(created));
        }
        return plan_park(state, command);
    });
}

Result<Committed> StoreProcess::claim(const SessionId& id, std::size_t call) {
    return plan_and_commit(id, [&](const SessionState& state) -> Result<Records> {
        const Result<PendingCall> found = open_call(state, call);
        if (!found) return found.error();
        return plan_claim(state, found->pending_id, "worker-a", world_.now() + 5min, world_.now());
    });
}

Result<Committed> StoreProcess::settle(const SessionId& id, std::size_t call, std::string text) {
    return plan_and_commit(id, [&](const SessionState& state) -> Result<Records> {
        const Result<PendingCall> found = open_call(state, call);
        if (!found) return found.error();
        return records_of(
            plan_settle(state, found->pending_id, text_result(text), boot_, world_.now()));
    });
}

Result<Committed> StoreProcess::resume_by_token(const SessionId& id, std::string text) {
    return plan_and_commit(id, [&](const SessionState& state) -> Result<Records> {
        const auto token = std::ranges::find(tokens_.rbegin(), tokens_.rend(), id,
                                             &std::pair<SessionId, PresentedToken>::first);
        if (token == tokens_.rend()) return nothing_there("no token was made");
        ResumeCommand command{token->second, {}, boot_};
        for (const PendingCall& call : state.pending) {
            command.results.emplace_back(call.call_id, text_result(text));
        }
        return records_of(plan_resume(state, command, world_.now()));
    });
}

Result<Committed> StoreProcess::expire(const SessionId& id) {
    return plan_and_commit(id, [&](const SessionState& state) -> Result<Records> {
        Records due = plan_due(state, boot_, world_.now());
        if (due.empty()) return nothing_there("nothing is due");
        return due;
    });
}

Result<Committed> StoreProcess::cancel(const SessionId& id) {
    return plan_and_commit(id, [&](const SessionState& state) {
        return plan_cancel(state, CancelMode::discard, boot_);
    });
}

Result<Committed> StoreProcess::go_on(const SessionId& id) {
    return plan_and_commit(id, [&](const SessionState& state) {
        return plan_continue(state, ids_.make<RunId>(), boot_);
    });
}

Result<Committed> StoreProcess::complete(const SessionId& id) {
    return plan_and_commit(id, [&](const SessionState& state) -> Result<Records> {
        if (!state.run) return nothing_there("no run");
        return plan_complete(state, state.run->run_id);
    });
}

Result<Committed> StoreProcess::update(const SessionId& id, std::string title) {
    return plan_and_commit(id, [&](const SessionState& state) {
        SessionUpdated update;
        update.title = std::move(title);
        return plan_update(state, update);
    });
}

Result<Committed> StoreProcess::fork(const SessionId& from, const SessionId& to) {
    const Result<std::vector<Record>> records = read_records(*recording_, from);
    if (!records) return records.error();
    Transcript transcript;
    for (const Record& record : *records) {
        transcript.fold(record);
    }
    SessionCreated created;
    created.id = to;
    created.title = "A fork";
    return commit(to, 0, plan_fork(created, ForkOrigin{from, records->back().seq, {}}, transcript));
}

// One commit over two sessions, neither of which knows where the other ends.
Result<Committed> StoreProcess::mail(const SessionId& from, const SessionId& to, std::string text) {
    const MessageId id = ids_.make<MessageId>();
    Commit commit;
    commit.appends.push_back(
        {from, std::nullopt, {OutboxSent{id, {to.text()}, text, {}, "chain_1", 1, {}}}});
    commit.appends.push_back(
        {to, std::nullopt, {InboxReceived{id, from.text(), text, {}, "chain_1", 1, {}}}});
    return recording_->commit_and_wait(std::move(commit));
}

Result<Committed> StoreProcess::remove(const SessionId& id) {
    const Result<std::shared_ptr<const SessionState>> state = recording_->load(id);
    if (!state) return state.error();
    Result<DeletePlan> plan = plan_delete(**state);
    if (!plan) return plan.error();
    Commit commit;
    commit.urgency = Urgency::may_use_reserve;
    commit.appends.push_back({id, (*state)->last_seq, std::move(plan->session)});
    commit.appends.push_back({system_log(), std::nullopt, std::move(plan->system)});
    return recording_->commit_and_wait(std::move(commit));
}

// ---- the script -----------------------------------------------------------------------------

template <class T>
void StoreWorkload::note(std::string_view name, const Result<T>& done) {
    if (done) return;
    if (end_.whole) end_.first_refusal = std::string(name) + ": " + done.error().message;
    end_.whole = false;
}

template <class Step>
void StoreWorkload::step(std::string_view name, Step take) {
    if (!end_.whole && if_refused_ == IfRefused::stop) return;
    if (process_ == nullptr) return;
    note(name, take(*process_));
}

// The process before it is gone, with or without a good end.
void StoreWorkload::boot(std::string_view name) {
    if (!end_.whole && if_refused_ != IfRefused::go_on) return;
    ++openings_;
    process_ = std::make_unique<StoreProcess>(world_, fs_, BootId(std::string(name)), observer_);
    const Result<void> opened = process_->open();
    note(name, opened);
    if (!opened) {
        process_.reset();
        return;
    }
    const Problems lost = world_.ledger.compare(process_->store());
    end_.problems.insert(end_.problems.end(), lost.begin(), lost.end());
    step("recover", [](StoreProcess& p) { return p.recover(); });
}

void StoreWorkload::stop() {
    step("close", [](StoreProcess& p) { return p.close(); });
    if (end_.whole || if_refused_ != IfRefused::stop) process_.reset();
}

// A turn with two calls that end one after the other, a plain turn, a fork, mail.
void StoreWorkload::first_day() {
    const SessionId a = session("a");
    const SessionId b = session("b");
    const SessionId fork = session("fork");
    step("create a", [&](StoreProcess& p) { return p.create(a); });
    step("create b", [&](StoreProcess& p) { return p.create(b); });
    step("ask a", [&](StoreProcess& p) { return p.message(a, prose("Deploy main. ", 2)); });
    step("a calls", [&](StoreProcess& p) { return p.say(a, "Two at once.", 2); });
    step("a parks", [&](StoreProcess& p) { return p.park(a, 1h); });
    step("ask b", [&](StoreProcess& p) { return p.message(b, prose("And the docs? ", 2)); });
    step("b calls", [&](StoreProcess& p) { return p.say(b, "Let me see.", 1); });
    step("b's tool", [&](StoreProcess& p) { return p.run_tool(b, 0); });
    step("claim", [&](StoreProcess& p) { return p.claim(a, 0); });
    step("mail", [&](StoreProcess& p) { return p.mail(a, b, prose("Wait for me. ", 1)); });
    step("partial result", [&](StoreProcess& p) { return p.settle(a, 0, prose("ok 1 ", 2)); });
    step("b answers", [&](StoreProcess& p) { return p.say(b, prose("They are fine. ", 2), 0); });
    step("b completes", [&](StoreProcess& p) { return p.complete(b); });
    step("result", [&](StoreProcess& p) { return p.settle(a, 0, prose("ok 2 ", 2)); });
    step("a answers", [&](StoreProcess& p) { return p.say(a, prose("Deployed. ", 3), 0); });
    step("a completes", [&](StoreProcess& p) { return p.complete(a); });
    step("fork", [&](StoreProcess& p) { return p.fork(a, fork); });
    step("checkpoint", [&](StoreProcess& p) { return p.files().checkpoint(); });
    step("update", [&](StoreProcess& p) { return p.update(b, "Docs"); });
    step("delete the fork", [&](StoreProcess& p) { return p.remove(fork); });
}

// More sessions than may stay open come and go; one comes back, one is deleted.
void StoreWorkload::come_and_go(std::string_view name) {
    step("checkpoint", [&](StoreProcess& p) { return p.files().checkpoint(); });
    for (int i = 1; i <= 6; ++i) {
        const SessionId id = session(std::string(name) + std::to_string(i));
        step("create", [&](StoreProcess& p) { return p.create(id); });
        step("update", [&](StoreProcess& p) { return p.update(id, "Brief"); });
    }
    step("checkpoint", [&](StoreProcess& p) { return p.files().checkpoint(); });
}

void StoreWorkload::short_lives() {
    come_and_go("brief");
    const auto packs = files::list_packs(fs_, files::Layout(kStoreDirectory));
    end_.packs = packs ? packs->size() : 0;
    step("come back", [&](StoreProcess& p) { return p.update(session("brief1"), "Again"); });
    step("delete", [&](StoreProcess& p) { return p.remove(session("brief2")); });
    step("checkpoint", [&](StoreProcess& p) { return p.files().checkpoint(); });
}

// Waits that end in other ways, and a session for each thing that a restart may meet.
void StoreWorkload::second_day() {
    const SessionId c = session("c");
    const SessionId d = session("d");
    const SessionId waits = session("waits");
    const SessionId computes = session("computes");
    const SessionId resumed = session("resumed");
    for (const SessionId& id : {c, d, waits, resumed}) {
        step("create", [&](StoreProcess& p) { return p.create(id); });
        step("ask", [&](StoreProcess& p) { return p.message(id, prose("Again. ", 1)); });
        step("call", [&](StoreProcess& p) { return p.say(id, "One moment.", 2); });
        step("park", [&](StoreProcess& p) {
            return p.park(id, id == c ? Milliseconds(10min) : Milliseconds(24h));
        });
    }
    world_.clock.advance(11min);
    step("c expires", [&](StoreProcess& p) { return p.expire(c); });
    step("c answers", [&](StoreProcess& p) { return p.say(c, prose("Too late. ", 2), 0); });
    step("c completes", [&](StoreProcess& p) { return p.complete(c); });
    step("create", [&](StoreProcess& p) { return p.create(computes); });
    step("ask", [&](StoreProcess& p) { return p.message(computes, prose("Think. ", 3)); });
    step("claim", [&](StoreProcess& p) { return p.claim(waits, 1); });
    step("checkpoint", [&](StoreProcess& p) { return p.files().checkpoint(); });
    step("delete a parked one", [&](StoreProcess& p) { return p.remove(d); });
    step("result", [&](StoreProcess& p) { return p.settle(resumed, 0, "ok"); });
    step("last result", [&](StoreProcess& p) { return p.settle(resumed, 0, "ok"); });
}

// After the restart everything goes on, and the journal goes round once more.
void StoreWorkload::third_day() {
    const SessionId a = session("a");
    const SessionId b = session("b");
    const SessionId waits = session("waits");
    const SessionId computes = session("computes");
    const SessionId resumed = session("resumed");
    come_and_go("late");
    step("come back", [&](StoreProcess& p) { return p.update(session("brief3"), "Later"); });
    step("delete", [&](StoreProcess& p) { return p.remove(session("brief4")); });
    step("answer", [&](StoreProcess& p) { return p.say(resumed, prose("Now. ", 2), 0); });
    step("complete", [&](StoreProcess& p) { return p.complete(resumed); });
    step("go on", [&](StoreProcess& p) { return p.go_on(computes); });
    step("mail", [&](StoreProcess& p) { return p.mail(computes, a, prose("Hello. ", 3)); });
    step("supersede", [&](StoreProcess& p) { return p.message(waits, prose("Stop. ", 2)); });
    step("call", [&](StoreProcess& p) { return p.say(waits, "Once more.", 1); });
    step("park", [&](StoreProcess& p) { return p.park(waits, std::nullopt); });
    step("resume", [&](StoreProcess& p) { return p.resume_by_token(waits, prose("ok ", 2)); });
    step("ask a", [&](StoreProcess& p) { return p.message(a, prose("Deploy next. ", 3)); });
    step("cancel", [&](StoreProcess& p) { return p.cancel(a); });
    for (int i = 0; i < 4; ++i) {
        step("ask b", [&](StoreProcess& p) { return p.message(b, prose("More. ", 4)); });
        step("b answers", [&](StoreProcess& p) { return p.say(b, prose("So be it. ", 4), 0); });
        step("b completes", [&](StoreProcess& p) { return p.complete(b); });
    }
    step("create e", [&](StoreProcess& p) { return p.create(session("e")); });
    step("mail", [&](StoreProcess& p) { return p.mail(session("e"), b, "Bye."); });
}

WorkloadEnd StoreWorkload::run() {
    boot("boot_1");
    first_day();
    short_lives();
    second_day();
    stop();
    world_.clock.advance(2h);
    boot("boot_2");
    third_day();
    stop();
    return end_;
}

}  // namespace rouse::testing
