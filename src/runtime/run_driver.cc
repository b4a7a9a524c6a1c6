#include "runtime/run_driver.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <limits>

#include "base/limits.h"

namespace rouse {

namespace asio = boost::asio;

namespace {

constexpr std::chrono::seconds kDriveAgain{1};

}  // namespace

// ---- the cache ------------------------------------------------------------------------------

std::shared_ptr<DurableSession> SessionCache::find(const SessionId& id) {
    const auto found = index_.find(id);
    if (found == index_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return order_.front().session;
}

void SessionCache::put(std::shared_ptr<DurableSession> session) {
    const SessionId id = session->id();
    if (const auto found = index_.find(id); found != index_.end()) {
        order_.splice(order_.begin(), order_, found->second);
        order_.front().session = std::move(session);
        return;
    }
    order_.push_front({std::move(session)});
    index_[id] = order_.begin();
    if (order_.size() > most_) drop(std::prev(order_.end()));
}

void SessionCache::erase(const SessionId& id) {
    const auto found = index_.find(id);
    if (found != index_.end()) drop(found->second);
}

SessionCache::Order::iterator SessionCache::drop(Order::iterator entry) {
    bytes_ -= entry->bytes;
    index_.erase(entry->session->id());
    return order_.erase(entry);
}

void SessionCache::erase_unused() {
    for (auto entry = order_.begin(); entry != order_.end();)
        entry = entry->session.use_count() > 1 ? std::next(entry) : drop(entry);
}

void SessionCache::weigh(const SessionId& id) {
    const auto found = index_.find(id);
    if (found == index_.end()) return;
    Entry& weighed = *found->second;
    const std::size_t before = std::exchange(weighed.bytes, weighed.session->conversation_bytes());
    bytes_ += weighed.bytes - before;
    // What is about to be driven may know what the store does not know yet.
    const auto may_go = [](const Entry& entry) {
        return entry.session.use_count() == 1 && entry.session->is_on_disk();
    };
    // Its memory is warm, and the next session gets it.
    const bool is_over = !weighed.session->state().run_is_open();
    if (weighed.bytes < least_bytes_ && is_over && may_go(weighed)) {
        drop(found->second);
        return;
    }
    for (auto entry = order_.end(); bytes_ > most_bytes_ && std::prev(entry) != order_.begin();) {
        --entry;
        if (may_go(*entry)) entry = drop(entry);
    }
}

// ---- the driver -----------------------------------------------------------------------------

RunDriver::RunDriver(Parts parts)
    : parts_(std::move(parts)),
      cache_(limits::kCachedSessions, limits::kCachedConversations, limits::kShortConversation),
      look_again_(parts_.loop),
      all_done_(parts_.loop) {
    all_done_.expires_at(asio::steady_timer::time_point::max());
}

void RunDriver::drive(const SessionId& session) {
    if (closing_) return;  // its run is in the log, and the next boot finds it there
    const auto [found, is_new] = handles_.try_emplace(session);
    if (!is_new) {
        found->second->again = true;
        return;
    }
    found->second = std::make_shared<Handle>();
    enqueue(session);
}

void RunDriver::enqueue(const SessionId& session) {
    queue_.push_back(session);
    queued_ = queue_.size();
    start_queued();
}

void RunDriver::drive(const SessionId& session, Seq first, const Records& committed) {
    if (!closing_ && !handles_.contains(session)) {
        std::shared_ptr<DurableSession> cached = cache_.find(session);
        if (!cached && first == 1) {
            cached = make(session);
            cache_.put(cached);
        }
        if (cached) cached->take_over(first, committed);
    }
    drive(session);
}

bool RunDriver::begin_and_drive(const SessionId& session, Begin begin) {
    if (closing_) return true;  // the next boot finds it as it is
    const auto [found, is_new] = handles_.try_emplace(session);
    if (!is_new) return false;
    found->second = std::make_shared<Handle>();
    found->second->begin = std::move(begin);
    enqueue(session);
    return true;
}

bool RunDriver::may_run_ahead(const SessionId& session, Seq first) {
    // One that had to queue could lose its place in the cache, and with it what only that knows.
    const bool at_once = queue_.empty() && in_flight_ < parts_.concurrent_runs;
    if (closing_ || !at_once || handles_.contains(session) || parts_.has_listeners()) return false;
    if (const auto known = cache_.find(session)) return known->can_take_over(first);
    if (first == 1) return true;
    if (parts_.store->log_bytes(session) >= limits::kLongLog) return false;
    const auto read = open(session);
    if (read && (*read)->can_take_over(first)) return true;
    cache_.erase(session);
    return false;
}

void RunDriver::show_ahead(const SessionId& session, Seq first, const Records& records) {
    std::shared_ptr<DurableSession> working = cache_.find(session);
    if (!working) {
        working = make(session);
        cache_.put(working);
    }
    working->take_over(first, records);
}

void RunDriver::drive_ahead(const SessionId& session, std::shared_ptr<CommitUnderWay> commit) {
    if (commit->refused()) return cache_.erase(session);
    cache_.find(session)->go_ahead_of(std::move(commit));
    drive(session);
}

std::shared_ptr<DurableSession> RunDriver::make(const SessionId& id) {
    auto session = std::make_shared<DurableSession>(nullptr, parts_.env, parts_.store, parts_.boot,
                                                    id, companions_);
    session->end_ahead_on(parts_.loop);
    return session;
}

void RunDriver::start_queued() {
    while (in_flight_ < parts_.concurrent_runs && !queue_.empty()) {
        const SessionId session = std::move(queue_.front());
        queue_.pop_front();
        queued_ = queue_.size();
        ++in_flight_;
        asio::co_spawn(parts_.loop, work_on(session),
                       [this, session](const std::exception_ptr& thrown) {
                           --in_flight_;
                           if (thrown) {
                               parts_.env.log.error("run.escaped", {{"session", session.text()}});
                               handles_.erase(session);
                           }
                           start_queued();
                           if (in_flight_ == 0) all_done_.cancel();
                       });
    }
}

void RunDriver::stop(const SessionId& session, const RunId& run) {
    const auto found = handles_.find(session);
    if (found == handles_.end()) return;
    if (found->second->run.empty()) return leave_line(session);
    if (found->second->run != run) return;
    found->second->again = true;
    found->second->stop.request_stop();
}

std::optional<RunId> RunDriver::run_to_drive(const SessionId& session) const {
    const auto state = parts_.store->load(session);
    if (!state || !(*state)->run_is_open() || (*state)->is_parked()) return std::nullopt;
    return (*state)->run->run_id;
}

// Unless it is there for another run by now.
void RunDriver::leave_line(const SessionId& session) {
    const auto place = std::ranges::find(queue_, session);
    if (place == queue_.end() || handles_.at(session)->begin || run_to_drive(session)) return;
    queue_.erase(place);
    queued_ = queue_.size();
    handles_.erase(session);
}

Task<void> RunDriver::work_on(SessionId session) {
    const std::shared_ptr<Handle> handle = handles_.at(session);
    if (handle->begin) {
        co_await handle->begin();
        handle->begun();
    }
    bool more = true;
    while (more && !closing_) {
        handle->again = false;
        handle->stop = std::stop_source();
        more = co_await go_on(session, handle);
        more = more || handle->again;
    }
    cache_.weigh(session);
    handles_.erase(session);
}

Result<std::shared_ptr<DurableSession>> RunDriver::open(const SessionId& id) {
    std::shared_ptr<DurableSession> session = cache_.find(id);
    if (!session) session = make(id);
    if (Result<void> read = session->refresh(); !read) {
        cache_.erase(id);
        return read.error();
    }
    cache_.put(session);
    return session;
}

// True when there may be more to do: the run ended and another one began with the same commit.
Task<bool> RunDriver::go_on(const SessionId& id, const std::shared_ptr<Handle>& handle) {
    const Result<std::shared_ptr<DurableSession>> session = open(id);
    if (!session) {
        parts_.env.log.warn("run.not_driven",
                            {{"session", id.text()}, {"error", session.error().message}});
        if (session.error().kind == ErrorKind::io) drive_later(id);
        co_return false;
    }
    const SessionState& state = (*session)->state();
    if (!state.run_is_open() || state.is_parked()) co_return false;
    const RunId run = handle->run = state.run->run_id;
    const std::shared_ptr<const Catalogue> catalogue = parts_.registry.catalogue();
    const AgentDefinition* agent = catalogue->find_agent(state.agent);
    if (agent == nullptr) {
        const std::string message = "there is no agent " + state.agent +
                                    " in the configuration any more: bring it back, or start a "
                                    "session with another one";
        Error error(ErrorKind::precondition, "unknown_agent", message);
        const bool failed = co_await fail(*session, std::move(error));
        tell(id, run);
        co_return failed;
    }
    AgentRequest request;
    if (state.provider.chosen) {
        Result<std::shared_ptr<Model>> model = catalogue->make_model(state.agent, state.provider);
        if (!model) {
            Error error = model.error();
            const bool failed = co_await fail(*session, std::move(error));
            tell(id, run);
            co_return failed;
        }
        request.model = *std::move(model);
    }
    request.session = *session;
    request.go_on = true;
    request.stop = handle->stop.get_token();
    if (parts_.on_delta) {
        request.on_item = [this, id, run, working = session->get(), message = MessageId(),
                           at = std::size_t(0)](const Item& item) mutable -> Result<void> {
            const auto* delta = std::get_if<TextDelta>(&item);
            if (delta == nullptr) return {};
            if (working->coming_step() != message) {
                message = working->coming_step();
                at = 0;
            }
            if (working->is_on_disk()) parts_.on_delta({id, run, message, at, delta->text});
            at += delta->text.size();
            return {};
        };
    }
    TurnResult result = co_await agent->agent->respond(std::move(request));
    if (!result) co_return co_await after_failure(*session, run, std::move(result.error()));
    const SharedReport report = make_report(run, *std::move(result));
    const Seq as_of = state.last_seq;
    const bool more = state.run_is_open() && !state.is_parked();
    if (Result<void> there = co_await (*session)->until_it_arrives(); !there) {
        co_return co_await after_failure(*session, run, TurnError(there.error()));
    }
    tell(report, as_of);
    co_return more;
}

Task<bool> RunDriver::after_failure(std::shared_ptr<DurableSession> session, RunId run,
                                    TurnError error) {
    const SessionId id = session->id();
    (void)co_await session->until_it_arrives();
    const StoreHealth health = parts_.store->health();
    // As the log has it: what the session knows beyond that was refused.
    const auto stored = parts_.store->load(id);
    const bool is_open = stored && (*stored)->run_is_open() && (*stored)->run->run_id == run &&
                         !(*stored)->is_parked();
    const bool stopped = error.kind == ErrorKind::cancelled;
    const bool put_off = is_open && !stopped && (health.full || is_passing(error));
    const std::string_view event = put_off ? "run.put_off" : stopped ? "run.stopped" : "run.failed";
    parts_.env.log.info(event, {{"session", id.text()},
                                {"run", run.text()},
                                {"reason", error.reason},
                                {"error", error.message}});
    if (put_off) {
        cache_.erase(id);
        drive_later(id);
        co_return false;
    }
    if (stopped) {
        cache_.erase(id);
        tell(id, run);
        co_return !closing_;
    }
    bool more = health.accepting;  // else it would be driven for ever
    if (more && is_open) {
        // It failed before it was a turn of the session's.
        Error why = error;
        more = co_await fail(session, std::move(why));
    }
    tell(make_report(run, error), session->state().last_seq);
    co_return more;
}

void RunDriver::drive_later(const SessionId& session) {
    if (closing_) return;
    left_.insert(session);
    if (left_.size() == 1) wait_for_store();
}

// A run that went on before the store takes its records would ask the model for nothing.
void RunDriver::wait_for_store() {
    look_again_.expires_after(kDriveAgain);
    look_again_.async_wait([this](const boost::system::error_code& ended) {
        if (ended) return;
        if (parts_.store->health().full) return wait_for_store();
        for (const SessionId& one : std::exchange(left_, {}))
            drive(one);
    });
}

Task<bool> RunDriver::fail(std::shared_ptr<DurableSession> session, Error error) {
    (void)co_await session->interrupted();  // the run is this turn's now
    const Result<void> noted = co_await session->turn_failed(error);
    if (noted) co_return true;
    parts_.env.log.error("run.not_failed",
                         {{"session", session->id().text()}, {"error", noted.error().message}});
    co_return false;
}

// ---- who waits for a run --------------------------------------------------------------------

void RunDriver::tell(const SharedReport& report, Seq as_of) {
    const auto found = waiters_.find(report->run_id);
    if (found == waiters_.end()) return;
    Waiters called;
    std::erase_if(found->second, [&](std::shared_ptr<Waiter>& waiter) {
        if (waiter->after > as_of || !waiter->waits_for(*report)) return false;
        called.push_back(std::move(waiter));
        return true;
    });
    if (found->second.empty()) waiters_.erase(found);
    call(called, report);
}

void RunDriver::call(const Waiters& called, const Result<SharedReport>& report) {
    for (const std::shared_ptr<Waiter>& waiter : called) {
        waiter->patience.cancel();
        std::exchange(waiter->go_on, nullptr)(report);
    }
}

void RunDriver::tell(const SessionId& session, const RunId& run) {
    if (!waiters_.contains(run)) return;
    const Result<SharedReport> report = read_report(*parts_.store, session, run);
    if (!report) return give_up_on(run, report.error());
    if (*report) tell(*report, std::numeric_limits<Seq>::max());
}

void RunDriver::give_up_on(const RunId& run, const Error& error) {
    const auto waiting = waiters_.extract(run);
    call(waiting.mapped(), error);
}

void RunDriver::lose_patience(const RunId& run, const std::shared_ptr<Waiter>& waiter) {
    const auto left = waiters_.find(run);
    if (left == waiters_.end() || std::erase(left->second, waiter) == 0) return;
    if (left->second.empty()) waiters_.erase(left);
    call({waiter}, SharedReport());
}

Task<Result<SharedReport>> RunDriver::wait(SessionId session, RunId run, Seq after,
                                           Milliseconds time, std::stop_token gone, Until until) {
    auto waiter = std::make_shared<Waiter>(parts_.loop, after, until);
    const auto handle = handles_.find(session);
    bool under_way = handle != handles_.end() && handle->second->run == run;
    if (handle != handles_.end() && handle->second->run.empty()) {
        under_way = run_to_drive(session) == run;  // in line, for this run or for a later one
    }
    if (!under_way) {
        Result<SharedReport> report = read_report(*parts_.store, session, run);
        if (!report || (*report && waiter->waits_for(**report))) co_return report;
    }
    waiters_[run].push_back(waiter);
    waiter->patience.expires_after(time);
    waiter->patience.async_wait([this, run, waiter](const boost::system::error_code& cancelled) {
        if (!cancelled) lose_patience(run, waiter);
    });
    const auto leave = [this, run, waiter = std::weak_ptr(waiter)] {
        asio::post(parts_.loop, [this, run, waiter] {
            if (const auto left = waiter.lock()) lose_patience(run, left);
        });
    };
    const std::stop_callback left(std::move(gone), leave);
    // The waiter holds this coroutine, not the other way round as well.
    auto start = [waiter = std::move(waiter)](auto handler) mutable {
        std::exchange(waiter, nullptr)->go_on =
            [handler = std::move(handler)](Result<SharedReport> report) mutable {
                std::move(handler)(std::move(report));
            };
    };
    auto called = asio::async_initiate<const asio::use_awaitable_t<>, void(Result<SharedReport>)>(
        std::move(start), asio::use_awaitable);
    co_return co_await std::move(called);
}

void RunDriver::Handle::begun() {
    begin = nullptr;
    for (const auto& patience : std::exchange(wait_for_begin, {}))
        patience->cancel();
}

Task<bool> RunDriver::until_begun(SessionId session, Milliseconds time, std::stop_token gone) {
    const auto found = handles_.find(session);
    if (found == handles_.end() || !found->second->begin) co_return false;
    const std::shared_ptr<Handle> handle = found->second;
    const auto patience = std::make_shared<asio::steady_timer>(parts_.loop, time);
    handle->wait_for_begin.push_back(patience);
    const auto leave = [loop = parts_.loop, patience] {
        asio::post(loop, [patience] { patience->cancel(); });
    };
    const std::stop_callback left(std::move(gone), leave);
    (void)co_await patience->async_wait(asio::as_tuple(asio::use_awaitable));
    co_return !handle->begin;
}

Task<void> RunDriver::shut_down(Milliseconds grace) {
    closing_ = true;
    look_again_.cancel();
    for (const SessionId& session : queue_) {
        for (const auto& patience : handles_.at(session)->wait_for_begin)
            patience->cancel();
        handles_.erase(session);
    }
    queue_.clear();
    if (in_flight_ > 0) {
        all_done_.expires_after(grace);
        (void)co_await all_done_.async_wait(asio::as_tuple(asio::use_awaitable));
    }
    for (const auto& [session, handle] : handles_)
        handle->stop.request_stop();
    while (in_flight_ > 0) {
        all_done_.expires_at(asio::steady_timer::time_point::max());
        (void)co_await all_done_.async_wait(asio::as_tuple(asio::use_awaitable));
    }
    for (const auto& [run, waiters] : std::exchange(waiters_, {}))
        call(waiters, SharedReport());
}

}  // namespace rouse
