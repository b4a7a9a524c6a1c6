#pragma once

// Mail between agents, as pure rules. A letter is stored in the recipient's log before anything
// else happens; whether it also wakes the recipient depends on what that is doing. Presented (the
// agent has seen it) and handled (it was answered) are separate facts.

#include <optional>
#include <string>
#include <vector>

#include "domain/rules.h"
#include "domain/state.h"
#include "domain/wait_rules.h"

namespace rouse {

struct MailAddress {
    SessionId session_id;
    std::string name;  // the alias, or the id where there is none
    friend bool operator==(const MailAddress&, const MailAddress&) = default;
    static constexpr auto fields() {
        return std::tuple(required("session_id", &MailAddress::session_id),
                          field("name", &MailAddress::name));
    }
};

// A letter that is fit to be sent. The broadcast tool leaves it in the metadata of its call or
// result: it is the commit of the call that sends it.
struct Letter {
    MessageId message_id;
    std::optional<MailAddress> from;  // absent: a person
    std::vector<MailAddress> to;
    std::string text;
    MessageId reply_to;
    std::string quote;   // the beginning of what it answers
    bool asks = false;   // the sender's turn waits for the answer
    bool quiet = false;  // wakes nobody
    std::string chain_id;
    std::uint32_t hops = 0;
    friend bool operator==(const Letter&, const Letter&) = default;
    static constexpr auto fields() {
        using S = Letter;
        return std::tuple(required("message_id", &S::message_id), field("from", &S::from),
                          required("to", &S::to), required("text", &S::text),
                          field("reply_to", &S::reply_to), field("quote", &S::quote),
                          field("asks", &S::asks), field("quiet", &S::quiet),
                          field("chain_id", &S::chain_id), field("hops", &S::hops));
    }
    std::string sender() const { return from ? from->name : "a person"; }
};
inline constexpr std::string_view kBroadcastTool = "broadcast";
inline constexpr std::string_view kLetter = "letter";  // the member of the metadata

RawJson letter_metadata(const Letter& letter);
std::optional<Letter> read_letter(const RawJson& metadata);

// What the sender's log says of it.
Records sent_records(const Letter& letter);

enum class MailAction : std::uint8_t { woken, queued, stored };
template <>
inline constexpr std::string_view kEnumNames<MailAction>[] = {"woken", "queued", "stored"};

struct DeliveryCommand {
    RunId new_run;  // that a wake starts
    BootId boot;
    Timestamp now{};
    bool wake_interrupted = false;  // the recovery policy allows it
    std::string stopped;            // why the chain may wake nobody any more; empty: it may
};
struct DeliveryPlan {
    Records records;
    MailAction action = MailAction::stored;
    bool drives = false;  // the recipient has something to do now
    bool wakes = false;   // a run that nobody else asked for
};

//   conflict   inbox_full
//   not_found  session_gone
Result<DeliveryPlan> plan_delivery(const SessionState& recipient, const Letter& letter,
                                   const DeliveryCommand& command);

// What tells the sender that somebody did not get it.
InboxReceived returned_letter(const Letter& letter, const MessageId& id, const MailAddress& to,
                              const std::string& why);
bool is_returned_letter(const InboxReceived& received, const Letter& letter, const MailAddress& to);

// The call that waits for the answer to that message, if there is one.
const PendingCall* find_call_for_reply(const SessionState& asker, const MessageId& message);
// The call that this letter answers: by reply_to, or since it comes from whoever was asked.
const PendingCall* find_answered_call(const SessionState& asker, const Letter& letter);
// Whom the session's open calls wait for: those it asked, and those it started.
std::vector<SessionId> awaited_sessions(const SessionState& session);

// True when the latest run failed or was cancelled: what was there when it began had its run,
// though nobody may have seen it.
bool broke_off(const SessionState& state);
// Mail that has not been seen and may start a run by itself. After a run that broke off only what
// came during it may.
const MailRow* find_waking_mail(const SessionState& state);
// Mail of a stopped chain that came during the run, and that no run could show yet.
std::vector<const MailRow*> find_withheld_mail(const SessionState& state);

// What the agent is shown of letters that it has not seen yet.
std::string render_mail(const std::vector<InboxReceived>& letters,
                        const std::vector<Timestamp>& times);

// A session's mail, as a fold over its log: for the inbox that people look at, and for answers.
struct InboxEntry {
    InboxReceived letter;
    Timestamp at{};
    bool presented = false;
    bool handled = false;
    std::string dropped;
};
class Inbox {
 public:
    void fold(const Record& record);
    const std::vector<InboxEntry>& entries() const { return entries_; }
    const InboxEntry* find(const MessageId& id) const;

 private:
    InboxEntry* entry_of(const MessageId& id);
    std::vector<InboxEntry> entries_;
};

}  // namespace rouse
