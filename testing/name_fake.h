#pragma once

// Name resolution in the hands of a test. A program that makes one of these resolves names through
// it, libcurl's included; what it does not know goes to the system.

#include <string>

namespace rouse::testing {

class NameFake final {
 public:
    NameFake();
    ~NameFake();  // lets go of what hangs, and waits until it has left
    NameFake(const NameFake&) = delete;
    NameFake& operator=(const NameFake&) = delete;

    void resolve(const std::string& name, const std::string& address);
    void unknown(const std::string& name);
    // Asking for this one blocks, as with a name server that is gone.
    void hang(const std::string& name);
    void wait_until_asked();  // for a name that hangs
};

}  // namespace rouse::testing
