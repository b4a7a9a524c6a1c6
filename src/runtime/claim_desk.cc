#include "runtime/claim_desk.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace rouse {

namespace asio = boost::asio;

std::vector<PendingId> ClaimDesk::candidates(const ClaimRequest& request) {
    const std::shared_ptr<const Catalogue> catalogue = registry_.catalogue();
    PendingFilter filter;
    filter.status = PendingStatus::waiting;
    filter.limit = std::numeric_limits<std::size_t>::max();
    std::vector<PendingId> found;
    for (const OpenPending& open : store_->pending(filter)) {
        if (open.call.waits_for != WaitsFor::external) continue;
        const bool wanted = request.tools.empty() ||
                            std::ranges::find(request.tools, open.call.tool) != request.tools.end();
        const ToolDefinition* tool = catalogue->find_tool(open.call.tool);
        if (!wanted || (tool != nullptr && tool->settled_by != SettledBy::worker)) continue;
        if (request.may_see && !request.may_see(open.session)) continue;
        found.push_back(open.call.pending_id);
    }
    return found;
}

Task<Result<std::vector<PendingId>>> ClaimDesk::claim(ClaimRequest request) {
    const auto patience = std::make_shared<asio::steady_timer>(loop_, request.wait);
    const auto until = patience->expiry();
    // On the loop, where nobody is between looking and waiting.
    const auto wake = [loop = loop_, patience] {
        asio::post(loop, [patience] { patience->cancel(); });
    };
    const std::stop_callback woken(request.gone, wake);
    std::vector<PendingId> claimed;
    for (;;) {
        const std::uint64_t seen = calls_;
        for (const PendingId& id : candidates(request)) {
            const Result<Reply> leased =
                co_await coordinator_.claim(id, request.worker, request.lease);
            if (leased) claimed.push_back(id);
            if (!leased && leased.error().kind == ErrorKind::unavailable) co_return leased.error();
            if (claimed.size() >= request.max) break;
        }
        if (!claimed.empty() || closed_ || asio::steady_timer::clock_type::now() >= until)
            co_return claimed;
        // What came while others were faster with the calls above is among the next ones.
        if (calls_ == seen && !request.gone.stop_requested()) {
            patience->expires_at(until);
            waiting_.push_back(patience);
            (void)co_await patience->async_wait(asio::as_tuple(asio::use_awaitable));
            std::erase(waiting_, patience);
        }
        if (request.gone.stop_requested()) co_return claimed;
    }
}

void ClaimDesk::close() {
    closed_ = true;
    call_waits();
}

void ClaimDesk::call_waits() {
    ++calls_;
    for (const auto& timer : waiting_)
        timer->cancel();
}

}  // namespace rouse
