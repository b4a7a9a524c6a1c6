#pragma once

// The system's side of starting a program.

#include <sys/types.h>
#include <unistd.h>

#include <utility>

#include "net/process.h"

namespace rouse {

// A file descriptor with one owner.
class Descriptor final {
 public:
    Descriptor() = default;
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    ~Descriptor() {
        if (number_ >= 0) ::close(number_);
    }

    int number() const { return number_; }
    bool open() const { return number_ >= 0; }
    int release() { return std::exchange(number_, -1); }

 private:
    int number_ = -1;
};

struct Spawned {
    pid_t pid = 0;      // and its process group
    Descriptor output;  // does not block
    Descriptor errors;
    Descriptor exit;  // readable once the program has ended
};

// Errors as in run_process. Takes as long as the system needs to load the program.
Result<Spawned> spawn(const ProcessRequest& request);

}  // namespace rouse
