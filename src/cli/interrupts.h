#pragma once

// Ctrl-C for commands that have something to say before they end.

namespace rouse::cli {

// While it lives, SIGINT and SIGTERM make its descriptor readable instead of ending the process.
class InterruptSignals final {
 public:
    InterruptSignals();
    ~InterruptSignals();
    InterruptSignals(const InterruptSignals&) = delete;
    InterruptSignals& operator=(const InterruptSignals&) = delete;

    int descriptor() const { return descriptor_; }

 private:
    int descriptor_ = -1;
};

}  // namespace rouse::cli
