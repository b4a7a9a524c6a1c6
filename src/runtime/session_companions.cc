#include "runtime/session_companions.h"

#include <algorithm>

#include "domain/child.h"
#include "domain/fold.h"
#include "domain/run_rules.h"
#include "domain/summary.h"
#include "domain/wait_rules.h"
#include "runtime/companions_work.h"

namespace rouse {
namespace {

using Seen = std::vector<const RecordBody*>;

template <class Kind>
const Kind* find(const Seen& records) {
    for (const RecordBody* record : records) {
        if (const auto* found = std::get_if<Kind>(record)) return found;
    }
    return nullptr;
}

// How the run of these records ended, for somebody who waits for it.
struct Ending {
    bool ended = false;
    std::string error;  // empty: it went well
};

Ending ending_of(const Seen& records) {
    if (find<RunCompleted>(records) != nullptr) return {true, {}};
    if (const auto* failed = find<RunFailed>(records)) {
        return {true, "The session failed: " + failed->error};
    }
    if (find<SessionDeleted>(records) != nullptr) return {true, "The session was deleted"};
    if (const auto* cancelled = find<RunCancelled>(records)) {
        // A new message is no end: the session works on.
        if (cancelled->reason == "superseded") return {};
        return {true, "The session was cancelled"};
    }
    const bool for_good = std::ranges::any_of(
        records, [](const RecordBody* record) { return given_up_run(*record) != nullptr; });
    return {for_good, "The session was interrupted"};
}

std::string last_words(const Seen& records) {
    std::string words;
    for (const RecordBody* record : records) {
        const auto* said = std::get_if<MessageAssistant>(record);
        if (said == nullptr) continue;
        words.clear();
        for (const Block& block : said->content) {
            if (const auto* text = block.get_if<TextBlock>()) words += text->text;
        }
    }
    return words;
}

std::string last_words(Store& store, const SessionId& session) {
    const Result<std::vector<Record>> log = read_records(store, session);
    if (!log) return {};
    Seen bodies;
    for (const Record& record : *log)
        bodies.push_back(&record.body);
    return last_words(bodies);
}

// The call that does not wait any more from this record on.
const PendingId* ended_call(const RecordBody& record) {
    if (const auto* completed = std::get_if<PendingCompleted>(&record)) {
        return &completed->pending_id;
    }
    if (const auto* failed = std::get_if<PendingFailed>(&record)) return &failed->pending_id;
    if (const auto* expired = std::get_if<PendingExpired>(&record)) return &expired->pending_id;
    if (const auto* approved = std::get_if<PendingApproved>(&record)) return &approved->pending_id;
    const auto* cancelled = std::get_if<PendingCancelled>(&record);
    return cancelled == nullptr ? nullptr : &cancelled->pending_id;
}

bool changes_due(const Seen& records) {
    return std::ranges::any_of(records, [](const RecordBody* one) {
        const RecordBody& record = *one;
        return std::holds_alternative<RunWaiting>(record) ||
               std::holds_alternative<RunResumed>(record) ||
               std::holds_alternative<PendingCreated>(record) ||
               std::holds_alternative<PendingWaiting>(record) ||
               std::holds_alternative<PendingProcessing>(record) ||
               std::holds_alternative<PendingExpiring>(record) ||
               std::holds_alternative<PendingCompleted>(record) ||
               std::holds_alternative<PendingCancelled>(record) ||
               std::holds_alternative<RunCancelled>(record) ||
               std::holds_alternative<RunFailed>(record) ||
               std::holds_alternative<RunInterrupted>(record) ||
               std::holds_alternative<SessionDeleted>(record);
    });
}

}  // namespace

// ---- children -------------------------------------------------------------------------------

void SessionCompanions::start_children(Work& work) {
    for (const RecordBody* one : work.records) {
        const RecordBody& record = *one;
        std::optional<ChildWish> wish;
        CallId call;
        PendingId waiting;
        if (const auto* pending = std::get_if<PendingCreated>(&record)) {
            if (pending->waits_for == WaitsFor::child) wish = read_wish(pending->metadata);
            call = pending->call_id;
            waiting = pending->pending_id;
        } else if (const auto* done = std::get_if<ToolCompleted>(&record)) {
            if (work.is_result_of(*done, kStartSessionTool)) {
                wish = read_wish(done->result.metadata);
            }
            call = done->call_id;
        }
        if (!wish) continue;
        const Result<void> started = start_child(work, *wish, call, waiting);
        if (started && !waiting.empty()) begin_wait(work, wish->session_id);
        if (started) continue;
        // It was deleted since the tool looked.
        if (waiting.empty()) {
            env_.log.warn("child.not_continued", {{"sessionId", wish->session_id.text()},
                                                  {"error", started.error().message}});
        } else {
            take_back(work, waiting, started.error().message);
        }
    }
}

Result<void> SessionCompanions::start_child(Work& work, const ChildWish& wish, const CallId& call,
                                            const PendingId& waiting) {
    MessageCommand command;
    command.message = {ids_.make<MessageId>(), text_content(wish.message), false, {}};
    command.new_run = ids_.make<RunId>();
    command.boot = boot_;
    command.on_waiting = OnWaiting::queue;
    command.now = env_.clock.now();
    const Run& parent = *work.after.run;
    const std::string chain =
        parent.chain_id.empty() ? command.message.message_id.text() : parent.chain_id;
    if (wish.continues) {
        command.message.asked_by = AskedBy{parent.run_id, call, chain, parent.hops + 1};
        const Result<const SessionState*> child = work.draft.state_of(wish.session_id);
        if (!child) return child.error();
        if (!waiting.empty() && waits_.leads(wish.session_id, work.after.id)) {
            return Error(ErrorKind::conflict, "circular_wait",
                         wish.session_id.text() +
                             " waits for this session, itself or by others; answer it first, or "
                             "continue it without wait");
        }
        Result<MessagePlan> plan = plan_message(**child, command);
        if (!plan) return plan.error();
        work.draft.add(wish.session_id, std::move(plan->records));
        work.to_drive.push_back(wish.session_id);
        return {};
    }
    SessionCreated created;
    created.id = wish.session_id;
    created.agent = wish.agent;
    created.task_id = work.after.task_id;
    created.parent = ParentRef{work.after.id, parent.run_id, call, {}};
    RunStarted started{command.new_run, boot_, {}, chain, parent.hops + 1, {}};
    work.commit.appends.push_back(
        {wish.session_id, Seq{0},
         Records{std::move(created), std::move(command.message), std::move(started)}});
    work.to_drive.push_back(wish.session_id);
    return {};
}

void SessionCompanions::begin_wait(Work& work, const SessionId& awaited) {
    waits_.begin(work.after.id, work.last_before(), awaited);
    work.begins_wait = true;
}

void SessionCompanions::note_given_up(Work& work) {
    for (const RecordBody* record : work.records) {
        if (const RunId* run = given_up_run(*record)) work.given_up = *run;
    }
    if (work.given_up.empty() || !work.after.deleted) return;
    SessionFilter children;
    children.parent = work.after.id;
    children.limit = 1;
    if (store_.list(children).empty()) return;
    SystemLog::add(work.commit, to_record(ChildrenLeft{work.after.id, work.given_up}));
}

Result<void> SessionCompanions::settle_parent(Work& work) {
    const Ending ending = ending_of(work.records);
    if (ending.ended) {
        close_questions(work, last_words(work.records));
    }
    if (!ending.ended || !work.after.parent) return {};
    const SessionId& child = work.after.id;
    const Result<const SessionState*> parent = work.draft.state_of(work.after.parent->session_id);
    if (!parent) return {};  // deleted meanwhile: nobody waits
    const std::vector<PendingId> calls = find_answered_calls(**parent, work.after);
    if (calls.empty()) return {};
    Settlement settlement = CallFailure{child_error(child, ending.error)};
    if (ending.error.empty()) {
        std::string words = last_words(work.records);
        if (words.empty()) words = last_words(store_, child);
        settlement = child_result(child, words);
    }
    const SessionId id = (*parent)->id;
    for (const PendingId& call : calls) {
        Result<SettlePlan> plan = plan_settle(**parent, call, settlement, boot_, env_.clock.now());
        if (!plan || plan->records.empty()) continue;  // its time was up before
        const bool resumed = plan->resumed;
        work.draft.add(id, std::move(plan->records));
        if (!resumed) continue;
        queue_webhook(work, **parent, "session.resumed", {});
        work.to_drive.push_back(id);
    }
    return {};
}

void SessionCompanions::start_next_run(Work& work) {
    if (work.after.run_is_open()) return;
    std::optional<RecordBody> next = plan_next_run(work.after, ids_.make<RunId>(), boot_);
    if (!next) return wake_for_mail(work);
    work.more.push_back(*std::move(next));
    work.to_drive.push_back(work.after.id);
}

// ---- webhooks -------------------------------------------------------------------------------

void SessionCompanions::queue_webhook(Work& work, const SessionState& of, std::string_view type,
                                      const WebhookData& more) {
    for (const WebhookEndpoint& endpoint : webhooks_) {
        const bool wanted = endpoint.events.empty() ||
                            std::ranges::find(endpoint.events, type) != endpoint.events.end();
        if (wanted) queue_webhook(work, of, endpoint, type, more);
    }
}

void SessionCompanions::queue_webhook(Work& work, const SessionState& of,
                                      const WebhookEndpoint& endpoint, std::string_view type,
                                      const WebhookData& more) {
    WebhookQueued webhook;
    webhook.delivery_id = ids_.make<MessageId>().text();
    webhook.url = endpoint.url;
    webhook.secret_env = endpoint.secret_env;
    webhook.type = type;
    webhook.session_id = of.id;
    std::string data = "{\"session_id\":" + to_json_string(of.id.text());
    data += ",\"task_id\":" + to_json_string(of.task_id);
    data += ",\"seq\":" + std::to_string(of.last_seq);
    data += more.ids;
    // Who wants to know more can ask.
    if (data.size() + more.rest.size() < webhook_bytes_) data += more.rest;
    data += "}";
    webhook.queued_at = env_.clock.now();
    webhook.data = RawJson::trusted(std::move(data));
    SystemLog::add(work.commit, to_record(webhook));
    work.webhook = true;
}

// The system that a tool asked is told what became of its call.
void SessionCompanions::tell_tool(Work& work, const PendingId& id, std::string_view status) {
    const PendingCall* call = work.after.find_pending(id);
    if (call == nullptr || call->webhook_url.empty()) return;
    const WebhookEndpoint endpoint{call->webhook_url, call->webhook_secret_env, {}};
    WebhookData more;
    more.ids = ",\"pendingID\":" + to_json_string(id.text());
    more.ids += ",\"status\":" + to_json_string(status);
    more.rest = ",\"externalRef\":" + to_json_string(call->external_ref);
    queue_webhook(work, work.after, endpoint, "pending." + std::string(status), more);
}

void SessionCompanions::tell_tools(Work& work) {
    for (const RecordBody* record : work.records) {
        if (const auto* completed = std::get_if<PendingCompleted>(record)) {
            tell_tool(work, completed->pending_id, "completed");
        } else if (const auto* failed = std::get_if<PendingFailed>(record)) {
            tell_tool(work, failed->pending_id, "failed");
        } else if (const auto* expired = std::get_if<PendingExpired>(record)) {
            tell_tool(work, expired->pending_id, "expired");
        } else if (const auto* cancelled = std::get_if<PendingCancelled>(record)) {
            tell_tool(work, cancelled->pending_id, "cancelled");
        }
    }
}

void SessionCompanions::queue_webhooks(Work& work) {
    tell_tools(work);
    if (webhooks_.empty()) return;
    const SessionState& after = work.after;
    const bool rotated =
        find<TokenMinted>(work.records) != nullptr && find<TokenRevoked>(work.records) != nullptr;
    for (const RecordBody* one : work.records) {
        const RecordBody& record = *one;
        const auto pending = [](const PendingId& id) {
            return ",\"pending_id\":" + to_json_string(id.text());
        };
        if (std::holds_alternative<RunWaiting>(record)) {
            if (rotated || !after.is_parked()) continue;
            if (find<TokenMinted>(work.records) == nullptr) continue;
            queue_webhook(work, after, "session.waiting",
                          {"", ",\"wait\":" + to_json(*after.run->wait)});
        } else if (std::holds_alternative<RunResumed>(record)) {
            queue_webhook(work, after, "session.resumed", {});
        } else if (std::holds_alternative<RunCompleted>(record)) {
            queue_webhook(work, after, "session.completed", {});
        } else if (const auto* failed = std::get_if<RunFailed>(&record)) {
            queue_webhook(work, after, "session.failed",
                          {"", ",\"error\":" + to_json_string(failed->error)});
        } else if (const auto* left = std::get_if<RunInterrupted>(&record)) {
            queue_webhook(work, after, "session.interrupted",
                          {"", ",\"reason\":" + to_json_string(to_string(left->reason))});
        } else if (const auto* created = std::get_if<PendingCreated>(&record)) {
            queue_webhook(
                work, after, "pending.created",
                {pending(created->pending_id), ",\"tool\":" + to_json_string(created->tool)});
        } else if (const auto* expiring = std::get_if<PendingExpiring>(&record)) {
            queue_webhook(work, after, "pending.expiring",
                          {pending(expiring->pending_id),
                           ",\"expires_at\":" + to_json_string(to_rfc3339(expiring->expires_at))});
        } else if (const auto* expired = std::get_if<PendingExpired>(&record)) {
            queue_webhook(work, after, "pending.expired", {pending(expired->pending_id), ""});
        }
    }
}

// ---- time -----------------------------------------------------------------------------------

bool SessionCompanions::wants_warnings() const {
    return std::ranges::any_of(webhooks_, [](const WebhookEndpoint& endpoint) {
        return endpoint.events.empty() ||
               std::ranges::find(endpoint.events, "pending.expiring") != endpoint.events.end();
    });
}

std::optional<Timestamp> SessionCompanions::due_of(const SessionSummary& session) const {
    const std::optional<Timestamp> due = next_due(session);
    if (!wants_warnings()) return due;
    const std::optional<Timestamp> warning = next_warning(session);
    if (!due || !warning) return due ? due : warning;
    return std::min(*due, *warning);
}

// ---- all of it ------------------------------------------------------------------------------

Result<Companions::Then> SessionCompanions::join(const SessionState& after, Commit& commit) {
    Work work(after, commit, store_, env_.clock);
    // The appends may move while others are added; the records of the first do not.
    work.records.reserve(commit.appends.front().records.size());
    for (const RecordBody& record : commit.appends.front().records)
        work.records.push_back(&record);
    start_children(work);
    send_letters(work);
    note_given_up(work);
    if (Result<void> settled = settle_parent(work); !settled) return settled.error();
    queue_webhooks(work);
    start_next_run(work);
    Then then = finish(work);
    if (after.deleted) return then;  // nothing comes behind that in its log
    std::ranges::move(work.more, std::back_inserter(commit.appends.front().records));
    return then;
}

Companions::Then SessionCompanions::finish(Work& work) {
    Followed followed;
    followed.session = work.after.id;
    followed.due_changes = changes_due(work.records);
    if (followed.due_changes) followed.due = due_of(summarize(work.after));
    followed.waits_outside = std::ranges::any_of(work.after.pending, [](const PendingCall& call) {
        return call.status == PendingStatus::waiting && call.waits_for == WaitsFor::external;
    });
    followed.webhook = work.webhook;
    followed.given_up = work.given_up;
    if (work.begins_wait) followed.begins_wait = work.last_before();
    followed.went_idle = !work.after.alias.empty() && ending_of(work.records).ended;
    followed.kinds.reserve(work.records.size());
    for (const RecordBody* record : work.records) {
        followed.kinds.push_back(record->index());
        if (const auto* cancelled = std::get_if<PendingCancelled>(record)) {
            followed.closed.push_back(cancelled->pending_id);
        } else if (const auto* expired = std::get_if<PendingExpired>(record)) {
            followed.closed.push_back(expired->pending_id);
        }
    }
    for (const LogAppend& append : work.commit.appends) {
        for (const RecordBody& record : append.records) {
            if (const PendingId* id = ended_call(record)) followed.ended.push_back(*id);
        }
    }
    const auto system = std::ranges::find(work.commit.appends, system_log(), &LogAppend::log);
    if (system != work.commit.appends.end()) followed.system.appends.push_back(*system);
    for (const Work::Woken& woken : work.woken)
        followed.woken.emplace_back(woken.session, woken.message_bytes);
    followed.mail_queued = std::move(work.mail_queued);
    followed.to_drive = std::move(work.to_drive);
    return [this, followed = std::move(followed)] { follow(followed); };
}

void SessionCompanions::follow(const Followed& followed) {
    system_.fold(followed.system);
    if (followed.begins_wait) waits_.durable(followed.session, *followed.begins_wait);
    if (followed.due_changes && effects_.due) effects_.due(followed.session, followed.due);
    if (followed.waits_outside && effects_.calls_wait) effects_.calls_wait(followed.session);
    if (followed.webhook && effects_.webhook_queued) effects_.webhook_queued();
    for (const PendingId& id : followed.closed) {
        if (effects_.call_closed) effects_.call_closed(id);
    }
    for (const PendingId& id : followed.ended) {
        if (effects_.call_ended) effects_.call_ended(id);
    }
    if (!followed.given_up.empty() && effects_.run_given_up) {
        effects_.run_given_up(followed.session, followed.given_up);
    }
    if (effects_.count) effects_.count(followed.kinds);
    if (followed.went_idle) {
        env_.log.info("session.idle",
                      {{"message", "Session went idle"}, {"sessionId", followed.session.text()}});
    }
    for (const auto& [session, bytes] : followed.woken) {
        env_.log.info("mail.wakes", {{"message", "Resuming session with broadcast message"},
                                     {"sessionId", session.text()},
                                     {"messageLength", bytes}});
    }
    for (const Letter& letter : followed.mail_queued) {
        if (effects_.mail_queued) effects_.mail_queued(letter);
    }
    if (!effects_.drive) return;
    for (const SessionId& session : followed.to_drive)
        effects_.drive(session);
}

}  // namespace rouse
