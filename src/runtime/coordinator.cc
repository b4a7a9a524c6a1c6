#include "runtime/coordinator.h"

#include <algorithm>
#include <boost/asio/this_coro.hpp>

#include "agent/store_async.h"
#include "domain/child.h"
#include "domain/fold.h"
#include "domain/history.h"
#include "domain/status.h"
#include "domain/transcript.h"
#include "runtime/answers.h"

namespace rouse {

namespace asio = boost::asio;

namespace {

constexpr std::string_view kSessions = "/v1/sessions/";
constexpr int kTries = 1000;  // a log that moves so often is moved by a fault of ours

std::string location_of(const SessionId& id) {
    return std::string(kSessions) + id.text();
}

}  // namespace

Coordinator::Coordinator(Parts parts)
    : parts_(std::move(parts)), ids_(parts_.env.clock, parts_.env.random) {}

// ---- how a change is made -------------------------------------------------------------------

void Coordinator::add_note(Commit& commit, const Note& note, const Change& change,
                           const std::string& location) const {
    if (!note) return;
    RequestAnswered answered;
    answered.key = note->key;
    answered.body_digest = note->body_digest;
    answered.status = change.status;
    answered.location = location;
    answered.answer = RawJson::trusted(change.answer);
    const LogAppend& changed = commit.appends.front();
    answered.session_id = changed.log;
    answered.run_id = change.run;
    answered.queued = change.queued;
    answered.last_seq = *changed.expected_last + changed.records.size();
    SystemLog::add(commit, to_record(answered));
}

Reply Coordinator::finish(const SessionId& id, const Change& change, Seq last) {
    if (change.stop) parts_.driver.tell(id, change.run);
    return {change.status, change.answer, {}, id, change.run, last, change.queued};
}

Task<Result<void>> Coordinator::carry_out(const SessionId& id, Commit commit, const Change& change,
                                          const Companions::Then& then) {
    const asio::any_io_executor loop = co_await asio::this_coro::executor;
    const Seq first = *commit.appends.front().expected_last + 1;
    // On a strand, what follows from this commit could follow behind what follows from the run's.
    const bool in_order = loop == parts_.driver.loop();
    const bool ahead = change.drive && in_order && parts_.driver.may_run_ahead(id, first);
    const bool alone = in_order && parts_.is_alone();
    Records records;
    if (ahead) {
        parts_.driver.show_ahead(id, first, commit.appends.front().records);
    } else if (change.drive) {
        records = commit.appends.front().records;
    }
    std::shared_ptr<CommitUnderWay> under_way;
    {
        // A run that parks or ends at once goes to the disk together with what began it.
        const Store::Hold together(*parts_.store,
                                   alone ? Store::Writer::holder : Store::Writer::store);
        under_way = start_commit(*parts_.store, std::move(commit), loop);
        if (ahead) parts_.driver.drive_ahead(id, under_way);
    }
    const Result<Committed> done = co_await under_way->wait(loop);
    if (!done) co_return done.error();
    // First, since the same commit may have begun another run.
    if (change.stop) parts_.driver.stop(id, change.run);
    then();
    if (change.drive && !ahead) parts_.driver.drive(id, first, records);
    co_return Result<void>();
}

Task<Result<Reply>> Coordinator::change(SessionId id, Plan plan, Note note) {
    for (int tries = 0;; ++tries) {
        const Result<std::shared_ptr<const SessionState>> state = parts_.store->load(id);
        if (!state) co_return state.error();
        Result<Change> change = plan(**state);
        if (!change) co_return change.error();
        const Seq last = (*state)->last_seq + change->records.size();
        if (change->records.empty()) co_return finish(id, *change, last);

        SessionState after = **state;
        for (const RecordBody& record : change->records)
            fold(after, RecordView(after.last_seq + 1, clamped(after, now()), record));
        Commit commit = make_commit(id, (*state)->last_seq, std::move(change->records));
        commit.urgency = change->urgency;
        for (RecordBody& record : change->system)
            SystemLog::add(commit, std::move(record));
        add_note(commit, note, *change, {});
        const Result<Companions::Then> then = parts_.companions.join(after, commit);
        if (!then) co_return then.error();
        Result<void> done = co_await carry_out(id, std::move(commit), *change, *then);
        if (done) co_return finish(id, *change, last);
        if (!is_outdated(done.error()) || tries == kTries) co_return done.error();
        co_await until_it_shows(tries);
    }
}

Task<Result<Reply>> Coordinator::add_session(SessionId id, Records records, Change change,
                                             Note note) {
    SessionState after;
    for (const RecordBody& record : records)
        fold(after, RecordView(after.last_seq + 1, now(), record));
    const Seq last = records.size();
    Commit commit = make_commit(id, Seq{0}, std::move(records));
    add_note(commit, note, change, location_of(id));
    const Result<Companions::Then> then = parts_.companions.join(after, commit);
    if (!then) co_return then.error();
    const Result<void> done = co_await carry_out(id, std::move(commit), change, *then);
    if (!done) co_return done.error();
    Reply answer = finish(id, change, last);
    answer.location = location_of(id);
    co_return answer;
}

// ---- sessions -------------------------------------------------------------------------------

// Keeps an alias for the time between looking and being durable.
class Coordinator::AliasClaim {
 public:
    AliasClaim(Coordinator& coordinator, std::string task)
        : coordinator_(coordinator), task_(std::move(task)) {}
    AliasClaim(const AliasClaim&) = delete;
    AliasClaim& operator=(const AliasClaim&) = delete;
    ~AliasClaim() {
        if (!alias_.empty()) coordinator_.claimed_aliases_.erase({task_, alias_});
    }

    bool take(const std::string& alias, const SessionId& except) {
        SessionFilter filter;
        filter.task_id = task_;
        filter.alias = alias;
        filter.limit = 2;
        for (const SessionSummary& session : coordinator_.parts_.store->list(filter)) {
            if (session.id != except) return false;
        }
        if (!coordinator_.claimed_aliases_.emplace(task_, alias).second) return false;
        alias_ = alias;
        return true;
    }
    // A taken one gets a number, and makes room for it if it has to.
    std::string take_like(const std::string& alias) {
        constexpr std::size_t kLongest = 64;
        std::string tried = alias;
        for (int n = 2; !take(tried, {}); ++n) {
            const std::string number = "-" + std::to_string(n);
            tried = alias.substr(0, kLongest - number.size()) + number;
        }
        return tried;
    }

 private:
    Coordinator& coordinator_;
    std::string task_;
    std::string alias_;
};

Task<Result<Reply>> Coordinator::create(SessionCreated created, Content message, Note note) {
    const std::shared_ptr<const Catalogue> catalogue = parts_.registry.catalogue();
    if (created.agent.empty()) created.agent = catalogue->default_agent;
    if (catalogue->find_agent(created.agent) == nullptr) {
        std::string known;
        for (const auto& [name, agent] : catalogue->agents)
            known += (known.empty() ? "" : ", ") + name;
        co_return Error(ErrorKind::invalid, "unknown_agent",
                        "there is no agent \"" + created.agent + "\"; there are: " + known);
    }
    if (!created.provider.type.empty() || !created.provider.model.empty()) {
        const auto model = catalogue->make_model(created.agent, created.provider);
        if (!model) co_return model.error();
        created.provider.chosen = true;
    }
    const SessionId id = created.id = ids_.make<SessionId>();
    AliasClaim claim(*this, created.task_id);
    if (!created.alias.empty()) created.alias = claim.take_like(created.alias);
    if (created.provider.type.empty()) {
        created.provider.type = catalogue->find_agent(created.agent)->provider;
        created.provider.model = catalogue->find_agent(created.agent)->model;
    }
    Records records;
    records.emplace_back(std::move(created));
    Change change;
    change.status = 201;
    change.answer = "{\"id\":" + to_json_string(id.text());
    if (!message.empty()) {
        change.run = ids_.make<RunId>();
        change.drive = true;
        change.answer += ",\"run_id\":" + to_json_string(change.run.text());
        records.emplace_back(MessageUser{ids_.make<MessageId>(), std::move(message), false, {}});
        records.emplace_back(RunStarted{change.run, parts_.boot, {}, {}});
    }
    change.answer += "}";
    co_return co_await add_session(id, std::move(records), std::move(change), std::move(note));
}

Task<Result<Reply>> Coordinator::update(SessionId id, SessionUpdated update, Note note) {
    const Result<std::shared_ptr<const SessionState>> known = parts_.store->load(id);
    if (!known) co_return known.error();
    AliasClaim claim(*this, (*known)->task_id);
    if (update.alias && !update.alias->empty() && !claim.take(*update.alias, id)) {
        co_return Error(ErrorKind::conflict, "alias_taken",
                        "another session of that task has the alias " + *update.alias);
    }
    const Plan plan = [update](const SessionState& state) -> Result<Change> {
        SessionUpdated merged = update;
        if (!update.metadata.absent()) {
            merged.metadata =
                RawJson::trusted(merge_patch(state.metadata.text(), update.metadata.text()));
        }
        Result<Records> records = plan_update(state, merged);
        if (!records) return records.error();
        Change change;
        change.records = *std::move(records);
        change.status = 200;
        return change;
    };
    co_return co_await change(std::move(id), plan, std::move(note));
}

Task<Result<Reply>> Coordinator::fork(SessionId id, std::optional<Seq> at_seq, std::string title,
                                      Note note) {
    const Result<std::vector<Record>> records = read_records(*parts_.store, id);
    if (!records) co_return records.error();
    const Seq last = records->back().seq;
    if (at_seq && (*at_seq == 0 || *at_seq > last)) {
        co_return Error(ErrorKind::invalid, "invalid_seq",
                        "the session's log has records 1 to " + std::to_string(last));
    }
    Transcript transcript;
    SessionCreated fork;
    SessionState source;
    for (const Record& record : *records) {
        if (record.seq > at_seq.value_or(last)) break;
        if (const auto* created = std::get_if<SessionCreated>(&record.body)) fork = *created;
        fold(source, record);
        transcript.fold(record);
    }
    fork.title = source.title;
    fork.metadata = source.metadata;
    fork.id = ids_.make<SessionId>();
    fork.parent.reset();
    fork.alias.clear();
    fork.external_id.clear();
    if (!title.empty()) fork.title = std::move(title);
    Change change;
    change.status = 201;
    change.answer = "{\"id\":" + to_json_string(fork.id.text()) + "}";
    const ForkOrigin origin{id, at_seq.value_or(last), {}};
    Records copied = plan_fork(fork, origin, transcript);
    co_return co_await add_session(fork.id, std::move(copied), std::move(change), std::move(note));
}

Task<Result<Reply>> Coordinator::compact(SessionId id, std::size_t keep_last, std::string summary,
                                         Note note) {
    const Plan plan = [this, id, keep_last, summary](const SessionState& state) -> Result<Change> {
        const Result<std::vector<Record>> records = read_records(*parts_.store, id);
        if (!records) return records.error();
        Transcript transcript;
        for (const Record& record : *records)
            transcript.fold(record);
        Result<Records> planned = plan_compact(state, transcript, keep_last, summary);
        if (!planned) return planned.error();
        Change change;
        change.records = *std::move(planned);
        change.status = 200;
        change.answer = "{\"seq\":" + std::to_string(state.last_seq + 1) + "}";
        return change;
    };
    co_return co_await change(std::move(id), plan, std::move(note));
}

// ---- runs -----------------------------------------------------------------------------------

Task<Result<Reply>> Coordinator::message(SessionId id, Content content, MessageOptions options,
                                         Note note) {
    MessageCommand command;
    command.message = {ids_.make<MessageId>(), std::move(content), false, {}};
    command.new_run = ids_.make<RunId>();
    command.boot = parts_.boot;
    command.on_waiting = options.on_waiting;
    command.on_running = options.on_running;
    const Plan plan = [this, command](const SessionState& state) mutable -> Result<Change> {
        command.now = now();
        Result<MessagePlan> planned = plan_message(state, command);
        if (!planned) return planned.error();
        Change change;
        change.run = planned->run_id;
        change.queued = planned->queued;
        change.drive = planned->started || planned->resumed;
        answers::Messaged answer{command.message.message_id, planned->run_id,
                                 state.last_seq + planned->records.size(), planned->queued,
                                 planned->superseded};
        change.answer = to_json(answer);
        change.records = std::move(planned->records);
        return change;
    };
    co_return co_await change(std::move(id), plan, std::move(note));
}

Task<Result<Reply>> Coordinator::go_on(SessionId id, Note note) {
    const RunId run = ids_.make<RunId>();
    const Plan plan = [this, run](const SessionState& state) -> Result<Change> {
        Result<Records> records = plan_continue(state, run, parts_.boot);
        if (!records) return records.error();
        Change change;
        change.run = run;
        change.drive = true;
        change.answer = to_json(answers::RunChanged{run, state.last_seq + records->size()});
        change.records = *std::move(records);
        return change;
    };
    co_return co_await change(std::move(id), plan, std::move(note));
}

Result<Coordinator::Change> Coordinator::change_of_cancel(const SessionState& state,
                                                          CancelMode mode) const {
    Result<Records> records = plan_cancel(state, mode, parts_.boot);
    if (!records) return records.error();
    Change change;
    change.run = run_of(state);
    change.drive = std::holds_alternative<RunResumed>(records->back());
    change.stop = !change.drive;
    change.urgency = Urgency::may_use_reserve;
    change.answer = to_json(answers::RunChanged{change.run, state.last_seq + records->size()});
    change.records = *std::move(records);
    return change;
}

Task<Result<Reply>> Coordinator::cancel(SessionId id, CancelMode mode, Note note) {
    // A run that is told so goes on; what its calls asked children for does not. What it asks them
    // for from now on is another matter.
    ChildrenLeft left;
    Children children;
    const Plan plan = [this, mode, &left, &children](const SessionState& state) -> Result<Change> {
        Result<Change> change = change_of_cancel(state, mode);
        if (!change || !change->drive) return change;
        const Result<std::vector<Record>> log = read_records(*parts_.store, state.id);
        if (!log) return log.error();
        left = {state.id, change->run};
        children = asked_by(state.id, with_those_it_continues(*log, change->run));
        for (const std::shared_ptr<const SessionState>& child : children)
            left.only.push_back(child->run->run_id);
        for (const PendingCall& call : state.pending)
            left.calls.push_back(call.call_id);
        if (!children.empty()) change->system.push_back(to_record(left));
        return change;
    };
    Result<Reply> answer = co_await change(id, plan, std::move(note));
    if (!answer) co_return answer;
    for (const std::shared_ptr<const SessionState>& child : children) {
        Unwanted unwanted = left_by(left);
        co_await cancel_unwanted(child->id, std::move(unwanted));
    }
    co_return answer;
}

// ---- waits ----------------------------------------------------------------------------------

namespace {

// The state with the token of an earlier wait and the calls that were settled in its run.
SessionState as_of_token(const SessionState& state, const Token& token,
                         const std::vector<Record>& log) {
    SessionState then = state;
    then.tokens.assign(1, token);
    then.pending.clear();
    if (then.run) then.run->run_id = token.run_id;
    for (const Record& record : log) {
        const auto* created = std::get_if<PendingCreated>(&record.body);
        if (created == nullptr || created->run_id != token.run_id) continue;
        if (auto call = find_settled_call(log, created->pending_id)) {
            then.pending.push_back(*std::move(call));
        }
    }
    return then;
}

// Whether only the log can tell what became of the token: the state knows those of the latest wait.
bool asks_for_the_past(const ResumeCommand& command, const Result<ResumePlan>& planned) {
    if (!command.token) return false;
    if (planned) return planned->duplicate;
    return planned.error().reason == "invalid_token" || planned.error().reason == "token_consumed";
}

}  // namespace

// A token of an earlier wait is not unknown: it was used, or its time is over. Whoever brings it
// again is told of the run that it belongs to, whatever runs by now.
Result<Coordinator::Change> Coordinator::plan_past_resume(const SessionState& state,
                                                          const ResumeCommand& command,
                                                          Result<ResumePlan> planned) {
    const Result<std::vector<Record>> log = read_records(*parts_.store, state.id);
    if (!log) return log.error();
    const std::optional<Token> token = find_past_token(*log, command.token->token_id);
    if (!planned && token && token->status != TokenStatus::active) {
        planned = plan_resume(as_of_token(state, *token, *log), command, now());
    }
    if (!planned) return planned.error();
    Change change;
    change.run = token ? token->run_id : run_of(state);
    const bool consumed = token && token->status == TokenStatus::consumed;
    const Seq seq = consumed ? seq_of_resume(*log, token->token_id) : state.last_seq;
    change.answer = to_json(answers::Resumed{change.run, seq, planned->remaining, true});
    return change;
}

Task<Result<Reply>> Coordinator::resume(SessionId id, std::optional<std::string> token,
                                        Results results, Content input, Note note) {
    ResumeCommand command;
    if (token) {
        Result<PresentedToken> presented = parse_token_text(*token);
        if (!presented) co_return presented.error();
        command.token = *std::move(presented);
    }
    command.results = std::move(results);
    command.boot = parts_.boot;
    if (!input.empty()) {
        command.input = MessageUser{ids_.make<MessageId>(), std::move(input), false, {}};
    }
    const Plan plan = [this, command](const SessionState& state) -> Result<Change> {
        Result<ResumePlan> planned = plan_resume(state, command, now());
        if (asks_for_the_past(command, planned)) {
            return plan_past_resume(state, command, std::move(planned));
        }
        if (!planned) return planned.error();
        for (const auto& [call_id, result] : command.results) {
            const auto call = std::ranges::find(state.pending, call_id, &PendingCall::call_id);
            if (call == state.pending.end() || !is_open(call->status)) continue;
            if (Result<void> fits = check_result(*call, result); !fits) return fits.error();
            add_last_progress(*call, planned->records);
        }
        Change change;
        change.run = run_of(state);
        change.drive = planned->resumed;
        const Seq seq = state.last_seq + planned->records.size();
        change.answer =
            to_json(answers::Resumed{change.run, seq, planned->remaining, planned->duplicate});
        change.records = std::move(planned->records);
        return change;
    };
    co_return co_await change(std::move(id), plan, std::move(note));
}

Task<Result<Reply>> Coordinator::rotate_token(SessionId id) {
    const Secret secret = ids_.secret();
    const NewToken token{ids_.make<TokenId>(), hash_of_secret(secret)};
    const std::string text = to_token_text(token.token_id, secret).reveal();
    const Plan plan = [token, text](const SessionState& state) -> Result<Change> {
        Result<Records> records = plan_rotate_token(state, token);
        if (!records) return records.error();
        Change change;
        change.records = *std::move(records);
        change.status = 200;
        change.answer =
            to_json(answers::TokenShown{text, token.token_id, state.run->wait->deadline_at});
        return change;
    };
    co_return co_await change(std::move(id), plan, kNoNote);
}

Task<Result<Reply>> Coordinator::extend(SessionId id, Timestamp deadline_at, Note note) {
    const Plan plan = [this, deadline_at](const SessionState& state) -> Result<Change> {
        Result<Records> records = plan_extend(state, deadline_at, now());
        if (!records) return records.error();
        SessionState after = state;
        for (const RecordBody& record : *records)
            fold(after, RecordView(after.last_seq + 1, now(), record));
        Change change;
        change.records = *std::move(records);
        change.status = 200;
        change.answer = to_json(*after.run->wait);
        return change;
    };
    co_return co_await change(std::move(id), plan, std::move(note));
}

}  // namespace rouse
