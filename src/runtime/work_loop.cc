#include "runtime/work_loop.h"

#include <chrono>

namespace rouse {
namespace {

using Steady = std::chrono::steady_clock;

// Short enough for nobody to notice, long enough for a sync to pay.
constexpr std::chrono::milliseconds kTogether{2};

bool run_ready(boost::asio::io_context& loop, Store& store) {
    const Store::Hold together(store, Store::Writer::store);
    const Steady::time_point end = Steady::now() + kTogether;
    bool ran = false;
    while (loop.poll_one() > 0) {
        ran = true;
        if (Steady::now() > end) break;
    }
    return ran;
}

}  // namespace

void run_together(boost::asio::io_context& loop, Store& store) {
    for (;;) {
        // Whoever comes to an idle loop is alone, and waits for nobody.
        while (run_ready(loop, store)) {
        }
        if (loop.run_one() == 0) return;
    }
}

}  // namespace rouse
