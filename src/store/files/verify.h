#pragma once

// Checks a data directory that nobody is using: journal, logs, chains, what the logs say, and every
// file that is derived from them. Reads everything and, unless asked to repair, writes nothing.

#include <cstdint>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/result.h"

namespace rouse {

// `damage` is lost or wrong and cannot be computed again; `stale` is a file that can be rebuilt; a
// `note` is what a crash leaves and the next opening puts right.
enum class FindingKind : std::uint8_t { damage, stale, note };

struct Finding {
    FindingKind kind = FindingKind::damage;
    std::string file;
    std::uint64_t line = 0;    // 0: the file as a whole
    std::uint64_t offset = 0;  // in bytes
    std::string what;
};

struct VerifyReport {
    std::vector<Finding> findings;
    std::uint64_t sessions = 0;
    std::uint64_t records = 0;
    std::uint64_t journal_groups = 0;
    std::vector<std::string> repaired;  // what --repair did, for people

    bool clean() const;  // nothing but notes
};

enum class VerifyMode : std::uint8_t { look, repair };

// repair cuts torn tails (keeping their bytes in damaged/), applies the journal and rebuilds index
// and views; it never changes a log below a torn tail. The report is of what is left afterwards.
//   unavailable  directory_in_use, with the process that has it
//   not_found    not a data directory
Result<VerifyReport> verify(Env env, const std::string& directory, VerifyMode mode);

}  // namespace rouse
