#pragma once

// One session, driven by commands. Each command is planned by the rules of the domain and folded
// into a live state, so that a test can walk any path through a session's life, by hand or at
// random. Planning and applying are apart: a test of a store commits the records in between.
//
//   SessionDriver driver(seed);
//   driver.begin({CallSpec{}});
//   driver.commit(driver.settle(driver.pending(0), text_result("done")));

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/id_source.h"
#include "base/limits.h"
#include "domain/run_rules.h"
#include "domain/session_rules.h"
#include "domain/transcript.h"
#include "domain/wait_rules.h"
#include "testing/manual_clock.h"
#include "testing/seeded_random.h"

namespace rouse::testing {

// Why a command was refused; empty when it was not.
template <class T>
std::string_view reason_of(const Result<T>& result) {
    return result ? std::string_view() : result.error().reason;
}

// A tool call that ends later.
struct CallSpec {
    WaitsFor waits_for = WaitsFor::external;
    std::optional<Milliseconds> timeout = limits::kCallTimeout;  // absent: never
    bool approval = false;                                       // a person decides before it runs
    bool local = false;                                          // runs inside this process
    bool ask = false;    // a person says how it went if that process dies
    bool again = false;  // it runs again if that process dies
};

class SessionDriver final {
 public:
    // Same seed, same ids. Without an id the session gets one of its own.
    explicit SessionDriver(std::uint64_t seed, SessionId id = {});

    const SessionId& id() const { return id_; }
    const SessionState& state() const { return state_; }
    const std::vector<Record>& log() const { return log_; }
    const Transcript& transcript() const { return transcript_; }
    const BootId& boot() const { return boot_; }
    ManualClock& clock() { return clock_; }
    Timestamp now() { return clock_.now(); }
    // Every token that a plan made, applied or not; the newest last.
    const std::vector<PresentedToken>& tokens() const { return tokens_; }
    // The open calls of the session, oldest first.
    std::vector<PendingCall> open_calls() const;
    // The n-th call that the state knows of, open or settled by the latest wait.
    PendingId pending(std::size_t n) const { return state_.pending.at(n).pending_id; }
    SessionStatus status();

    // Creates the session and starts its first run, which parks on these calls if there are any.
    void begin(const std::vector<CallSpec>& specs = {});

    // Folds what a command planned; `first` is the seq that the store gave to the first record.
    void apply(const Records& records, Seq first, Timestamp at);
    // The same, right behind the log and at the time of the clock. False: the command was refused.
    bool commit(const Result<Records>& planned);

    // A random command, plausible or not, on a clock that moves at random too. Nothing when it was
    // refused; no records when there was nothing to do.
    std::optional<Records> plan_step(SeededRandom& rng);
    bool random_step(SeededRandom& rng);

    // ---- commands: each returns what to commit, or the rules' refusal
    // ----------------------------

    Result<Records> create();
    Result<Records> update(std::string title);
    Result<Records> compact(std::size_t keep_last);
    Result<Records> remove();

    Result<Records> message(OnWaiting on_waiting = OnWaiting::supersede,
                            OnRunning on_running = OnRunning::queue);
    Result<Records> go_on();
    Result<Records> complete();
    Result<Records> fail();
    Result<Records> retry();
    Result<Records> cancel(CancelMode mode);

    // Steps of the turn, which no rule guards; they are refused when the agent would not take them.
    Result<Records> say(std::size_t calls, std::string_view input = "{}");
    Result<Records> start_tool(const CallId& call);
    Result<Records> end_tool(const CallId& call, const Settlement& how);
    // The async call is in the log before its run parks.
    Result<Records> start_async(const CallSpec& spec);

    // Parks on the turn's first calls that nobody took up, one for each spec.
    Result<Records> park(const std::vector<CallSpec>& specs);
    // One commit, as an agent makes it.
    Result<Records> say_and_park(const std::vector<CallSpec>& specs);
    Result<Records> park_for_input(std::optional<Milliseconds> timeout);

    Result<Records> settle(const PendingId& call, const Settlement& how);
    Result<Records> decide(const PendingId& call, const Decision& decision);
    Result<Records> resume(const PresentedToken& token,
                           const std::vector<std::pair<CallId, ToolResult>>& results);
    Result<Records> rotate_token();
    Result<Records> extend(Milliseconds by);
    Result<Records> claim(const PendingId& call, std::string_view worker, Milliseconds lease);
    Result<Records> release(const PendingId& call, std::string_view worker);
    Result<Records> progress(const PendingId& call, std::int32_t percent);
    Result<Records> due();

    // The process died and a new one recovers the session.
    Result<Records> restart();
    Result<Records> shut_down();

 private:
    NewToken new_token();
    PendingCreated pending_of(const TurnCall& call, const CallSpec& spec);
    Result<Records> park_on(const SessionState& state, const std::vector<CallSpec>& specs);

    ManualClock clock_;
    SeededRandom id_bytes_;
    IdSource ids_;
    SessionId id_;
    BootId boot_;
    SessionState state_;
    Transcript transcript_;
    std::vector<Record> log_;
    std::vector<PresentedToken> tokens_;
};

}  // namespace rouse::testing
