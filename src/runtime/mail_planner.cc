#include "runtime/mail_planner.h"

#include <algorithm>

#include "base/limits.h"
#include "base/utf8.h"

namespace rouse {
namespace {

MailAddress address_of(const SessionId& id, const std::string& alias) {
    return {id, alias.empty() ? id.text() : alias};
}

}  // namespace

std::vector<MailAddress> MailPlanner::aliases(const std::string& task_id) const {
    SessionFilter filter;
    filter.task_id = task_id;
    filter.limit = std::numeric_limits<std::size_t>::max();
    std::vector<MailAddress> found;
    for (const SessionSummary& session : store_.list(filter)) {
        if (!session.alias.empty()) found.push_back(address_of(session.id, session.alias));
    }
    std::ranges::sort(found, {}, &MailAddress::name);
    return found;
}

Result<MailAddress> MailPlanner::find(const std::string& name, const std::string& task_id) const {
    SessionFilter filter;
    filter.task_id = task_id;
    filter.alias = name;
    filter.limit = 1;
    if (!name.empty()) {
        const std::vector<SessionSummary> found = store_.list(filter);
        if (!found.empty()) return address_of(found.front().id, found.front().alias);
    }
    if (const Result<SessionId> id = parse_session_id(name)) {
        const Result<std::shared_ptr<const SessionState>> state = store_.load(*id);
        if (state && (*state)->task_id == task_id) return address_of(*id, (*state)->alias);
    }
    std::string known;
    for (const MailAddress& address : aliases(task_id))
        known += (known.empty() ? "" : ", ") + address.name;
    return Error(
        ErrorKind::not_found, "unknown_alias",
        "Unknown recipient \"" + name + "\". Known agents: " + (known.empty() ? "none" : known));
}

Result<void> MailPlanner::find_sender_of(const SessionId& reader, const MessageId& message,
                                         Letter& letter) const {
    const Result<std::vector<Record>> log = read_records(store_, reader);
    if (!log) return log.error();
    Inbox inbox;
    for (const Record& record : *log)
        inbox.fold(record);
    const InboxEntry* entry = inbox.find(message);
    if (entry == nullptr) {
        return Error(ErrorKind::not_found, "unknown_message",
                     "no message " + message.text() +
                         " was received here; reply_to is the id that "
                         "stands before its text");
    }
    letter.reply_to = message;
    letter.quote = utf8_head(entry->letter.text, limits::kLetterQuoteBytes);
    if (!entry->letter.from_session.empty()) {
        letter.to.push_back({entry->letter.from_session, entry->letter.from});
    }
    return {};
}

Result<void> MailPlanner::find_recipients(const MailQuestion& question, Letter& letter) const {
    if (!question.reply_to.empty()) {
        if (!question.from) {
            return Error(ErrorKind::invalid, "invalid_request",
                         "reply_to needs from: the session that got the message");
        }
        return find_sender_of(*question.from, question.reply_to, letter);
    }
    if (question.to.empty()) {
        letter.to = aliases(question.task_id);
        if (question.from) {
            std::erase_if(letter.to, [&](const MailAddress& address) {
                return address.session_id == *question.from;
            });
        }
        return {};
    }
    for (const std::string& name : question.to) {
        Result<MailAddress> address = find(name, question.task_id);
        if (!address) return address.error();
        if (question.from && address->session_id == *question.from) {
            return Error(ErrorKind::invalid, "self_message",
                         "\"" + name + "\" is this very session; it needs no message to itself");
        }
        if (std::ranges::find(letter.to, *address) == letter.to.end()) {
            letter.to.push_back(*std::move(address));
        }
    }
    return {};
}

Result<Letter> MailPlanner::plan(const MailQuestion& given) {
    MailQuestion question = given;
    if (question.message.empty()) {
        return Error(ErrorKind::invalid, "message_required", "'message' parameter is required");
    }
    if (question.message.size() > limits::kLetterBytes) {
        return Error(ErrorKind::invalid, "message_too_long",
                     "a message has at most " + std::to_string(limits::kLetterBytes) +
                         " bytes; this one has " + std::to_string(question.message.size()));
    }
    Letter letter;
    letter.message_id = ids_.make<MessageId>();
    letter.text = question.message;
    letter.chain_id = letter.message_id.text();
    if (question.from) {
        const Result<std::shared_ptr<const SessionState>> sender = store_.load(*question.from);
        if (!sender) return sender.error();
        question.task_id = (*sender)->task_id;
        letter.from = address_of((*sender)->id, (*sender)->alias);
        letter.hops = 1;
        const std::optional<Run>& run = (*sender)->run;
        if ((*sender)->run_is_open() && !run->chain_id.empty()) {
            letter.chain_id = run->chain_id;
            letter.hops = run->hops + 1;
        }
    }
    if (Result<void> found = find_recipients(question, letter); !found) return found.error();
    const bool named = !question.to.empty() || !question.reply_to.empty();
    letter.quiet = !question.resume.value_or(named);
    letter.asks = question.wait;
    if (letter.asks && letter.to.size() != 1) {
        return Error(ErrorKind::invalid, "one_recipient",
                     "waiting for an answer needs one recipient: give to, with one name");
    }
    for (const MailAddress& to : letter.to) {
        const Result<std::shared_ptr<const SessionState>> state = store_.load(to.session_id);
        if (!state) return state.error();
        if (question.may_see && !question.may_see((*state)->task_id)) {
            return Error(ErrorKind::not_found, "unknown_alias",
                         "Unknown recipient \"" + to.name + "\"");
        }
        if (named && (*state)->mail.size() >= limits::kInboxLetters) {
            return Error(ErrorKind::conflict, "inbox_full",
                         to.name + " has " + std::to_string(limits::kInboxLetters) +
                             " messages that it has not seen; wait until it has read them");
        }
        if (letter.asks && waits_.leads(to.session_id, letter.from->session_id)) {
            return Error(ErrorKind::conflict, "circular_wait",
                         to.name +
                             " waits for an answer from here, itself or by others; answer it "
                             "first, or send this without wait");
        }
    }
    return letter;
}

}  // namespace rouse
