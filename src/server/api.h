#pragma once

// The HTTP API: a table of routes, and handlers that translate, call the runtime and render. No
// rule about sessions lives here.

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/recovery_manager.h"
#include "base/limits.h"
#include "runtime/claim_desk.h"
#include "runtime/coordinator.h"
#include "runtime/mailroom.h"
#include "runtime/run_outcome.h"
#include "runtime/task_board.h"
#include "server/answer_line.h"
#include "server/auth.h"
#include "server/event_hub.h"
#include "server/http.h"
#include "server/metrics.h"
#include "server/views.h"
#include "server/waiting_requests.h"

namespace rouse::server {

class Body;

struct ApiParts {
    Env env;
    std::shared_ptr<Store> store;
    Registry& registry;
    SystemLog& system;
    Coordinator& coordinator;
    RunDriver& driver;
    ClaimDesk& claims;
    Mailroom& mailroom;
    MailPlanner& mail_planner;
    TaskBoard& tasks;
    CallNotes& notes;
    EventHub& hub;
    Metrics& metrics;
    Auth& auth;
    boost::asio::any_io_executor sockets;  // the loop of this API
    boost::asio::any_io_executor work;     // the loop that everything but this API runs on
    boost::asio::any_io_executor reading;  // a thread for what reads much
    std::string version;
    std::function<std::optional<std::string>(const std::string&)> secret;  // by the variable's name
    std::function<void()> webhook_queued;
};

class Api final {
 public:
    explicit Api(ApiParts parts)
        : parts_(std::move(parts)),
          ids_(parts_.env.clock, parts_.env.random),
          answers_(parts_.sockets) {}

    Task<Response> handle(Request request);
    // What the connection itself found wrong.
    Response refuse(Problem problem, const std::string& request_id);
    std::string new_request_id();
    Auth& auth() { return parts_.auth; }
    void set_ready(bool ready) { ready_ = ready; }
    std::size_t requests_under_way() const { return under_way_->requests; }  // from any thread
    void set_boot(BootReport boot) { boot_ = std::move(boot); }

    enum class Access : std::uint8_t { open, read, submit, operate, admin, or_pending_id };
    using Handler = Task<Response> (Api::*)(Request&);
    struct Route {
        std::string_view method;
        std::string_view pattern;
        Access access;
        std::string_view summary;
        Handler handler;
        std::string_view query = {};  // the names of its parameters there, with blanks between
        std::vector<std::string> query_names() const;
    };
    static const std::vector<Route>& routes();

 private:
    using Wait = std::optional<Milliseconds>;
    struct Done {
        Reply reply;
        SharedReport report;  // null: nobody waited, or not long enough
    };

    Task<Response> dispatch(const Route& route, Request& request);
    Task<Response> call(const Route& route, Request& request);
    std::optional<Problem> check_access(const Route& route, const Request& request) const;
    static std::optional<Problem> check_query(const Route& route, const Request& request);
    std::optional<Problem> check_content_type(const Route& route, const Request& request) const;
    struct FirstAnswer {
        std::optional<RequestAnswered> answer = {};  // nothing: this is the first request
        std::optional<Problem> problem = {};
    };
    FirstAnswer find_answer(const Route& route, Request& request);
    Task<Response> replay(const Route& route, Request& request, RequestAnswered first);

    // ---- mail
    Task<Response> post_broadcast(Request& request);
    Task<Response> list_aliases(Request& request);
    Task<Response> get_inbox(Request& request);
    Task<Response> continue_chain(Request& request);
    std::map<std::string, std::string> stopped_chains(const Request& request) const;
    Response list_chains(const Request& request);
    Result<SessionId> find_sender(const Request& request, const std::string& name,
                                  const std::string& task_id) const;
    Response fail_mail(const Request& request, const Error& error, const std::string& task_id);

    Task<Response> find_route(Request& request);
    Response answer_preflight(const std::string& methods) const;

    // ---- tools of the handlers
    template <class T>
    Task<T> on_work(Task<T> task) {
        namespace asio = boost::asio;
        const auto start = [this](auto waiter, Task<T> wanted) {
            auto bring = [this, busy = asio::make_work_guard(parts_.sockets),
                          waiter = std::move(waiter)](std::exception_ptr thrown, T done) mutable {
                answers_.put([busy = std::move(busy), waiter = std::move(waiter),
                              thrown = std::move(thrown), done = std::move(done)]() mutable {
                    std::move(waiter)(std::move(thrown), std::move(done));
                });
            };
            asio::co_spawn(parts_.work, std::move(wanted), std::move(bring));
        };
        co_return co_await asio::async_initiate<const asio::use_awaitable_t<>,
                                                void(std::exception_ptr, T)>(
            start, asio::use_awaitable, std::move(task));
    }
    // What a handler makes of a session's whole log. If that is long, another thread does it, and
    // the loop goes on meanwhile.
    template <class Read>
    Task<std::invoke_result_t<Read>> aside(const SessionId& session, Read read) {
        if (parts_.store->log_bytes(session) < limits::kLongLog) co_return read();
        co_return co_await aside(std::move(read));
    }
    template <class Read>
    Task<std::invoke_result_t<Read>> aside(Read read) {
        co_return co_await boost::asio::co_spawn(parts_.reading, call_there(std::move(read)),
                                                 boost::asio::use_awaitable);
    }
    template <class Read>
    static Task<std::invoke_result_t<Read>> call_there(Read read) {
        co_return read();
    }
    // True: others were served meanwhile.
    Task<bool> bring_in(SessionId session);
    Task<bool> bring_in_call(Request& request, PendingId id);
    // How long a request waits for an outcome, and whether somebody still waits for it.
    struct Patience {
        Wait wait;
        std::stop_token gone;
        std::shared_ptr<WaitingRequests::Place> place = {};
    };
    Patience patience_of(Request& request, Wait wait, Request::Look look = Request::Look::later);
    static AskedRun asked_run(const Reply& reply);
    Task<Result<Done>> carry_out(Task<Result<Reply>> command, Patience patience);
    Task<Response> answer(Request& request, Task<Result<Reply>> command);
    // What makes the same request get this answer again; nothing if it has no key.
    static Records note_of(const Request& request, int status, std::string answer,
                           std::string location = {});
    // For what no single commit carries: the answer is kept after the fact.
    Task<Response> remember(Request& request, Response response, std::string kept);
    Response render(Request& request, Done done);
    static int status_of(const Request& request, const Done& done);
    Response session_response(Request& request, int status, const SessionId& id, const RunId& run,
                              const SharedReport& report);
    std::string report_json(const Request& request, const RunReport& report) const;
    Response fail(const Request& request, const Error& error);
    Response fail(const Request& request, Problem problem);
    Response fail_late(const Request& request, const PendingId& id, const Error& error);
    void tell_status(const Request& request, const PendingId& id, Response& response);
    Viewer viewer(const Request& request) const;
    Result<Wait> wait_of(const Request& request) const;
    Result<std::size_t> limit_of(const Request& request, std::size_t standard,
                                 std::size_t most) const;
    enum class ListOrder : std::uint8_t { newest_first, by_name };
    struct Page {
        std::vector<std::string> ids;
        std::string next = {};  // the cursor of the page behind it; empty: this is the last
    };
    // The page that was asked for, of a list whose ids are at hand.
    Result<Page> page_of(const Request& request, std::vector<std::string> ids,
                         ListOrder order) const;
    static Response list_response(const std::vector<std::string>& items, const std::string& next);
    // The session of the first path parameter, if the caller may see it.
    Result<std::shared_ptr<const SessionState>> find_session(const Request& request) const;
    Result<std::shared_ptr<const SessionState>> find_session(const Request& request,
                                                             const SessionId& id) const;
    // Of a damaged session, what comes before the damage.
    std::pair<SessionState, Transcript> readable_part(const SessionId& id) const;
    std::optional<Damage> damage_of(const SessionId& id) const;

    struct FoundCall {
        SessionId session;
        PendingCall call;
        std::shared_ptr<const Catalogue> catalogue;
        const ToolDefinition* tool = nullptr;  // in the catalogue
    };
    Result<FoundCall> find_call(const Request& request, const PendingId& id) const;
    Result<std::optional<PendingCall>> find_past_call(const PendingId& id) const;
    static void check_input(const FoundCall& found, const RawJson& input, Body& body);
    std::optional<Problem> may_settle(Request& request, const PendingId& id);
    Task<std::optional<Response>> refuse_settling(Request& request, PendingId id);
    std::string call_json(const Request& request, const SessionId& session, const PendingCall& call,
                          const ToolPart* part) const;

    Response claimed_response(const Request& request, const std::vector<PendingId>& claimed);
    static std::vector<PendingId> claimed_in(const RawJson& answer);

    // ---- lists of calls (api_pending_lists.cc)
    struct ListedCall {
        PendingId id;
        std::string json;
    };
    struct CallPage {
        std::vector<ListedCall> calls;
        std::string next_cursor;  // empty: there is nothing more
    };
    Task<CallPage> list_open(Request& request, PendingFilter filter);
    CallPage list_settled(const Request& request, const PendingFilter& filter,
                          const std::string& cursor) const;
    void add_settled(const Request& request, const PendingFilter& filter, const SessionId& session,
                     const std::string& behind, CallPage& page) const;
    Task<Response> settle(Request& request, const PendingId& id, Settlement settlement);
    // What somebody outside says of a call.
    Task<Response> bring(Request& request, const PendingId& id, Task<Result<Reply>> command);

    // ---- handlers: sessions (api_sessions.cc)
    Task<Response> create_session(Request& request);
    Task<Response> list_sessions(Request& request);
    Task<Response> get_session(Request& request);
    Task<Response> patch_session(Request& request);
    Task<Response> delete_session(Request& request);
    Task<Response> post_message(Request& request);
    Task<Response> resume_session(Request& request);
    Task<Response> rotate_token(Request& request);
    Task<Response> continue_session(Request& request);
    Task<Response> cancel_session(Request& request);
    Task<Response> extend_session(Request& request);
    Task<Response> fork_session(Request& request);
    Task<Response> compact_session(Request& request);
    Task<Response> get_messages(Request& request);
    Task<Response> get_log(Request& request);
    Task<Response> get_status(Request& request);
    Task<Response> get_explain(Request& request);
    Task<Response> get_session_events(Request& request);
    Task<Response> get_events(Request& request);
    Task<Response> list_waits(Request& request);

    // ---- pending calls (api_pending.cc)
    Task<Response> decide(Request& request);
    Task<Response> post_result(Request& request);
    Task<Response> post_error(Request& request);
    Task<Response> post_webhook(Request& request);
    Task<Response> post_plain_webhook(Request& request);
    Task<Response> list_pending(Request& request);
    Task<Response> get_pending(Request& request);
    Task<Response> cancel_pending(Request& request);
    Task<Response> claim_any(Request& request);
    Task<Response> claim_one(Request& request);
    Task<Response> renew_lease(Request& request);
    Task<Response> release_lease(Request& request);
    Task<Response> post_progress(Request& request);
    Task<Response> list_async_tools(Request& request);
    Task<Response> recovery_status(Request& request);

    // ---- the rest (api_system.cc)
    Task<Response> list_agents(Request& request);
    Task<Response> list_tools(Request& request);
    Task<Response> list_models(Request& request);
    Task<Response> create_task(Request& request);
    Task<Response> list_tasks(Request& request);
    Task<Response> get_task(Request& request);
    Task<Response> patch_task(Request& request);
    Task<Response> get_task_session_status(Request& request);
    Task<Response> create_api_token(Request& request);
    Task<Response> list_api_tokens(Request& request);
    Task<Response> revoke_api_token(Request& request);
    Task<Response> list_dead_webhooks(Request& request);
    Task<Response> retry_dead_webhook(Request& request);
    Task<Response> healthz(Request& request);
    Task<Response> readyz(Request& request);
    Task<Response> get_metrics(Request& request);
    Task<Response> get_openapi(Request& request);
    std::string task_json(const TaskRow& row) const;
    std::optional<TaskRow> find_task(const Request& request) const;
    static Problem no_such_task(const Request& request);
    bool sees_webhook(const Request& request, const DeliveryRow& row) const;

    ApiParts parts_;
    IdSource ids_;
    AnswerLine answers_;
    bool ready_ = false;
    BootReport boot_;
    // What is being answered. A request that waits for a log when the server ends goes last of all.
    struct UnderWay {
        std::atomic<std::size_t> requests = 0;
        std::set<std::string> keys;  // of those with an Idempotency-Key
    };
    const std::shared_ptr<UnderWay> under_way_ = std::make_shared<UnderWay>();
    WaitingRequests waiting_;
};

std::string openapi_json(const std::vector<Api::Route>& routes, const std::string& version);

}  // namespace rouse::server
