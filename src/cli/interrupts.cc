#include "cli/interrupts.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

namespace rouse::cli {
namespace {

sigset_t the_signals() {
    sigset_t set;
    ::sigemptyset(&set);
    ::sigaddset(&set, SIGINT);
    ::sigaddset(&set, SIGTERM);
    return set;
}

}  // namespace

InterruptSignals::InterruptSignals() {
    const sigset_t set = the_signals();
    ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
    descriptor_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

InterruptSignals::~InterruptSignals() {
    const sigset_t set = the_signals();
    struct signalfd_siginfo taken{};
    while (::read(descriptor_, &taken, sizeof taken) > 0) {
    }
    ::close(descriptor_);
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace rouse::cli
