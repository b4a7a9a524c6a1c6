#include "rouse/agent.h"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <mutex>
#include <optional>

#include "agent/session_locks.h"
#include "agent/turn.h"

namespace rouse {

namespace asio = boost::asio;

namespace {

// A call on its strand, and what may end it from outside. What goes in and what comes out stand
// here, as each coroutine on the way would move them.
struct Controls {
    Controls(const TurnStrand& on, AgentRequest asked)
        : strand(on), deadline(on), request(std::move(asked)) {}

    void stop(bool late) {
        too_late = too_late || late;
        stopped = true;
        // Before the call runs there is nobody to hear the signal.
        if (started) signal.emit(asio::cancellation_type::terminal);
    }

    TurnStrand strand;
    asio::cancellation_signal signal;
    asio::steady_timer deadline;
    bool started = false;
    bool stopped = false;
    bool too_late = false;
    AgentRequest request;
    TurnResult result;
};

void stop_soon(const std::weak_ptr<Controls>& controls, const TurnStrand& strand) {
    asio::post(strand, [controls] {
        if (const auto alive = controls.lock()) alive->stop(false);
    });
}

Task<void> run_locked(std::shared_ptr<const AgentSettings> settings,
                      std::shared_ptr<Controls> controls) {
    controls->started = true;
    if (controls->stopped) {
        controls->result = std::unexpected(
            TurnError(Error(ErrorKind::cancelled, "cancelled", "the call was cancelled")));
        co_return;
    }
    SessionLocks::Guard guard;
    if (controls->request.session) {
        SessionId id = controls->request.session->id();
        auto locked = co_await SessionLocks::instance().acquire(std::move(id), controls->strand);
        if (!locked) {
            controls->result = std::unexpected(TurnError(locked.error()));
            co_return;
        }
        guard = *std::move(locked);
    }
    controls->result =
        co_await run_turn(std::move(settings), std::move(controls->request), &controls->too_late);
}

Error reentrant(const SessionId& id) {
    return {ErrorKind::conflict, "reentrant_session",
            "session " + id.text() +
                " is in the middle of the turn that this call comes from; use another session"};
}

Task<TurnResult> run_controlled(std::shared_ptr<const AgentSettings> settings,
                                AgentRequest request) {
    const std::optional<Milliseconds> limit = settings->options.time_limit;
    const std::stop_token stop = request.stop;
    const asio::any_io_executor caller = co_await asio::this_coro::executor;
    if (request.session && SessionLocks::instance().is_inside(request.session->id(), caller)) {
        co_return std::unexpected(TurnError(reentrant(request.session->id())));
    }
    const TurnStrand strand = asio::make_strand(caller);
    const auto controls = std::make_shared<Controls>(strand, std::move(request));
    const std::weak_ptr<Controls> weak = controls;
    if (limit) {
        controls->deadline.expires_after(*limit);
        controls->deadline.async_wait([weak](boost::system::error_code ended) {
            const auto alive = weak.lock();
            if (alive && !ended) alive->stop(true);
        });
    }
    const std::stop_callback on_stop(stop, [weak, strand] { stop_soon(weak, strand); });
    asio::cancellation_state mine = co_await asio::this_coro::cancellation_state;
    if (mine.slot().is_connected()) {
        mine.slot().assign([weak, strand](asio::cancellation_type) { stop_soon(weak, strand); });
    }

    Task<void> turn = run_locked(std::move(settings), controls);
    auto token = asio::bind_cancellation_slot(controls->signal.slot(), asio::use_awaitable);
    co_await asio::co_spawn(strand, std::move(turn), token);
    TurnResult& result = controls->result;
    if (!result && result.error().kind == ErrorKind::cancelled && controls->too_late) {
        static_cast<Error&>(result.error()) = time_limit_reached();  // it had not begun
    }
    co_return std::move(result);
}

}  // namespace

class Agent::Shared {
 public:
    explicit Shared(AgentOptions options) {
        auto settings = std::make_shared<AgentSettings>();
        settings->options = std::move(options);
        for (const std::shared_ptr<Tool>& tool : settings->options.tools) {
            Result<SchemaCheck> schema = SchemaCheck::compile(tool->spec().parameters);
            if (!schema) {
                settings->mistake = schema.error();
                settings->mistake->message =
                    "parameters of tool " + tool->spec().name + ": " + schema.error().message;
                continue;
            }
            settings->tools.push_back({tool, *std::move(schema)});
            settings->specs.push_back(&tool->spec());
        }
        settings_ = std::move(settings);
    }

    std::shared_ptr<const AgentSettings> settings() const {
        const std::lock_guard lock(mutex_);
        return settings_;
    }

    template <class Change>
    void change(Change&& change) {
        const std::lock_guard lock(mutex_);
        auto next = std::make_shared<AgentSettings>(*settings_);
        change(next->options);
        settings_ = std::move(next);
    }

 private:
    mutable std::mutex mutex_;
    std::shared_ptr<const AgentSettings> settings_;
};

Agent::Agent(AgentOptions options) : shared_(std::make_shared<Shared>(std::move(options))) {}
Agent::~Agent() = default;

void Agent::set_model(std::shared_ptr<Model> model) {
    shared_->change([&](AgentOptions& options) { options.model = std::move(model); });
}

void Agent::set_system_prompt(std::string prompt) {
    shared_->change([&](AgentOptions& options) { options.system_prompt = std::move(prompt); });
}

Task<TurnResult> Agent::respond(AgentRequest request) {
    std::shared_ptr<const AgentSettings> settings = shared_->settings();
    if (!request.session && !settings->options.time_limit && !request.stop.stop_possible()) {
        return run_turn(std::move(settings), std::move(request));
    }
    return run_controlled(std::move(settings), std::move(request));
}

TurnResult Agent::respond_and_wait(AgentRequest request) {
    if (request.session && SessionLocks::instance().is_inside(request.session->id(), {})) {
        return std::unexpected(TurnError(reentrant(request.session->id())));
    }
    asio::io_context loop(1);
    std::optional<TurnResult> result;
    std::exception_ptr thrown;
    asio::co_spawn(loop, respond(std::move(request)),
                   [&](std::exception_ptr error, TurnResult value) {
                       thrown = std::move(error);
                       result = std::move(value);
                       loop.stop();
                   });
    loop.run();
    if (thrown) std::rethrow_exception(thrown);
    return *std::move(result);
}

std::string Response::text() const {
    return output_messages.empty() ? "" : text_of(output_messages.back());
}

}  // namespace rouse
