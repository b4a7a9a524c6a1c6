#include "runtime/mailroom.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "agent/store_async.h"
#include "base/limits.h"

namespace rouse {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::seconds kCarryAgain{1};
constexpr int kMailTries = 1000;  // a log that moves so often is moved by a fault of ours

bool can_be_planned_again(const Error& refusal, int tries) {
    return is_outdated(refusal) && tries < kMailTries;
}

std::string stops_json(const std::vector<MailStop>& stops) {
    std::string out = "[";
    for (const MailStop& stop : stops) {
        if (out.size() > 1) out += ',';
        out += "{\"alias\":" + to_json_string(stop.to.name) +
               ",\"session_id\":" + to_json_string(stop.to.session_id.text()) +
               ",\"action\":" + to_json_string(to_string(stop.action));
        const std::string reason = stop.error ? std::string(stop.error->reason) : stop.reason;
        if (!reason.empty()) out += ",\"reason\":" + to_json_string(reason);
        out += '}';
    }
    return out + "]";
}

}  // namespace

Task<Result<Mailroom::Sent>> Mailroom::send(MailQuestion question,
                                            std::optional<RequestNote> note) {
    const Result<Letter> letter = parts_.planner.plan(question);
    if (!letter) co_return letter.error();
    Sent sent{*letter, {}, {}};
    const bool bulk = letter->to.size() > limits::kLettersAtOnce;
    for (int tries = 0;; ++tries) {
        Commit commit;
        if (letter->from) {
            const auto sender = parts_.store->load(letter->from->session_id);
            if (!sender) co_return sender.error();
            Records records = sent_records(*letter);
            commit = make_commit(letter->from->session_id, std::nullopt, std::move(records));
        }
        Companions::Then then;
        if (bulk) {
            sent.stops.clear();
            for (const MailAddress& to : letter->to)
                sent.stops.push_back({to, MailAction::queued, {}});
            SystemLog::add(commit, to_record(MailQueued{*letter}));
        } else {
            then = parts_.companions.send(*letter, commit, sent.stops);
            if (sent.stops.size() == 1 && sent.stops.front().error) {
                co_return *sent.stops.front().error;
            }
        }
        sent.answer = "{\"message_id\":" + to_json_string(letter->message_id.text()) +
                      ",\"delivered\":" + stops_json(sent.stops) + "}";
        if (note) {
            RequestAnswered answered;
            answered.key = note->key;
            answered.body_digest = note->body_digest;
            answered.status = 202;
            answered.answer = RawJson::trusted(sent.answer);
            SystemLog::add(commit, to_record(answered));
        }
        if (commit.appends.empty()) co_return sent;  // there is nobody to write to
        const Commit system = commit;
        const Result<Committed> done = co_await commit_async(*parts_.store, std::move(commit));
        if (done) {
            // The companions fold what they added themselves, with the note that came later not.
            if (then) then();
            if (bulk) {
                parts_.system.fold(system);
                carry(*letter);
            } else if (note) {
                Commit answered;
                SystemLog::add(answered,
                               std::ranges::find(system.appends, system_log(), &LogAppend::log)
                                   ->records.back());
                parts_.system.fold(answered);
            }
            co_return sent;
        }
        if (!can_be_planned_again(done.error(), tries)) co_return done.error();
        co_await until_it_shows(tries);
    }
}

void Mailroom::carry(const Letter& letter) {
    asio::co_spawn(parts_.loop, carry_all(letter, false), [this](const std::exception_ptr& thrown) {
        if (thrown) parts_.env.log.error("mail.escaped", {});
    });
}

void Mailroom::start() {
    const std::vector<Letter> left = parts_.system.ask([](const SystemState& state) {
        std::vector<Letter> letters;
        for (const auto& [id, queued] : state.mail)
            letters.push_back(queued.letter);
        return letters;
    });
    for (const Letter& letter : left) {
        asio::co_spawn(parts_.loop, carry_all(letter, true),
                       [this](const std::exception_ptr& thrown) {
                           if (thrown) parts_.env.log.error("mail.escaped", {});
                       });
    }
}

std::vector<InboxReceived> Mailroom::received(const SessionId& session) const {
    std::vector<InboxReceived> letters;
    const Result<std::vector<Record>> log = read_records(*parts_.store, session);
    if (!log) return letters;
    for (const Record& record : *log) {
        if (const auto* letter = std::get_if<InboxReceived>(&record.body)) {
            letters.push_back(*letter);
        }
    }
    return letters;
}

Task<void> Mailroom::carry_all(Letter letter, bool again) {
    Letter part = letter;
    part.to.clear();
    std::vector<InboxReceived> returned;
    if (again && letter.from) returned = received(letter.from->session_id);
    const auto is_done = [&](const MailAddress& to) {
        return std::ranges::any_of(returned,
                                   [&](const InboxReceived& back) {
                                       return is_returned_letter(back, letter, to);
                                   }) ||
               std::ranges::any_of(received(to.session_id), [&](const InboxReceived& one) {
                   return one.message_id == letter.message_id;
               });
    };
    for (const MailAddress& to : letter.to) {
        if (again && is_done(to)) continue;
        part.to.push_back(to);
        if (part.to.size() < limits::kLettersAtOnce) continue;
        if (const Result<void> done = co_await deliver(part); !done) co_return;
        part.to.clear();
    }
    if (!part.to.empty()) {
        if (const Result<void> done = co_await deliver(part); !done) co_return;
    }
    RecordBody record = to_record(MailDone{letter.message_id});
    (void)co_await parts_.system.append(std::move(record));
}

Task<Result<void>> Mailroom::commit(Plan plan) {
    for (int tries = 0;; ++tries) {
        Commit commit;
        const Companions::Then then = plan(commit);
        if (commit.appends.empty()) co_return Result<void>();
        const Result<Committed> done = co_await commit_async(*parts_.store, std::move(commit));
        if (done) {
            then();
            co_return Result<void>();
        }
        if (!can_be_planned_again(done.error(), tries)) co_return done.error();
        co_await until_it_shows(tries);
    }
}

Task<Result<void>> Mailroom::deliver(Letter part) {
    const Plan plan = [this, part = std::move(part)](Commit& commit) {
        return parts_.companions.carry(part, commit);
    };
    Result<void> done = co_await commit(plan);
    // What passes is waited out: a full disk.
    while (!done && is_passing(done.error())) {
        asio::steady_timer pause(parts_.loop);
        pause.expires_after(kCarryAgain);
        (void)co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
        done = co_await commit(plan);
    }
    if (!done) parts_.env.log.warn("mail.not_delivered", {{"error", done.error().message}});
    co_return done;
}

// All of its sessions that are left, and one at least.
bool Mailroom::is_seen(const ChainRow& chain, const MaySee& may_see) const {
    if (!may_see) return true;
    bool seen = false;
    for (const SessionId& session : chain.sessions) {
        const Result<std::shared_ptr<const SessionState>> state = parts_.store->load(session);
        if (!state) continue;
        if (!may_see((*state)->task_id)) return false;
        seen = true;
    }
    return seen;
}

Task<Result<void>> Mailroom::continue_chain(std::string id, std::uint32_t hops, std::uint32_t wakes,
                                            MaySee may_see) {
    const std::optional<ChainRow> row =
        parts_.system.ask([&](const SystemState& state) -> std::optional<ChainRow> {
            const auto found = state.chains.find(id);
            if (found == state.chains.end()) return std::nullopt;
            return found->second;
        });
    if (!row || !is_seen(*row, may_see)) {
        co_return Error(ErrorKind::not_found, "unknown_chain",
                        "there is no chain " + id +
                            "; GET /v1/waits?kind=chain lists those that "
                            "were stopped");
    }
    if (row->stopped.empty()) {
        co_return Error(ErrorKind::precondition, "not_stopped", "the chain was not stopped");
    }
    Plan plan = [this, row = *row, goes_on = ChainContinued{id, hops, wakes}](Commit& commit) {
        return parts_.companions.let_go_on(goes_on, row.sessions, commit);
    };
    co_return co_await commit(std::move(plan));
}

}  // namespace rouse
