#pragma once

// From what somebody wants to say to a letter that is fit to be sent: who is meant, whether they
// are there, whose chain of causes it belongs to.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/id_source.h"
#include "domain/mail.h"
#include "runtime/wait_graph.h"
#include "store/store.h"

namespace rouse {

struct MailQuestion {
    std::optional<SessionId> from = {};  // absent: a person
    std::string task_id = {};  // where aliases are looked up; a session's own, if it sends
    std::string message = {};
    std::vector<std::string> to = {};  // aliases or session ids; empty: everybody in the task
    MessageId reply_to = {};           // beats `to`
    std::optional<bool> resume = {};   // wake who is idle; as a rule those who are named
    bool wait = false;                 // for the answer
    std::function<bool(const std::string& task_id)> may_see = {};
};

class MailPlanner final {
 public:
    MailPlanner(Clock& clock, Random& random, Store& store, WaitGraph& waits)
        : ids_(clock, random), store_(store), waits_(waits) {}

    //   invalid    message_required, message_too_long, self_message, one_recipient
    //   not_found  unknown_alias (with those that there are), unknown_message, unknown_session
    //   conflict   inbox_full, circular_wait
    Result<Letter> plan(const MailQuestion& question);

    std::vector<MailAddress> aliases(const std::string& task_id) const;
    // By alias or id. not_found.
    Result<MailAddress> find(const std::string& name, const std::string& task_id) const;

 private:
    Result<void> find_recipients(const MailQuestion& question, Letter& letter) const;
    Result<void> find_sender_of(const SessionId& reader, const MessageId& message,
                                Letter& letter) const;

    IdSource ids_;
    Store& store_;
    WaitGraph& waits_;
};

}  // namespace rouse
