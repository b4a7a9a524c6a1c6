#pragma once

// Makes ids: 48 bits of time so that they sort by age, then random bytes so that nobody can guess
// them. Those of one source sort in the order in which they were made, within a millisecond too.
// Any thread may call it.

#include <atomic>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/id.h"
#include "base/random.h"
#include "base/secret.h"

namespace rouse {

class IdSource final {
 public:
    IdSource(Clock& clock, Random& random) : clock_(clock), random_(random) {}

    // A new id of any of the Id<> types: prefix, time, 10 random bytes.
    template <class AnyId>
    AnyId make() {
        return AnyId(std::string(AnyId::kPrefix) + timed_text());
    }

    // Random bytes alone, as base32: the unguessable part of an id that says elsewhere what it is.
    std::string random_text(std::size_t bytes);

    Secret secret();  // 32 random bytes

 private:
    std::string timed_text();
    std::uint64_t next_rank(std::uint64_t fresh);

    Clock& clock_;
    Random& random_;
    std::atomic<std::uint64_t> last_rank_ = 0;
};

}  // namespace rouse
