#pragma once

// Calls that took longer than their turn waits for them: they run on by themselves, their session
// parks, and their end settles the pending call. They live in this process and die with it; the
// next boot finds them in the log.
//
// On the loop of the runs, by one thread.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>

#include "base/env.h"
#include "domain/wait_rules.h"
#include "rouse/tool.h"

namespace rouse {

class DetachedCalls final {
 public:
    using Settle = std::function<Task<Result<void>>(PendingId, Settlement)>;

    DetachedCalls(Logger& log, boost::asio::any_io_executor loop, Settle settle);

    // A tool that calls `inner` and gives it so long before it detaches it. The desk outlives it.
    std::shared_ptr<Tool> wrap(std::shared_ptr<Tool> inner, Milliseconds after);

    // Somebody else settled or cancelled the call: whatever runs for it stops.
    void stop(const PendingId& id);
    // The call's end is in its log.
    void ended(const PendingId& id);
    // Gives those that run `grace` to come to an end, then stops them.
    Task<void> shut_down(Milliseconds grace);

 private:
    struct Job;
    class DetachingTool;

    Task<ToolOutcome> run(std::shared_ptr<Tool> inner, ToolCall call, Milliseconds after);
    Task<void> settle(std::shared_ptr<Job> job);
    // Of what answered in its turn, if the turn could not write that down.
    Task<void> settle_if_left(std::shared_ptr<Job> job);
    void bring_in(const std::shared_ptr<Job>& job, Task<void> settling);
    void remove(const Job& job);

    Logger& log_;
    boost::asio::any_io_executor loop_;
    Settle settle_;
    std::map<PendingId, std::shared_ptr<Job>> jobs_;
    boost::asio::steady_timer all_done_;
};

}  // namespace rouse
