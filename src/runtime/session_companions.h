#pragma once

// What goes along with a session's records: children that a call starts, the answer to a parent
// when a child ends, the run that reads what was queued, webhooks. And what follows once it is
// durable: runs to drive, deadlines to watch, people to tell.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "agent/companions.h"
#include "base/env.h"
#include "base/id_source.h"
#include "domain/child.h"
#include "domain/mail.h"
#include "runtime/registry.h"
#include "runtime/system_log.h"
#include "runtime/wait_graph.h"

namespace rouse {

struct WebhookEndpoint {
    std::string url;
    std::string secret_env;
    std::vector<std::string> events;  // empty: all
};

// What the rest of the server does about a commit.
struct CommitEffects {
    std::function<void(const SessionId&)> drive;
    std::function<void(const SessionId&, std::optional<Timestamp>)> due;
    std::function<void()> webhook_queued;
    std::function<void(const SessionId&)> calls_wait;   // somebody may claim them
    std::function<void(const PendingId&)> call_closed;  // nobody wants its result any more
    std::function<void(const PendingId&)> call_ended;   // in whatever way
    // The children that it asked have nobody to answer.
    std::function<void(const SessionId& parent, const RunId& run)> run_given_up;
    std::function<void(const Letter&)> mail_queued;  // for more sessions than one commit takes
    std::function<void(const std::vector<std::size_t>& kinds)> count;  // indexes of RecordBody
};

// What became of a letter at one recipient.
struct MailStop {
    MailAddress to;
    MailAction action = MailAction::stored;
    std::string reason;               // why it was not woken; may be empty
    std::optional<Error> error = {};  // it was not even stored
};

class SessionCompanions final : public Companions {
 public:
    SessionCompanions(Env env, Store& store, SystemLog& system, Registry& registry,
                      WaitGraph& waits, BootId boot)
        : env_(env),
          store_(store),
          system_(system),
          registry_(registry),
          waits_(waits),
          ids_(env.clock, env.random),
          boot_(std::move(boot)) {}

    void set_effects(CommitEffects effects) { effects_ = std::move(effects); }
    // Each is sent at most so much about a session.
    void set_webhooks(std::vector<WebhookEndpoint> webhooks, std::size_t most_bytes) {
        webhooks_ = std::move(webhooks);
        webhook_bytes_ = most_bytes;
    }
    // Whether mail lets an interrupted session go on.
    void set_wake_interrupted(bool wakes) { wake_interrupted_ = wakes; }

    Result<Then> join(const SessionState& after, Commit& commit) override;

    // The same for a letter that no run sends: adds what it does at those it is for.
    Then send(const Letter& letter, Commit& commit, std::vector<MailStop>& stops);
    // The same once the sender was told that it is sent: whoever cannot get it is named to him.
    Then carry(const Letter& letter, Commit& commit);
    // A chain that was stopped goes on: wakes those that have mail of it.
    Then let_go_on(const ChainContinued& chain, const std::vector<SessionId>& sessions,
                   Commit& commit);

    // When something is to be done about the session, though nobody asks.
    std::optional<Timestamp> due_of(const SessionSummary& session) const;
    bool wants_warnings() const;

 private:
    struct Work;
    // What is to be done once a commit is durable.
    struct Followed {
        SessionId session;
        std::optional<Timestamp> due;
        bool due_changes = false;
        bool waits_outside = false;
        bool webhook = false;
        RunId given_up;
        std::vector<PendingId> closed;
        std::vector<PendingId> ended;
        std::vector<std::size_t> kinds;
        std::vector<SessionId> to_drive;
        std::vector<std::pair<SessionId, std::size_t>> woken;  // with the bytes of the message
        std::vector<Letter> mail_queued;
        bool went_idle = false;
        std::optional<Seq> begins_wait;  // behind this seq of its log
        Commit system;
    };

    void follow(const Followed& followed);

    void start_children(Work& work);
    // `waiting`: the call that waits for its end, if one does.
    Result<void> start_child(Work& work, const ChildWish& wish, const CallId& call,
                             const PendingId& waiting);
    void note_given_up(Work& work);
    Result<void> settle_parent(Work& work);
    void start_next_run(Work& work);
    Then finish(Work& work);

    MailStop deliver(Work& work, const Letter& letter, const MailAddress& to);
    void send_letters(Work& work);
    void take_back(Work& work, const PendingId& id, const std::string& why);
    void begin_wait(Work& work, const SessionId& awaited);
    InboxReceived returned(const Letter& letter, const MailStop& stop);
    void close_questions(Work& work, const std::string& last_words);
    void wake_for_mail(Work& work);
    std::string chain_limit(Work& work, const std::string& chain, std::uint32_t hops) const;
    void note_wake(Work& work, const std::string& chain);
    void queue_webhooks(Work& work);
    // JSON members, each with a leading comma, behind those that all webhooks have.
    struct WebhookData {
        std::string ids = {};
        std::string rest = {};  // left out if it is too long
    };
    void queue_webhook(Work& work, const SessionState& of, std::string_view type,
                       const WebhookData& more);
    void queue_webhook(Work& work, const SessionState& of, const WebhookEndpoint& endpoint,
                       std::string_view type, const WebhookData& more);
    void tell_tools(Work& work);
    void tell_tool(Work& work, const PendingId& id, std::string_view status);

    Env env_;
    Store& store_;
    SystemLog& system_;
    Registry& registry_;
    WaitGraph& waits_;
    IdSource ids_;
    BootId boot_;
    CommitEffects effects_;
    std::vector<WebhookEndpoint> webhooks_;
    std::size_t webhook_bytes_ = 0;
    bool wake_interrupted_ = true;
};

}  // namespace rouse
