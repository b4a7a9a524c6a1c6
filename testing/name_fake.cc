#include "testing/name_fake.h"

#include <dlfcn.h>
#include <netdb.h>

#include <condition_variable>
#include <map>
#include <mutex>

#include "base/check.h"

namespace rouse::testing {
namespace {

constexpr const char* kHangs = "hangs";

struct Names {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::string, std::string> addresses;  // "": no such name
    int hanging = 0;
    bool let_go = false;
};

Names& names() {
    static Names all;
    return all;
}

}  // namespace

NameFake::NameFake() {
    const std::lock_guard lock(names().mutex);
    names().let_go = false;
}

NameFake::~NameFake() {
    std::unique_lock lock(names().mutex);
    names().addresses.clear();
    names().let_go = true;
    names().changed.notify_all();
    names().changed.wait(lock, [] { return names().hanging == 0; });
}

void NameFake::resolve(const std::string& name, const std::string& address) {
    const std::lock_guard lock(names().mutex);
    names().addresses[name] = address;
}

void NameFake::unknown(const std::string& name) {
    resolve(name, "");
}

void NameFake::hang(const std::string& name) {
    resolve(name, kHangs);
}

void NameFake::wait_until_asked() {
    std::unique_lock lock(names().mutex);
    names().changed.wait(lock, [] { return names().hanging > 0; });
}

}  // namespace rouse::testing

// Stands before the C library's for everything in this program.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints,
                           addrinfo** result) {
    using rouse::testing::names;
    using Function = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
    static const auto next = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "getaddrinfo"));
    ROUSE_CHECK(next != nullptr, "there is no getaddrinfo");
    std::string address;
    {
        std::unique_lock lock(names().mutex);
        const auto known = names().addresses.find(node == nullptr ? "" : node);
        if (known == names().addresses.end()) {
            lock.unlock();
            return next(node, service, hints, result);
        }
        address = known->second;
        if (address == rouse::testing::kHangs) {
            ++names().hanging;
            names().changed.notify_all();
            names().changed.wait(lock, [] { return names().let_go; });
            --names().hanging;
            names().changed.notify_all();
            return EAI_AGAIN;
        }
    }
    return address.empty() ? EAI_NONAME : next(address.c_str(), service, hints, result);
}
