#include "testing/session_driver.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "base/check.h"
#include "base/digest.h"
#include "domain/fold.h"
#include "domain/recovery_plan.h"
#include "domain/status.h"

namespace rouse::testing {
namespace {

using namespace std::chrono_literals;

Error not_now(std::string_view what) {
    return {ErrorKind::precondition, "not_now", std::string(what)};
}

template <class Plan>
Result<Records> records_of(Result<Plan> plan) {
    if (!plan) return plan.error();
    return std::move(plan->records);
}

template <class Range>
const auto& pick(SeededRandom& rng, const Range& from) {
    return from[rng.below(from.size())];
}

bool one_in(SeededRandom& rng, std::uint64_t n) {
    return rng.below(n) == 0;
}

bool has_no_result(const TurnCall& call) {
    return call.phase != CallPhase::settled;
}

// Text and numbers that do not survive careless hands.
constexpr std::array<std::string_view, 4> kInputs = {
    "{}", R"({"n":0.10,"big":18446744073709551616,"e":1E-2})",
    R"({"path":"a\/b\u00e9\n\"","x":[]})", R"({"deep":{"er":[1,2,{"est":null}]},"":true})"};

ToolResult any_result(SeededRandom& rng) {
    switch (rng.below(3)) {
        case 0: return text_result("done");
        case 1: return error_result("out of \"luck\"\n");
        default:
            return {RawJson::trusted(R"([{"type":"text","text":"ok"},{"type":"x","v":1.50}])"),
                    false,
                    "shown",
                    RawJson::trusted(R"({"cost":0.30})"),
                    {}};
    }
}

Settlement any_settlement(SeededRandom& rng) {
    switch (rng.below(6)) {
        case 0: return CallCancelled{};
        case 1: return CallFailure{"no such branch"};
        default: return any_result(rng);
    }
}

CallSpec any_spec(SeededRandom& rng) {
    constexpr std::array<WaitsFor, 5> kWhom = {WaitsFor::external, WaitsFor::person,
                                               WaitsFor::timer, WaitsFor::child, WaitsFor::message};
    constexpr std::array<Milliseconds, 3> kTimeouts = {10min, 1h, 24h};
    CallSpec spec;
    spec.waits_for = one_in(rng, 2) ? WaitsFor::external : pick(rng, kWhom);
    if (one_in(rng, 4)) {
        spec.timeout = std::nullopt;
    } else {
        spec.timeout = pick(rng, kTimeouts);
    }
    spec.approval = one_in(rng, 4);
    spec.local = one_in(rng, 8);
    spec.ask = spec.local && one_in(rng, 2);
    spec.again = spec.local && one_in(rng, 2);
    return spec;
}

std::vector<CallSpec> any_specs(SeededRandom& rng) {
    std::vector<CallSpec> specs(1 + rng.below(3));
    for (CallSpec& spec : specs)
        spec = any_spec(rng);
    return specs;
}

void move_clock(SeededRandom& rng, ManualClock& clock) {
    constexpr std::array<Milliseconds, 5> kSteps = {1ms, 30s, 11min, 2h, 26h};
    if (one_in(rng, 3)) clock.advance(pick(rng, kSteps));
    if (one_in(rng, 10)) clock.set(clock.now() - pick(rng, kSteps));
}

PendingId any_pending(const SessionDriver& driver, SeededRandom& rng) {
    const std::vector<PendingCall>& known = driver.state().pending;
    if (known.empty() || one_in(rng, 10)) return make_pending_id(driver.id(), "UNKNOWN");
    return pick(rng, known).pending_id;
}

CallId any_call(const SessionDriver& driver, CallPhase phase) {
    const std::vector<TurnCall>& calls = driver.state().calls;
    const auto found = std::ranges::find(calls, phase, &TurnCall::phase);
    return found == calls.end() ? CallId{"call_1"} : found->call_id;
}

std::string any_worker(SeededRandom& rng) {
    return one_in(rng, 4) ? "worker-b" : "worker-a";
}

// ---- moves: what a random step may be -------------------------------------------------------

Result<Records> message_any(SessionDriver& driver, SeededRandom& rng) {
    constexpr std::array<OnWaiting, 3> kOnWaiting = {OnWaiting::supersede, OnWaiting::reject,
                                                     OnWaiting::queue};
    return driver.message(pick(rng, kOnWaiting), rng.coin() ? OnRunning::queue : OnRunning::reject);
}

Result<Records> decide_any(SessionDriver& driver, SeededRandom& rng) {
    Decision decision;
    decision.approve = !one_in(rng, 3);
    if (one_in(rng, 3)) decision.input = RawJson::trusted(R"({"branch":"safe","n":1.0})");
    if (one_in(rng, 3)) decision.input_digest = sha256_hex(one_in(rng, 4) ? "other" : "{}");
    return driver.decide(any_pending(driver, rng), decision);
}

Result<Records> resume_any(SessionDriver& driver, SeededRandom& rng) {
    if (driver.tokens().empty()) return not_now("no token was ever made");
    PresentedToken token = one_in(rng, 4) ? pick(rng, driver.tokens()) : driver.tokens().back();
    if (one_in(rng, 10)) token.secret = Secret("guess");
    std::vector<std::pair<CallId, ToolResult>> results;
    for (const PendingCall& call : driver.state().pending) {
        if (!one_in(rng, 4)) results.emplace_back(call.call_id, any_result(rng));
    }
    if (one_in(rng, 10)) results.emplace_back(CallId{"call_9"}, any_result(rng));
    return driver.resume(token, results);
}

Result<Records> start_any(SessionDriver& driver, SeededRandom& rng) {
    return driver.start_tool(
        any_call(driver, rng.coin() ? CallPhase::approved : CallPhase::requested));
}

using D = SessionDriver;
using R = SeededRandom;

// How often a move is made while the session has no open run, computes, or is parked.
struct Move {
    std::uint64_t idle;
    std::uint64_t active;
    std::uint64_t parked;
    Result<Records> (*plan)(D&, R&);
};

constexpr std::array kMoves = {
    Move{50, 5, 10, message_any},
    Move{20, 0, 0, [](D& d, R&) { return d.go_on(); }},
    Move{0, 15, 0, [](D& d, R& rng) { return d.say(rng.below(4), pick(rng, kInputs)); }},
    Move{0, 10, 0, start_any},
    Move{0, 15, 0,
         [](D& d, R& rng) {
             return d.end_tool(any_call(d, CallPhase::started), any_settlement(rng));
         }},
    Move{0, 5, 0, [](D& d, R& rng) { return d.start_async(any_spec(rng)); }},
    Move{0, 15, 0, [](D& d, R& rng) { return d.park(any_specs(rng)); }},
    Move{0, 15, 0, [](D& d, R& rng) { return d.say_and_park(any_specs(rng)); }},
    Move{0, 5, 0,
         [](D& d, R& rng) {
             return d.park_for_input(rng.coin() ? std::optional<Milliseconds>(1h) : std::nullopt);
         }},
    Move{0, 5, 0, [](D& d, R&) { return d.complete(); }},
    Move{0, 5, 0, [](D& d, R&) { return d.fail(); }},
    Move{0, 5, 0, [](D& d, R&) { return d.retry(); }},
    Move{0, 5, 20, [](D& d, R& rng) { return d.settle(any_pending(d, rng), any_settlement(rng)); }},
    Move{0, 0, 15, decide_any},
    Move{0, 0, 20, resume_any},
    Move{0, 0, 5, [](D& d, R&) { return d.rotate_token(); }},
    Move{0, 0, 5, [](D& d, R& rng) { return d.extend(one_in(rng, 5) ? -1h : 3h); }},
    Move{0, 0, 10,
         [](D& d, R& rng) { return d.claim(any_pending(d, rng), any_worker(rng), 5min); }},
    Move{0, 0, 5, [](D& d, R& rng) { return d.release(any_pending(d, rng), any_worker(rng)); }},
    Move{0, 5, 5,
         [](D& d, R& rng) {
             return d.progress(any_pending(d, rng), static_cast<std::int32_t>(rng.below(101)));
         }},
    Move{0, 5, 10, [](D& d, R&) { return d.due(); }},
    Move{0, 3, 3, [](D& d, R&) { return d.cancel(CancelMode::discard); }},
    Move{0, 2, 2, [](D& d, R&) { return d.cancel(CancelMode::acknowledge); }},
    Move{10, 5, 5, [](D& d, R&) { return d.restart(); }},
    Move{0, 5, 0, [](D& d, R&) { return d.shut_down(); }},
    Move{10, 0, 5, [](D& d, R& rng) { return d.update("Title " + std::to_string(rng.below(9))); }},
    Move{10, 0, 0, [](D& d, R& rng) { return d.compact(rng.below(6)); }},
    Move{1, 1, 1, [](D& d, R&) { return d.remove(); }},
};

const Move& any_move(SeededRandom& rng, const SessionState& state) {
    if (one_in(rng, 6)) return kMoves[rng.below(kMoves.size() - 1)];  // sense or no sense
    const auto weight = [&](const Move& move) {
        return state.is_parked() ? move.parked : state.run_is_open() ? move.active : move.idle;
    };
    std::uint64_t sum = 0;
    for (const Move& move : kMoves)
        sum += weight(move);
    std::uint64_t drawn = rng.below(sum);
    for (const Move& move : kMoves) {
        if (drawn < weight(move)) return move;
        drawn -= weight(move);
    }
    return kMoves.front();
}

}  // namespace

SessionDriver::SessionDriver(std::uint64_t seed, SessionId id)
    : id_bytes_(seed),
      ids_(clock_, id_bytes_),
      id_(id.empty() ? ids_.make<SessionId>() : std::move(id)),
      boot_(ids_.make<BootId>()) {}

std::vector<PendingCall> SessionDriver::open_calls() const {
    std::vector<PendingCall> open;
    std::ranges::copy_if(state_.pending, std::back_inserter(open),
                         [](const PendingCall& call) { return is_open(call.status); });
    return open;
}

SessionStatus SessionDriver::status() {
    return project(state_, boot_, clock_.now()).status;
}

void SessionDriver::begin(const std::vector<CallSpec>& specs) {
    commit(create());
    commit(message());
    if (!specs.empty()) commit(say_and_park(specs));
}

void SessionDriver::apply(const Records& records, Seq first, Timestamp at) {
    ROUSE_CHECK(first == state_.last_seq + 1, "records are applied right behind the log");
    for (const RecordBody& body : records) {
        const Record& record = log_.emplace_back(Record{state_.last_seq + 1, at, body});
        fold(state_, record);
        transcript_.fold(record);
    }
}

bool SessionDriver::commit(const Result<Records>& planned) {
    if (planned) apply(*planned, state_.last_seq + 1, clock_.now());
    return planned.has_value();
}

// ---- the session ----------------------------------------------------------------------------

Result<Records> SessionDriver::create() {
    SessionCreated created;
    created.id = id_;
    created.title = "Deploy the preview";
    created.agent = "helper";
    created.working_dir = "/srv/app";
    created.provider.type = "scripted";
    created.provider.model = "demo";
    return Records{created};
}

Result<Records> SessionDriver::update(std::string title) {
    SessionUpdated update;
    update.title = std::move(title);
    return plan_update(state_, update);
}

Result<Records> SessionDriver::compact(std::size_t keep_last) {
    return plan_compact(state_, transcript_, keep_last, "What was said before");
}

Result<Records> SessionDriver::remove() {
    Result<DeletePlan> plan = plan_delete(state_);
    if (!plan) return plan.error();
    return std::move(plan->session);
}

// ---- runs -----------------------------------------------------------------------------------

Result<Records> SessionDriver::message(OnWaiting on_waiting, OnRunning on_running) {
    MessageCommand command;
    command.message.message_id = ids_.make<MessageId>();
    command.message.content = text_content("Deploy \"main\", please: 1 < 2 \n\xE2\x82\xAC");
    command.new_run = ids_.make<RunId>();
    command.boot = boot_;
    command.on_waiting = on_waiting;
    command.on_running = on_running;
    command.now = clock_.now();
    return records_of(plan_message(state_, command));
}

Result<Records> SessionDriver::go_on() {
    return plan_continue(state_, ids_.make<RunId>(), boot_);
}

Result<Records> SessionDriver::complete() {
    return plan_complete(state_, state_.run ? state_.run->run_id : ids_.make<RunId>());
}

Result<Records> SessionDriver::fail() {
    return plan_fail(state_, state_.run ? state_.run->run_id : ids_.make<RunId>(), "model_error",
                     "the model is out");
}

Result<Records> SessionDriver::retry() {
    if (!state_.run_is_open() || state_.is_parked()) return not_now("nothing to retry");
    return Records{RunRetrying{state_.run->run_id, 2, "overloaded", clock_.now() + 5s, {}}};
}

Result<Records> SessionDriver::cancel(CancelMode mode) {
    return plan_cancel(state_, mode, boot_);
}

// ---- steps of the turn ----------------------------------------------------------------------

Result<Records> SessionDriver::say(std::size_t calls, std::string_view input) {
    if (!state_.run_is_open() || state_.is_parked()) return not_now("nobody speaks");
    if (std::ranges::any_of(state_.calls, has_no_result)) return not_now("calls come first");
    MessageAssistant said;
    said.message_id = ids_.make<MessageId>();
    said.run_id = state_.run->run_id;
    said.content = text_content("Let me see.");
    said.content.emplace_back(UnknownBlock{RawJson::trusted(R"({"type":"thinking","t":1.0})")});
    for (std::size_t i = 1; i <= calls; ++i) {
        // The ids come again in each turn, as they may.
        said.content.emplace_back(ToolUseBlock{CallId{"call_" + std::to_string(i)},
                                               "deploy",
                                               RawJson::trusted(std::string(input)),
                                               {}});
    }
    said.model = "demo";
    said.usage.input_tokens = 7;
    said.usage.output_tokens = 3;
    return Records{said};
}

Result<Records> SessionDriver::start_tool(const CallId& call) {
    const auto found = std::ranges::find(state_.calls, call, &TurnCall::call_id);
    const bool ready = found != state_.calls.end() && (found->phase == CallPhase::requested ||
                                                       found->phase == CallPhase::approved);
    if (!state_.run_is_open() || state_.is_parked() || !ready) return not_now("no such call");
    return Records{ToolStarted{state_.run->run_id, call, found->tool, {}}};
}

Result<Records> SessionDriver::end_tool(const CallId& call, const Settlement& how) {
    const auto found = std::ranges::find(state_.calls, call, &TurnCall::call_id);
    const bool started = found != state_.calls.end() && found->phase == CallPhase::started;
    if (!state_.run_is_open() || state_.is_parked() || !started) return not_now("no such call");
    if (const auto* result = std::get_if<ToolResult>(&how)) {
        return Records{ToolCompleted{call, *result, {}}};
    }
    const auto* failure = std::get_if<CallFailure>(&how);
    return Records{ToolFailed{call, failure != nullptr ? failure->error : "stopped", "error", {}}};
}

Result<Records> SessionDriver::start_async(const CallSpec& spec) {
    const auto call = std::ranges::find_if(state_.calls, [](const TurnCall& one) {
        return one.phase == CallPhase::requested || one.phase == CallPhase::approved;
    });
    if (!state_.run_is_open() || state_.is_parked() || call == state_.calls.end()) {
        return not_now("no call to start");
    }
    const PendingCreated created = pending_of(*call, spec);
    return Records{created,
                   PendingWaiting{created.pending_id, "started", "job-7", 60'000, {}, {}, {}, {}}};
}

// ---- waits ----------------------------------------------------------------------------------

NewToken SessionDriver::new_token() {
    const PresentedToken& token =
        tokens_.emplace_back(PresentedToken{ids_.make<TokenId>(), ids_.secret()});
    return {token.token_id, hash_of_secret(token.secret)};
}

PendingCreated SessionDriver::pending_of(const TurnCall& call, const CallSpec& spec) {
    PendingCreated created;
    created.pending_id = make_pending_id(id_, ids_.random_text(20));
    created.run_id = state_.run->run_id;
    created.call_id = call.call_id;
    created.tool = call.tool;
    created.waits_for = spec.approval ? WaitsFor::person : spec.waits_for;
    if (spec.approval) created.reason = "approval_required";
    created.input_digest = sha256_hex("{}");
    if (spec.timeout) created.expires_at = clock_.now() + *spec.timeout;
    if (spec.local) created.local_boot = boot_;
    created.ask_if_unknown = spec.ask;
    created.repeat_if_unknown = spec.again;
    return created;
}

Result<Records> SessionDriver::park_on(const SessionState& state,
                                       const std::vector<CallSpec>& specs) {
    ParkCommand command;
    command.run_id = state.run ? state.run->run_id : ids_.make<RunId>();
    command.wait_id = ids_.make<WaitId>();
    auto spec = specs.begin();
    for (const TurnCall& call : state.calls) {
        if (spec == specs.end()) break;
        if (!state.run_is_open() || call.phase != CallPhase::requested) continue;
        command.calls.push_back(pending_of(call, *spec++));
    }
    command.token = new_token();
    return plan_park(state, command);
}

Result<Records> SessionDriver::park(const std::vector<CallSpec>& specs) {
    return park_on(state_, specs);
}

Result<Records> SessionDriver::say_and_park(const std::vector<CallSpec>& specs) {
    Result<Records> said = say(specs.size());
    if (!said) return said;
    SessionState ahead = state_;
    fold(ahead, Record{ahead.last_seq + 1, clock_.now(), said->front()});
    Result<Records> parked = park_on(ahead, specs);
    if (!parked) return parked;
    std::ranges::move(*parked, std::back_inserter(*said));
    return said;
}

Result<Records> SessionDriver::park_for_input(std::optional<Milliseconds> timeout) {
    ParkCommand command;
    command.run_id = state_.run ? state_.run->run_id : ids_.make<RunId>();
    command.wait_id = ids_.make<WaitId>();
    command.token = new_token();
    command.for_user_input = true;
    if (timeout) command.deadline_at = clock_.now() + *timeout;
    return plan_park(state_, command);
}

Result<Records> SessionDriver::settle(const PendingId& call, const Settlement& how) {
    return records_of(plan_settle(state_, call, how, boot_, clock_.now()));
}

Result<Records> SessionDriver::decide(const PendingId& call, const Decision& decision) {
    return records_of(plan_decide(state_, call, decision, boot_, clock_.now()));
}

Result<Records> SessionDriver::resume(const PresentedToken& token,
                                      const std::vector<std::pair<CallId, ToolResult>>& results) {
    return records_of(plan_resume(state_, ResumeCommand{token, results, boot_}, clock_.now()));
}

Result<Records> SessionDriver::rotate_token() {
    return plan_rotate_token(state_, new_token());
}

Result<Records> SessionDriver::extend(Milliseconds by) {
    return plan_extend(state_, clock_.now() + by, clock_.now());
}

Result<Records> SessionDriver::claim(const PendingId& call, std::string_view worker,
                                     Milliseconds lease) {
    return plan_claim(state_, call, worker, clock_.now() + lease, clock_.now());
}

Result<Records> SessionDriver::release(const PendingId& call, std::string_view worker) {
    return plan_release(state_, call, worker);
}

Result<Records> SessionDriver::progress(const PendingId& call, std::int32_t percent) {
    const PendingCall* found = state_.find_pending(call);
    if (found == nullptr || !is_open(found->status)) return not_now("no such call is open");
    return Records{PendingProgress{call, Progress{percent, "compiling"}, {}}};
}

Result<Records> SessionDriver::due() {
    return plan_due(state_, boot_, clock_.now());
}

// ---- the process ----------------------------------------------------------------------------

Result<Records> SessionDriver::restart() {
    boot_ = ids_.make<BootId>();
    const BootFacts facts{boot_, clock_.now(), ids_.make<WaitId>(), new_token()};
    return plan_recovery(state_, facts).records;
}

Result<Records> SessionDriver::shut_down() {
    return plan_shutdown(state_);
}

// ---- at random ------------------------------------------------------------------------------

std::optional<Records> SessionDriver::plan_step(SeededRandom& rng) {
    move_clock(rng, clock_);
    Result<Records> planned =
        state_.last_seq == 0 ? create() : any_move(rng, state_).plan(*this, rng);
    if (!planned) return std::nullopt;
    return *std::move(planned);
}

bool SessionDriver::random_step(SeededRandom& rng) {
    const std::optional<Records> planned = plan_step(rng);
    if (planned) apply(*planned, state_.last_seq + 1, clock_.now());
    return planned.has_value();
}

}  // namespace rouse::testing
