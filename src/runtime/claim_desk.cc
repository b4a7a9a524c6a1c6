#include "runtime/claim_desk.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace rouse {

namespace asio = boost::asio;

class ClaimDesk::AtTheDesk {
 public:
    AtTheDesk(std::shared_ptr<Workers> workers, Worker& worker)
        : workers_(std::move(workers)), worker_(worker) {
        workers_->push_back(&worker_);
    }
    AtTheDesk(const AtTheDesk&) = delete;
    AtTheDesk& operator=(const AtTheDesk&) = delete;
    ~AtTheDesk() { std::erase(*workers_, &worker_); }

 private:
    std::shared_ptr<Workers> workers_;
    Worker& worker_;
};

void ClaimDesk::follow_catalogue() {
    std::shared_ptr<const Catalogue> catalogue = registry_.catalogue();
    if (catalogue == catalogue_) return;
    catalogue_ = std::move(catalogue);
    searched_.forget();
    for (Worker* worker : *workers_)
        worker->wants = filter_of(worker->request);
}

PendingFilter ClaimDesk::filter_of(const ClaimRequest& request) const {
    constexpr std::size_t kSpare = 8;  // others may be faster with the first ones
    PendingFilter filter;
    filter.status = PendingStatus::waiting;
    filter.waits_for = WaitsFor::external;
    filter.tasks = request.tasks;
    filter.limit = request.max + kSpare;
    filter.takes_tool = [catalogue = catalogue_, wanted = request.tools](std::string_view name) {
        const bool is_wanted = wanted.empty() || std::ranges::find(wanted, name) != wanted.end();
        if (!is_wanted || name.empty()) return false;
        const ToolDefinition* tool = catalogue->find_tool(std::string(name));
        return tool == nullptr || tool->settled_by == SettledBy::worker;
    };
    return filter;
}

bool ClaimDesk::wants_any(const Worker& worker, const std::vector<OpenPending>& calls) const {
    const std::vector<std::string>& tasks = worker.wants.tasks;
    const bool of_its_tasks =
        tasks.empty() ||
        std::ranges::find(tasks, store_->task_of(calls.front().session)) != tasks.end();
    return of_its_tasks && std::ranges::any_of(calls, [&](const OpenPending& open) {
               return worker.wants.takes_tool(open.call.tool);
           });
}

Task<Result<void>> ClaimDesk::take(PendingFilter filter, std::vector<OpenPending> found,
                                   Worker& worker) {
    const ClaimRequest& request = worker.request;
    for (;;) {
        for (const OpenPending& open : found) {
            const PendingId& id = filter.after = open.call.pending_id;
            const Result<Reply> leased = co_await coordinator_.claim(
                id, request.worker, request.lease, Coordinator::Claim::fresh);
            if (leased) worker.claimed.push_back(id);
            if (!leased && leased.error().kind == ErrorKind::unavailable) co_return leased.error();
            if (worker.claimed.size() >= request.max) co_return Result<void>();
        }
        if (found.size() < filter.limit) co_return Result<void>();
        found = store_->pending(filter);
    }
}

Task<Result<void>> ClaimDesk::look_around(Worker& worker) {
    const std::vector<std::string>& tools = worker.request.tools;
    const SearchedCalls::Time now = SearchedCalls::Clock::now();
    const std::optional<SessionId> from = searched_.where_to_look(tools, now);
    if (!from) co_return Result<void>();
    PendingFilter filter = worker.wants;
    filter.from = *from;
    std::vector<OpenPending> found = store_->pending(filter);
    if (filter.tasks.empty()) {
        searched_.looked(tools, found.empty() ? std::nullopt : std::optional(found.front().session),
                         now);
    }
    co_return co_await take(std::move(filter), std::move(found), worker);
}

Task<Result<std::vector<PendingId>>> ClaimDesk::claim(ClaimRequest request) {
    const auto worker = std::make_shared<Worker>(loop_, std::move(request));
    const std::stop_token gone = worker->request.gone;
    // On the loop, where nobody is between looking and waiting.
    const auto wake = [loop = loop_, worker] {
        asio::post(loop, [worker] { worker->called.cancel(); });
    };
    const std::stop_callback woken(gone, wake);
    follow_catalogue();
    worker->wants = filter_of(worker->request);
    const AtTheDesk here(workers_, *worker);
    Result<void> taken = co_await look_around(*worker);
    for (;;) {
        if (!taken) co_return taken.error();
        const bool late = asio::steady_timer::clock_type::now() >= worker->until;
        if (!worker->claimed.empty() || closed_ || late) break;
        if (gone.stop_requested()) break;
        if (worker->news.empty()) {
            worker->called.expires_at(worker->until);
            (void)co_await worker->called.async_wait(asio::as_tuple(asio::use_awaitable));
        }
        if (gone.stop_requested()) break;
        for (const SessionId& session : std::exchange(worker->news, {})) {
            PendingFilter filter = worker->wants;
            filter.session = session;
            std::vector<OpenPending> found = store_->pending(filter);
            taken = co_await take(std::move(filter), std::move(found), *worker);
            if (!taken || worker->claimed.size() >= worker->request.max) break;
        }
    }
    co_return std::move(worker->claimed);
}

void ClaimDesk::close() {
    closed_ = true;
    for (Worker* worker : *workers_)
        worker->called.cancel();
}

void ClaimDesk::calls_wait(const SessionId& session) {
    if (workers_->empty() && searched_.empty()) return;
    follow_catalogue();
    PendingFilter filter;
    filter.session = session;
    filter.status = PendingStatus::waiting;
    filter.waits_for = WaitsFor::external;
    const std::vector<OpenPending> calls = store_->pending(filter);
    if (calls.empty()) return;
    for (const OpenPending& open : calls)
        searched_.comes_up(open.call.tool, session);
    for (Worker* worker : *workers_) {
        if (!wants_any(*worker, calls)) continue;
        worker->news.push_back(session);
        worker->called.cancel();
    }
}

}  // namespace rouse
