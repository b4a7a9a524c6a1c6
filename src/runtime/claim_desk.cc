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

PendingFilter ClaimDesk::filter_of(const ClaimRequest& request) const {
    PendingFilter filter;
    filter.status = PendingStatus::waiting;
    filter.waits_for = WaitsFor::external;
    filter.tasks = request.tasks;
    filter.takes_tool = [catalogue = registry_.catalogue(),
                         wanted = request.tools](std::string_view name) {
        const bool is_wanted = wanted.empty() || std::ranges::find(wanted, name) != wanted.end();
        if (!is_wanted || name.empty()) return false;
        const ToolDefinition* tool = catalogue->find_tool(std::string(name));
        return tool == nullptr || tool->settled_by == SettledBy::worker;
    };
    return filter;
}

Task<Result<void>> ClaimDesk::take(const ClaimRequest& request, PendingFilter filter,
                                   Worker& worker) {
    constexpr std::size_t kSpare = 8;  // others may be faster with the first ones
    filter.limit = request.max + kSpare;
    for (;;) {
        const std::vector<OpenPending> calls = store_->pending(filter);
        for (const OpenPending& open : calls) {
            const PendingId& id = filter.after = open.call.pending_id;
            const Result<Reply> leased = co_await coordinator_.claim(
                id, request.worker, request.lease, Coordinator::Claim::fresh);
            if (leased) worker.claimed.push_back(id);
            if (!leased && leased.error().kind == ErrorKind::unavailable) co_return leased.error();
            if (worker.claimed.size() >= request.max) co_return Result<void>();
        }
        if (calls.size() < filter.limit) co_return Result<void>();
    }
}

Task<Result<std::vector<PendingId>>> ClaimDesk::claim(ClaimRequest request) {
    const auto worker = std::make_shared<Worker>(loop_, request.wait);
    // On the loop, where nobody is between looking and waiting.
    const auto wake = [loop = loop_, worker] {
        asio::post(loop, [worker] { worker->called.cancel(); });
    };
    const std::stop_callback woken(request.gone, wake);
    const AtTheDesk here(workers_, *worker);
    Result<void> taken = co_await take(request, filter_of(request), *worker);
    for (;;) {
        if (!taken) co_return taken.error();
        const bool late = asio::steady_timer::clock_type::now() >= worker->until;
        if (!worker->claimed.empty() || closed_ || late) break;
        if (request.gone.stop_requested()) break;
        if (worker->news.empty()) {
            worker->called.expires_at(worker->until);
            (void)co_await worker->called.async_wait(asio::as_tuple(asio::use_awaitable));
        }
        if (request.gone.stop_requested()) break;
        for (const SessionId& session : std::exchange(worker->news, {})) {
            PendingFilter filter = filter_of(request);
            filter.session = session;
            taken = co_await take(request, std::move(filter), *worker);
            if (!taken || worker->claimed.size() >= request.max) break;
        }
    }
    co_return std::move(worker->claimed);
}

void ClaimDesk::close() {
    closed_ = true;
    for (Worker* worker : *workers_)
        worker->called.cancel();
}

void ClaimDesk::call_waits(const SessionId& session) {
    for (Worker* worker : *workers_) {
        worker->news.push_back(session);
        worker->called.cancel();
    }
}

}  // namespace rouse
