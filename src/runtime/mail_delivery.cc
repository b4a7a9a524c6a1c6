// What a letter does at those it is for, and what the end of a run does about letters: the part of
// SessionCompanions that is about mail.

#include <algorithm>

#include "base/limits.h"
#include "domain/fold.h"
#include "domain/run_rules.h"
#include "runtime/companions_work.h"
#include "runtime/session_companions.h"

namespace rouse {
namespace {

const SessionState& nobody() {
    static const SessionState none;
    return none;
}

}  // namespace

std::string SessionCompanions::chain_limit(Work& work, const std::string& chain,
                                           std::uint32_t hops) const {
    const std::uint32_t planned = work.wakes[chain];
    return system_.ask(
        [&](const SystemState& state) { return state.chain_limit(chain, hops, planned); });
}

void SessionCompanions::note_wake(Work& work, const std::string& chain) {
    ++work.wakes[chain];
    SystemLog::add(work.commit, to_record(ChainWoke{chain}));
}

MailStop SessionCompanions::deliver(Work& work, const Letter& letter, const MailAddress& to) {
    MailStop stop{to, MailAction::stored, {}};
    const Result<const SessionState*> recipient = work.draft.state_of(to.session_id);
    if (!recipient) {
        stop.error = recipient.error();
        return stop;
    }
    DeliveryCommand command;
    command.new_run = ids_.make<RunId>();
    command.boot = boot_;
    command.now = env_.clock.now();
    command.wake_interrupted = wake_interrupted_;
    const bool by_agent = letter.from.has_value();
    if (by_agent && !letter.quiet) {
        command.stopped = chain_limit(work, letter.chain_id, letter.hops);
    }
    Result<DeliveryPlan> plan = plan_delivery(**recipient, letter, command);
    if (!plan) {
        stop.error = plan.error();
        return stop;
    }
    work.draft.add(to.session_id, std::move(plan->records));
    stop.action = plan->action;
    if (!command.stopped.empty()) {
        stop.reason = "chain_" + command.stopped;
        SystemLog::add(work.commit,
                       to_record(ChainStopped{letter.chain_id, to.session_id, command.stopped}));
    }
    if (plan->wakes && by_agent) note_wake(work, letter.chain_id);
    if (plan->wakes) work.woken.push_back({to.session_id, letter.text.size()});
    if (!plan->drives) return stop;
    work.to_drive.push_back(to.session_id);
    if (!plan->wakes) {
        queue_webhook(work, **work.draft.state_of(to.session_id), "session.resumed", {});
    }
    return stop;
}

// A question that cannot be asked any more ends as an error before anybody waits for it.
void SessionCompanions::take_back(Work& work, const PendingId& id, const std::string& why) {
    SessionState asker = work.after;
    for (const RecordBody& record : work.more)
        fold(asker, RecordView(asker.last_seq + 1, clamped(asker, env_.clock.now()), record));
    Result<SettlePlan> settled = plan_settle(asker, id, CallFailure{why}, boot_, env_.clock.now());
    if (!settled) return;
    std::ranges::move(settled->records, std::back_inserter(work.more));
    if (settled->resumed) work.to_drive.push_back(work.after.id);
}

void SessionCompanions::send_letters(Work& work) {
    for (const RecordBody* one : work.records) {
        std::optional<Letter> letter;
        PendingId question;
        if (const auto* pending = std::get_if<PendingCreated>(one)) {
            const bool asks =
                pending->waits_for == WaitsFor::message && pending->tool == kBroadcastTool;
            if (asks) letter = read_letter(pending->metadata);
            question = pending->pending_id;
        } else if (const auto* done = std::get_if<ToolCompleted>(one)) {
            if (work.is_result_of(*done, kBroadcastTool)) {
                letter = read_letter(done->result.metadata);
            }
        }
        if (!letter) continue;
        Records sent = sent_records(*letter);
        std::ranges::move(sent, std::back_inserter(work.more));
        if (letter->to.size() > limits::kLettersAtOnce) {
            SystemLog::add(work.commit, to_record(MailQueued{*letter}));
            work.mail_queued.push_back(*std::move(letter));
            continue;
        }
        for (const MailAddress& to : letter->to) {
            // Before the look at who waits for whom: what the other one does after this makes the
            // commit outdated.
            (void)work.draft.state_of(to.session_id);
            if (letter->asks && waits_.leads(to.session_id, work.after.id)) {
                take_back(work, question, to.name + " waits for an answer from here; answer first");
                continue;
            }
            const MailStop stop = deliver(work, *letter, to);
            if (!stop.error) {
                if (letter->asks) begin_wait(work, to.session_id);
                continue;
            }
            if (letter->asks) {
                take_back(work, question, stop.error->message);
            } else {
                work.more.emplace_back(returned(*letter, stop));
            }
        }
    }
}

InboxReceived SessionCompanions::returned(const Letter& letter, const MailStop& stop) {
    return returned_letter(letter, ids_.make<MessageId>(), stop.to, stop.error->message);
}

// Whoever waits for an answer of a session whose run is over gets its last words instead.
void SessionCompanions::close_questions(Work& work, const std::string& last_words) {
    const bool deleted = work.after.deleted;
    const bool failed = work.after.run && work.after.run->outcome == RunOutcome::failed;
    const bool interrupted = work.after.run && work.after.run->outcome == RunOutcome::interrupted;
    const bool reads_on = !deleted && !interrupted;
    for (const MailRow& row : work.after.mail) {
        const bool had_its_run = row.presented || (broke_off(work.after) && row.offered);
        if (!row.asks || (!had_its_run && reads_on)) continue;
        work.more.emplace_back(InboxDropped{row.message_id, "unanswered", {}});
        if (row.from.empty()) continue;
        const Result<const SessionState*> asker = work.draft.state_of(row.from);
        if (!asker) continue;
        const PendingCall* call = find_call_for_reply(**asker, row.message_id);
        if (call == nullptr) continue;
        const std::string name = work.after.alias.empty() ? work.after.id.text() : work.after.alias;
        std::string error = name + (deleted       ? " is gone"
                                    : interrupted ? " was interrupted and does not go on"
                                                  : " ended without an answer");
        if (failed) error += ": " + work.after.run->error;
        if (!last_words.empty()) error += "; its last words: " + last_words;
        Result<SettlePlan> plan =
            plan_settle(**asker, call->pending_id, CallFailure{error}, boot_, env_.clock.now());
        if (!plan || plan->records.empty()) continue;
        const bool resumed = plan->resumed;
        work.draft.add(row.from, std::move(plan->records));
        if (!resumed) continue;
        queue_webhook(work, **work.draft.state_of(row.from), "session.resumed", {});
        work.to_drive.push_back(row.from);
    }
}

// Mail that came too late for the last context of the run that ends here.
void SessionCompanions::wake_for_mail(Work& work) {
    const SessionState& after = work.after;
    const bool ended =
        after.run && after.run->outcome && *after.run->outcome != RunOutcome::interrupted;
    if (!ended || after.deleted || (after.mail.empty() && work.more.empty())) return;
    SessionState then = after;
    for (const RecordBody& record : work.more)
        fold(then, RecordView(then.last_seq + 1, clamped(then, env_.clock.now()), record));
    const MailRow* row = find_waking_mail(then);
    if (row == nullptr) {
        // A person may have let its chain go on while the run was under way.
        const std::vector<const MailRow*> withheld = find_withheld_mail(then);
        const auto free = std::ranges::find_if(withheld, [&](const MailRow* mail) {
            return chain_limit(work, mail->chain_id, mail->hops).empty();
        });
        if (free == withheld.end()) return;
        row = *free;
    }
    if (!row->from.empty()) {
        const std::string stopped = chain_limit(work, row->chain_id, row->hops);
        if (!stopped.empty()) {
            SystemLog::add(work.commit, to_record(ChainStopped{row->chain_id, then.id, stopped}));
            return;
        }
        note_wake(work, row->chain_id);
    }
    work.more.emplace_back(RunStarted{ids_.make<RunId>(), boot_, {}, row->chain_id, row->hops, {}});
    work.to_drive.push_back(then.id);
    work.woken.push_back({then.id, 0});
}

Companions::Then SessionCompanions::send(const Letter& letter, Commit& commit,
                                         std::vector<MailStop>& stops) {
    Work work(nobody(), commit, store_, env_.clock);
    stops.clear();
    for (const MailAddress& to : letter.to)
        stops.push_back(deliver(work, letter, to));
    return finish(work);
}

Companions::Then SessionCompanions::carry(const Letter& letter, Commit& commit) {
    Work work(nobody(), commit, store_, env_.clock);
    for (const MailAddress& to : letter.to) {
        const MailStop stop = deliver(work, letter, to);
        if (!stop.error) continue;
        env_.log.warn("mail.not_delivered",
                      {{"sessionId", to.session_id.text()}, {"error", stop.error->message}});
        if (!letter.from) continue;
        const Result<const SessionState*> sender = work.draft.state_of(letter.from->session_id);
        if (!sender || (*sender)->mail.size() >= limits::kInboxLetters) continue;
        work.draft.add(letter.from->session_id, Records(1, returned(letter, stop)));
    }
    return finish(work);
}

Companions::Then SessionCompanions::let_go_on(const ChainContinued& chain,
                                              const std::vector<SessionId>& sessions,
                                              Commit& commit) {
    Work work(nobody(), commit, store_, env_.clock);
    SystemLog::add(commit, to_record(chain));
    for (const SessionId& id : sessions) {
        const Result<const SessionState*> state = work.draft.state_of(id);
        if (!state || (*state)->deleted || (*state)->run_is_open()) continue;
        const auto row = std::ranges::find_if((*state)->mail, [&](const MailRow& mail) {
            return !mail.presented && mail.chain_id == chain.chain_id;
        });
        if (row == (*state)->mail.end()) continue;
        const RunStarted run{ids_.make<RunId>(), boot_, {}, chain.chain_id, row->hops, {}};
        work.draft.add(id, Records(1, run));
        note_wake(work, chain.chain_id);
        work.woken.push_back({id, 0});
        work.to_drive.push_back(id);
    }
    return finish(work);
}

}  // namespace rouse
