#include "domain/mail.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/limits.h"
#include "base/utf8.h"
#include "domain/child.h"
#include "domain/run_rules.h"

namespace rouse {
namespace {

constexpr std::string_view kMailroom = "the mailroom";
constexpr std::string_view kNotGot = " did not get this message: ";

InboxReceived received(const Letter& letter, const std::string& stopped) {
    InboxReceived record;
    record.message_id = letter.message_id;
    record.from = letter.sender();
    if (letter.from) record.from_session = letter.from->session_id;
    record.text = letter.text;
    record.reply_to = letter.reply_to;
    record.quote = letter.quote;
    record.asks = letter.asks;
    record.quiet = letter.quiet;
    record.stopped = stopped;
    record.chain_id = letter.chain_id;
    record.hops = letter.hops;
    return record;
}

// A wait that the letter answers ends with it, whatever else the session does.
bool settle_question(const SessionState& recipient, const Letter& letter,
                     const DeliveryCommand& command, DeliveryPlan& plan) {
    const PendingCall* call = find_answered_call(recipient, letter);
    if (call == nullptr) return false;
    Result<SettlePlan> settled = plan_settle(recipient, call->pending_id, text_result(letter.text),
                                             command.boot, command.now);
    if (!settled) return false;  // its time was up before
    plan.records.emplace_back(InboxHandled{letter.message_id, {}, {}});
    std::ranges::move(settled->records, std::back_inserter(plan.records));
    plan.drives = settled->resumed;
    plan.action = settled->resumed ? MailAction::woken : MailAction::queued;
    return true;
}

}  // namespace

RawJson letter_metadata(const Letter& letter) {
    return RawJson::trusted("{\"" + std::string(kLetter) + "\":" + to_json(letter) + "}");
}

std::optional<Letter> read_letter(const RawJson& metadata) {
    std::vector<JsonMember> members;
    if (metadata.absent() || !split_object(metadata.text(), members)) return std::nullopt;
    const auto found = std::ranges::find(members, kLetter, &JsonMember::key);
    if (found == members.end()) return std::nullopt;
    Result<Letter> letter = from_json<Letter>(found->value, kLetter);
    if (!letter) return std::nullopt;
    return *std::move(letter);
}

Records sent_records(const Letter& letter) {
    Records records;
    OutboxSent sent;
    sent.message_id = letter.message_id;
    for (const MailAddress& to : letter.to)
        sent.to.push_back(to.name);
    sent.text = letter.text;
    sent.reply_to = letter.reply_to;
    sent.chain_id = letter.chain_id;
    sent.hops = letter.hops;
    records.emplace_back(std::move(sent));
    if (!letter.reply_to.empty()) {
        records.emplace_back(InboxHandled{letter.reply_to, letter.message_id, {}});
    }
    return records;
}

Result<DeliveryPlan> plan_delivery(const SessionState& recipient, const Letter& letter,
                                   const DeliveryCommand& command) {
    if (Result<void> live = require_live(recipient); !live) return live.error();
    if (recipient.mail.size() >= limits::kInboxLetters) {
        return Error(ErrorKind::conflict, "inbox_full",
                     "the recipient has " + std::to_string(limits::kInboxLetters) +
                         " messages that it has not seen; wait until it has read them");
    }
    DeliveryPlan plan;
    plan.records.emplace_back(received(letter, command.stopped));
    if (settle_question(recipient, letter, command, plan)) return plan;
    if (recipient.run_is_open()) {
        plan.action = MailAction::queued;  // shown when it next builds a context
        return plan;
    }
    if (letter.quiet || !command.stopped.empty()) return plan;
    if (recipient.recovery.interruption) {
        if (!command.wake_interrupted) return plan;
        Result<Records> goes_on = plan_continue(recipient, command.new_run, command.boot);
        if (!goes_on) return plan;
        std::ranges::move(*goes_on, std::back_inserter(plan.records));
    } else {
        plan.records.emplace_back(
            RunStarted{command.new_run, command.boot, {}, letter.chain_id, letter.hops, {}});
    }
    plan.action = MailAction::woken;
    plan.drives = plan.wakes = true;
    return plan;
}

InboxReceived returned_letter(const Letter& letter, const MessageId& id, const MailAddress& to,
                              const std::string& why) {
    InboxReceived back;
    back.message_id = id;
    back.from = kMailroom;
    back.text = to.name + std::string(kNotGot) + why;
    back.reply_to = letter.message_id;
    back.quote = utf8_head(letter.text, limits::kLetterQuoteBytes);
    back.quiet = true;
    return back;  // of no chain: it is not another agent that caused it
}

bool is_returned_letter(const InboxReceived& received, const Letter& letter,
                        const MailAddress& to) {
    return received.reply_to == letter.message_id && received.from == kMailroom &&
           received.text.starts_with(to.name + std::string(kNotGot));
}

const PendingCall* find_call_for_reply(const SessionState& asker, const MessageId& message) {
    const auto found = std::ranges::find_if(asker.pending, [&](const PendingCall& call) {
        if (!is_open(call.status) || call.waits_for != WaitsFor::message) return false;
        const std::optional<Letter> letter = read_letter(call.metadata);
        return letter && letter->message_id == message;
    });
    return found == asker.pending.end() ? nullptr : &*found;
}

const PendingCall* find_answered_call(const SessionState& asker, const Letter& letter) {
    if (!letter.reply_to.empty()) return find_call_for_reply(asker, letter.reply_to);
    if (!letter.from || letter.quiet || letter.asks) return nullptr;
    const auto found = std::ranges::find_if(asker.pending, [&](const PendingCall& call) {
        if (!is_open(call.status) || call.waits_for != WaitsFor::message) return false;
        const std::optional<Letter> asked = read_letter(call.metadata);
        return asked && asked->to.front().session_id == letter.from->session_id;
    });
    return found == asker.pending.end() ? nullptr : &*found;
}

std::vector<SessionId> awaited_sessions(const SessionState& session) {
    std::vector<SessionId> awaited;
    for (const PendingCall& call : session.pending) {
        if (!is_open(call.status)) continue;
        if (call.waits_for == WaitsFor::message) {
            const std::optional<Letter> letter = read_letter(call.metadata);
            if (!letter) continue;
            std::ranges::transform(letter->to, std::back_inserter(awaited),
                                   &MailAddress::session_id);
        } else if (call.waits_for == WaitsFor::child) {
            const std::optional<ChildWish> wish = read_wish(call.metadata);
            if (wish) awaited.push_back(wish->session_id);
        }
    }
    return awaited;
}

bool broke_off(const SessionState& state) {
    if (!state.run || !state.run->outcome) return false;
    return *state.run->outcome == RunOutcome::failed ||
           *state.run->outcome == RunOutcome::cancelled;
}

const MailRow* find_waking_mail(const SessionState& state) {
    const bool had_its_run = broke_off(state);
    const auto found = std::ranges::find_if(state.mail, [&](const MailRow& row) {
        return !row.presented && row.wakes && !(had_its_run && row.offered);
    });
    return found == state.mail.end() ? nullptr : &*found;
}

std::vector<const MailRow*> find_withheld_mail(const SessionState& state) {
    std::vector<const MailRow*> rows;
    for (const MailRow& row : state.mail) {
        if (row.stopped && !row.presented && !row.offered) rows.push_back(&row);
    }
    return rows;
}

std::string render_mail(const std::vector<InboxReceived>& letters,
                        const std::vector<Timestamp>& times) {
    std::string out;
    if (letters.size() > 1) {
        out = "You have " + std::to_string(letters.size()) + " new messages.\n\n";
    }
    for (std::size_t i = 0; i < letters.size(); ++i) {
        const InboxReceived& letter = letters[i];
        out += "[Message " + letter.message_id.text() + " from " + letter.from + ", " +
               to_rfc3339(times[i]);
        if (!letter.reply_to.empty()) {
            out += ", in answer to your message " + letter.reply_to.text();
            if (!letter.quote.empty()) out += ": " + to_json_string(letter.quote);
        }
        out += "]\n" + letter.text + "\n";
        if (letter.asks) out += "(The sender waits for your answer.)\n";
        if (!letter.from_session.empty()) {
            out += "(To answer: broadcast with reply_to " + letter.message_id.text() + ")\n";
        }
        if (i + 1 < letters.size()) out += "\n";
    }
    return out;
}

// ---- the inbox ------------------------------------------------------------------------------

const InboxEntry* Inbox::find(const MessageId& id) const {
    const auto found = std::ranges::find_if(
        entries_, [&](const InboxEntry& entry) { return entry.letter.message_id == id; });
    return found == entries_.end() ? nullptr : &*found;
}

InboxEntry* Inbox::entry_of(const MessageId& id) {
    const InboxEntry* found = find(id);
    return found == nullptr ? nullptr : &entries_[std::size_t(found - entries_.data())];
}

void Inbox::fold(const Record& record) {
    if (const auto* letter = std::get_if<InboxReceived>(&record.body)) {
        entries_.push_back({*letter, record.at, false, false, {}});
    } else if (const auto* presented = std::get_if<InboxPresented>(&record.body)) {
        for (const MessageId& id : presented->message_ids) {
            if (InboxEntry* entry = entry_of(id)) entry->presented = true;
        }
    } else if (const auto* handled = std::get_if<InboxHandled>(&record.body)) {
        if (InboxEntry* entry = entry_of(handled->message_id)) entry->handled = true;
    } else if (const auto* dropped = std::get_if<InboxDropped>(&record.body)) {
        if (InboxEntry* entry = entry_of(dropped->message_id)) entry->dropped = dropped->reason;
    }
}

}  // namespace rouse
