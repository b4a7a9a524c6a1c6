// What holds for every session, whatever is done to it: random commands, plausible or not, on a
// clock that jumps. A failing history shrinks by leaving out steps.

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>
#include <span>

#include "domain/audit.h"
#include "domain/chain.h"
#include "domain/fold.h"
#include "domain/history.h"
#include "domain/recovery_plan.h"
#include "domain/status.h"
#include "domain/summary.h"
#include "testing/session_driver.h"

namespace rouse {
namespace {

using testing::SeededRandom;
using testing::SessionDriver;
using namespace std::chrono_literals;

// Each step has a seed of its own, so that the others stay what they are when one is left out.
using Steps = std::vector<std::uint64_t>;

rc::Gen<Steps> any_history() {
    const auto seed = rc::gen::noShrink(rc::gen::resize(100, rc::gen::arbitrary<std::uint64_t>()));
    return rc::gen::scale(1.5, rc::gen::container<Steps>(seed));
}

// Takes the steps one by one; `after_each` sees the driver and the records of the step.
template <class Check>
void walk(const Steps& steps, const Check& after_each) {
    SessionDriver driver(1);
    for (const std::uint64_t seed : steps) {
        SeededRandom rng(seed);
        const std::size_t before = driver.log().size();
        driver.random_step(rng);
        const std::vector<Record>& log = driver.log();
        after_each(driver, std::span(log).subspan(before));
    }
}

template <class Body>
const Body* as(const Record& record) {
    return std::get_if<Body>(&record.body);
}

// W14, P9. The bytes of the log, and a snapshot plus the rest of the bytes, say what the live state
// says; the seqs have no gap (S3-17).
RC_GTEST_PROP(SessionProperties, ReplayEqualsTheLiveStateAtEveryPrefix, ()) {
    const Steps steps = *any_history();
    SessionState replayed;
    Transcript transcript;
    std::optional<Chain> chain;
    walk(steps, [&](SessionDriver& driver, std::span<const Record> commit) {
        if (!chain) chain = Chain::start_of(driver.id());
        for (const Record& record : commit) {
            std::string line;
            Chain writer = *chain;
            append_line(line, record.seq, record.at, record.body, writer);
            line.pop_back();
            Record read;
            RC_ASSERT(read_next_line(line, replayed.last_seq, *chain, read).has_value());
            RC_ASSERT(read == record);
            fold(replayed, read);
            transcript.fold(read);

            const std::string snapshot = to_json(replayed);
            Result<SessionState> restored = from_json<SessionState>(snapshot, "snapshot");
            RC_ASSERT(restored.has_value());
            RC_ASSERT(*restored == replayed);
            RC_ASSERT(to_json(*restored) == snapshot);
            replayed = *std::move(restored);
        }
        RC_ASSERT(replayed == driver.state());
        RC_ASSERT(transcript == driver.transcript());
    });
}

// The index row is a fold of the same log, and survives its own JSON.
RC_GTEST_PROP(SessionProperties, SummaryRoundTripsAndShowsTheSameStatus, ()) {
    const Steps steps = *any_history();
    walk(steps, [](SessionDriver& driver, std::span<const Record>) {
        if (driver.log().empty()) return;
        const SessionSummary row = summarize(driver.state());
        const Result<SessionSummary> back = from_json<SessionSummary>(to_json(row), "row");
        RC_ASSERT(back.has_value());
        RC_ASSERT(*back == row);
        const Timestamp now = clamped(driver.state(), driver.now());
        RC_ASSERT(project_status(back->run, driver.boot(), now) ==
                  project(driver.state(), driver.boot(), driver.now()).status);
    });
}

// S3-45, S3-46, W11, T6, T30.
RC_GTEST_PROP(SessionProperties, EndedTokensNeverValidateAgain, ()) {
    const Steps steps = *any_history();
    std::set<TokenId> ended;
    walk(steps, [&](SessionDriver& driver, std::span<const Record> commit) {
        for (const Record& record : commit) {
            if (const auto* r = as<TokenConsumed>(record)) ended.insert(r->token_id);
            if (const auto* r = as<TokenRevoked>(record)) ended.insert(r->token_id);
            if (const auto* r = as<TokenExpired>(record)) ended.insert(r->token_id);
        }
        // A token whose time had come when something was recorded is over too.
        for (const Token& token : driver.state().tokens) {
            const auto past = [&](const Record& r) { return r.at >= *token.expires_at; };
            if (token.expires_at && std::ranges::any_of(commit, past)) ended.insert(token.token_id);
        }
        for (const PresentedToken& token : driver.tokens()) {
            if (!ended.contains(token.token_id)) continue;
            for (const Milliseconds jump : {Milliseconds(0), Milliseconds(-48h)}) {
                RC_ASSERT(!validate_token(driver.state(), token, driver.now() + jump));
            }
            RC_ASSERT(!validate_token(driver.state(), token, Timestamp{}));
        }
    });
}

// P3: every resume has its consumption right before it, in the same commit; no wait has two.
RC_GTEST_PROP(SessionProperties, EachWaitIsConsumedOnceByTheCommitThatResumes, ()) {
    const Steps steps = *any_history();
    std::set<WaitId> consumed;
    std::map<TokenId, int> endings;
    walk(steps, [&](SessionDriver&, std::span<const Record> commit) {
        const TokenConsumed* before = nullptr;
        for (const Record& record : commit) {
            if (const auto* resumed = as<RunResumed>(record)) {
                RC_ASSERT(before != nullptr);
                RC_ASSERT(before->wait_id == resumed->wait_id);
                RC_ASSERT(before->reason == resumed->reason);
            } else {
                RC_ASSERT(before == nullptr);  // nothing is consumed without a resume
            }
            before = as<TokenConsumed>(record);
            if (before != nullptr) {
                RC_ASSERT(consumed.insert(before->wait_id).second);
                ++endings[before->token_id];
            }
            if (const auto* r = as<TokenRevoked>(record)) ++endings[r->token_id];
            if (const auto* r = as<TokenExpired>(record)) ++endings[r->token_id];
        }
        RC_ASSERT(before == nullptr);
        for (const auto& [token, times] : endings)
            RC_ASSERT(times == 1);
    });
}

// What `verify` would say of such a log: nothing.
RC_GTEST_PROP(SessionProperties, TheAuditorFindsNothingWrong, ()) {
    const Steps steps = *any_history();
    std::optional<LogAudit> audit;
    walk(steps, [&](SessionDriver& driver, std::span<const Record> commit) {
        if (!audit) audit.emplace(driver.id());
        for (const Record& record : commit) {
            const std::optional<std::string> problem = audit->check(record);
            if (problem) RC_LOG(*problem);
            RC_ASSERT(!problem);
        }
        RC_ASSERT(audit->state() == driver.state());
    });
}

// S3-47 S3-48 S3-49 S3-50: a token is active only while its run is parked.
RC_GTEST_PROP(SessionProperties, NoTokenOutlivesItsWait, ()) {
    const Steps steps = *any_history();
    walk(steps, [](SessionDriver& driver, std::span<const Record>) {
        const SessionState& state = driver.state();
        const auto active = std::ranges::count(state.tokens, TokenStatus::active, &Token::status);
        RC_ASSERT(active == (state.is_parked() ? 1 : 0));
    });
}

bool every_call_has_a_result(const Transcript& transcript) {
    for (const TranscriptEntry& entry : transcript.entries()) {
        for (const ToolPart& part : entry.parts) {
            if (!part.result) return false;
        }
    }
    return true;
}

// The run is over and nothing of it goes on: unlike a run that died, which may be continued.
bool finishes_a_turn(const Record& record) {
    if (const auto* r = as<RunInterrupted>(record)) {
        return r->reason == InterruptReason::wait_timeout;
    }
    return as<RunCompleted>(record) != nullptr || as<RunFailed>(record) != nullptr ||
           as<RunCancelled>(record) != nullptr;
}

RC_GTEST_PROP(SessionProperties, NoFinishedTurnHasACallWithoutResult, ()) {
    const Steps steps = *any_history();
    walk(steps, [](SessionDriver& driver, std::span<const Record> commit) {
        if (!std::ranges::any_of(commit, finishes_a_turn)) return;
        RC_ASSERT(every_call_has_a_result(driver.transcript()));
        RC_ASSERT(driver.open_calls().empty());
    });
}

// Every assistant message with calls is followed by exactly their results, in their order.
RC_GTEST_PROP(SessionProperties, ContextNeverHasAnUnmatchedToolUse, ()) {
    const Steps steps = *any_history();
    walk(steps, [](SessionDriver& driver, std::span<const Record>) {
        std::vector<CallId> open;
        for (const Message& message : build_context(driver.transcript(), error_result("open"))) {
            std::vector<CallId> answered;
            std::vector<CallId> asked;
            for (const Block& block : message.content) {
                if (const auto* use = block.get_if<ToolUseBlock>()) asked.push_back(use->id);
                if (const auto* result = block.get_if<ToolResultBlock>()) {
                    answered.push_back(result->tool_use_id);
                    RC_ASSERT(!result->content.absent());
                }
            }
            RC_ASSERT(answered == open);
            RC_ASSERT(asked.empty() || message.role == Role::assistant);
            open = std::move(asked);
        }
        RC_ASSERT(open.empty());
    });
}

Records recover(SessionState& state, const BootFacts& facts) {
    const RecoveryPlan plan = plan_recovery(state, facts);
    for (const RecordBody& body : plan.records) {
        fold(state, Record{state.last_seq + 1, facts.now, body});
    }
    return plan.records;
}

// S3-38, P9: recovering twice changes nothing, and afterwards no run is left of an earlier boot.
RC_GTEST_PROP(SessionProperties, RecoveryIsDoneAfterOnce, ()) {
    const Steps steps = *any_history();
    walk(steps, [](SessionDriver& driver, std::span<const Record>) {
        if (driver.log().empty()) return;
        BootFacts facts{BootId("boot_next"), driver.now(), WaitId("wait_spare"),
                        NewToken{TokenId("rt_spare"), "hash"}};
        SessionState state = driver.state();
        recover(state, facts);
        const SessionState once = state;
        RC_ASSERT(recover(state, facts).empty());
        RC_ASSERT(state == once);
        const SessionStatus status = project(state, facts.boot, facts.now).status;
        if (state.run_is_open()) {
            RC_ASSERT(status == SessionStatus::running || status == SessionStatus::waiting);
        }

        // What is parked stays parked over any number of boots, without a record (S0-82).
        if (!state.is_parked()) return;
        facts.boot = BootId("boot_after");
        RC_ASSERT(recover(state, facts).empty());
    });
}

// The sweeper sleeps until next_due; plan_due must find something then and nothing before.
RC_GTEST_PROP(SessionProperties, SomethingIsDueExactlyWhenTheIndexSaysSo, ()) {
    const Steps steps = *any_history();
    walk(steps, [](SessionDriver& driver, std::span<const Record>) {
        const SessionState& state = driver.state();
        const std::optional<Timestamp> due = next_due(summarize(state));
        for (const Milliseconds ahead : {Milliseconds(0), Milliseconds(1h), Milliseconds(100h)}) {
            const Timestamp now = clamped(state, driver.now() + ahead);
            RC_ASSERT(plan_due(state, driver.boot(), now).empty() == (!due || now < *due));
        }
    });
}

// S3-29, S3-62: what shows as waiting can be answered, what shows as interrupted cannot.
RC_GTEST_PROP(SessionProperties, TheDoorsAreOpenExactlyWhileTheStatusIsWaiting, ()) {
    const Steps steps = *any_history();
    walk(steps, [](SessionDriver& driver, std::span<const Record>) {
        const SessionState& state = driver.state();
        if (!state.is_parked()) return;
        for (const Milliseconds ahead : {Milliseconds(0), Milliseconds(3h), Milliseconds(100h)}) {
            const Timestamp now = driver.now() + ahead;
            const bool waiting =
                project(state, driver.boot(), now).status == SessionStatus::waiting;
            for (const PendingCall& call : driver.open_calls()) {
                RC_ASSERT(plan_settle(state, call.pending_id, CallFailure{"no"}, driver.boot(), now)
                              .has_value() == waiting);
            }
            for (const PresentedToken& token : driver.tokens()) {
                if (token.token_id != state.run->wait->resume_token_id) continue;
                RC_ASSERT(validate_token(state, token, now).has_value() == waiting);
            }
        }
    });
}

// S3-63: whatever was answered once can be answered the same way again, for as long as the log
// exists, and changes nothing.
RC_GTEST_PROP(SessionProperties, TheSameAnswerAgainIsADuplicateForEver, ()) {
    const Steps steps = *any_history();
    std::vector<std::pair<PendingId, Settlement>> given;
    SessionDriver* last = nullptr;
    SessionDriver driver(1);
    for (const std::uint64_t seed : steps) {
        SeededRandom rng(seed);
        driver.random_step(rng);
        last = &driver;
    }
    if (last == nullptr || driver.state().deleted) return;
    for (const Record& record : driver.log()) {
        if (const auto* r = as<PendingCompleted>(record)) {
            given.emplace_back(r->pending_id, r->result);
        } else if (const auto* f = as<PendingFailed>(record)) {
            given.emplace_back(f->pending_id, CallFailure{f->error});
        } else if (const auto* c = as<PendingCancelled>(record)) {
            given.emplace_back(c->pending_id, CallCancelled{});
        }
    }
    for (const auto& [id, answer] : given) {
        Result<SettlePlan> again =
            plan_settle(driver.state(), id, answer, driver.boot(), driver.now());
        if (!again) {
            RC_ASSERT(again.error().reason == "unknown_pending_id");
            const std::optional<PendingCall> call = find_settled_call(driver.log(), id);
            RC_ASSERT(call.has_value());
            again = answer_settled(call->status, call->digest, answer);
        }
        RC_ASSERT(again.has_value());
        RC_ASSERT(again->duplicate);
        RC_ASSERT(again->records.empty());
    }
}

// The walk is worth something only if it gets everywhere.
TEST(SessionProperties, RandomWalksReachEveryKindOfRecordThatTheRulesWrite) {
    std::set<std::string_view> kinds;
    SeededRandom seeds(7);
    for (std::uint64_t walk_seed = 0; walk_seed < 60; ++walk_seed) {
        SessionDriver driver(walk_seed);
        for (int step = 0; step < 100; ++step) {
            SeededRandom rng(seeds.next());
            driver.random_step(rng);
        }
        for (const Record& record : driver.log())
            kinds.insert(kind_of(record.body));
    }
    for (const std::string_view kind :
         {"session.created",    "session.updated",   "session.compacted", "session.deleted",
          "message.user",       "message.assistant", "run.started",       "run.waiting",
          "run.resumed",        "run.redriven",      "run.retrying",      "run.completed",
          "run.failed",         "run.cancelled",     "run.interrupted",   "tool.started",
          "tool.completed",     "tool.failed",       "pending.created",   "pending.waiting",
          "pending.processing", "pending.progress",  "pending.completed", "pending.failed",
          "pending.expired",    "pending.cancelled", "pending.approved",  "token.minted",
          "token.consumed",     "token.revoked",     "token.expired",     "status.derived"}) {
        EXPECT_TRUE(kinds.contains(kind)) << kind;
    }
}

}  // namespace
}  // namespace rouse
