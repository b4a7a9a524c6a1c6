#pragma once

// A typed client of our own API that waits for each answer, for the command line.
//
//   Client client({.server = *find_server(flags, variable, fs)});
//   Result<Answer<SessionView>> session = client.session(id);
//   if (!session) return fail(session.error());   // says what to do next
//
// All calls fail as client/errors.h says, and with corrupt "malformed_answer" when the answer is
// not what this version knows. Not for two threads at once.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/event_stream.h"
#include "client/server_address.h"
#include "client/views.h"

namespace rouse::client {

// As it came, for programs, and as far as we know it.
template <class T>
struct Answer {
    std::string json;
    T value;
};

struct ClientOptions {
    ServerAddress server;
    int interrupt = -1;  // a descriptor: once it can be read, whatever waits ends as cancelled
};

// Empty text: not given.
struct NewSession {
    std::string agent;
    std::string title;
    std::string message;
    std::string wait;                // for the message's run, at most: "5s"
    std::string provider_type = {};  // with provider_model: instead of the agent's
    std::string provider_model = {};
};

// Of a list. Zero: as many as the server likes.
struct Page {
    std::size_t limit = 50;
    std::string cursor;
};

struct SessionQuery {
    std::string status;
    std::string agent;
    std::string task_id;
    std::string alias = {};
    Page page = {};
};

struct Decision {
    bool approve = false;
    RawJson input;             // to run with instead
    std::string input_digest;  // of what the person saw
    std::string message;
};

using CallResults = std::vector<std::pair<CallId, ToolResult>>;

// `from` and `task_id` may be empty: a person writes, to those without a task.
struct MailToSend {
    std::string from;
    std::string task_id;
    std::string to;
    std::string reply_to;
    std::string message;
};

class Client final {
 public:
    explicit Client(ClientOptions options);
    ~Client();
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    const ServerAddress& server() const { return server_; }

    Result<Answer<SessionView>> create_session(const NewSession& session);
    Result<Answer<SessionList>> sessions(const SessionQuery& query);
    Result<Answer<SessionView>> session(const SessionId& id);
    Result<Answer<Conversation>> messages(const SessionId& id);
    Result<Answer<LogPage>> log(const SessionId& id, Seq from_seq, std::size_t limit);
    Result<Answer<Explanation>> explain(const SessionId& id);
    Result<Answer<SessionView>> fork(const SessionId& id, std::optional<Seq> at_seq,
                                     const std::string& title);
    Result<void> remove(const SessionId& id);

    // `on_waiting` as the API has it: supersede, reject or queue.
    Result<Answer<Moved>> send_message(const SessionId& id, const std::string& text,
                                       const std::string& on_waiting);
    Result<Answer<Moved>> resume(const SessionId& id, const CallResults& results);
    Result<Answer<Moved>> go_on(const SessionId& id);
    Result<Answer<Moved>> cancel(const SessionId& id, const std::string& mode);

    Result<Answer<WaitList>> waits(const std::string& kind, const Page& page);
    Result<Answer<CallList>> calls(const std::optional<SessionId>& session,
                                   const std::string& status, const Page& page);
    Result<Answer<OneCall>> call(const std::string& pending_id);
    Result<Answer<Settled>> complete(const std::string& pending_id, const std::string& output,
                                     const std::string& title);
    Result<Answer<Settled>> fail(const std::string& pending_id, const std::string& error);
    Result<Answer<Settled>> cancel_call(const std::string& pending_id);
    Result<Answer<Moved>> decide(const std::string& pending_id, const Decision& decision);

    Result<Answer<MailSent>> broadcast(const MailToSend& mail);
    Result<Answer<LetterList>> inbox(const SessionId& id, const Page& page);

    Result<Answer<TokenView>> create_token(const std::string& name, const std::string& scope,
                                           const std::vector<std::string>& tasks);
    Result<Answer<TokenList>> tokens(const Page& page);
    Result<void> revoke_token(const std::string& id);

    // Streams must not outlive the client.
    EventStream follow(const SessionId& id, std::optional<Seq> from_seq);
    EventStream follow_all();

 private:
    Result<std::string> ask(std::string_view method, const std::string& target, std::string body);
    template <class T>
    Result<Answer<T>> ask_for(std::string_view method, const std::string& target,
                              std::string body = {});

    ServerAddress server_;
    std::unique_ptr<BlockingHttp> http_;
};

// The record of an event that has an id. corrupt.
Result<Record> record_of(const Event& event);

}  // namespace rouse::client
