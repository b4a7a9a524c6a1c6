#pragma once

// What must hold for a files store after any crash, as functions that say what is wrong.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "testing/commit_ledger.h"
#include "testing/crashing_fs.h"
#include "testing/store_workload.h"

namespace rouse::testing {

// One session of a store, whole.
struct SessionLog {
    SessionId id;
    std::vector<std::string> lines;
    std::vector<Record> records;
    friend bool operator==(const SessionLog&, const SessionLog&) = default;
};
Result<std::vector<SessionLog>> read_sessions(Store& store);

// W14: load, list, pending and visit_active say what the fold of each log says.
Problems check_views_agree(Store& store, const std::vector<SessionLog>& logs, const BootId& boot,
                           Timestamp now);

// After a recovery by `boot`: no run of another boot computes, each run ends at most once, each
// wait is consumed and resumed at most once, and never one without the other.
Problems check_recovered(const std::vector<SessionLog>& logs, const BootId& boot);

// How far to look at a disk.
enum class Depth : std::uint8_t {
    compare,   // open, compare with the ledger
    recover,   // and recover, compare all views, close, verify
    go_round,  // and verify beforehand, recover twice more, write the journal round, cut, compare
};

// Looks at a disk that a dead process left: everything acknowledged is there, nothing half,
// recovery puts it right once, `verify` finds nothing.
Problems check_disk(StoreWorld& world, CrashingFs& fs, Depth depth);

// ---- sweeps ---------------------------------------------------------------------------------

// One way in which a power cut can turn out.
struct CutOutcome {
    std::string name;
    DiskModel model = DiskModel::lose_unsynced;
    std::uint64_t seed = 1;
};
// All three models. The environment variable ROUSE_CRASH_SEEDS says how many subsets of unsynced
// blocks to try, 2 unless it is set.
const std::vector<CutOutcome>& cut_outcomes();

// The disk as the cut left it; `fs` stays as it is.
std::unique_ptr<CrashingFs> cut_power(const CrashingFs& fs, const CutOutcome& outcome,
                                      std::int64_t salt);

// Under a sanitizer, which looks for bad pointers, every third case will do: the release tree tries
// them all.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr std::int64_t kCaseStep = 3;
#else
inline constexpr std::int64_t kCaseStep = 1;
#endif

// Counts the cases of a sweep and says at the end how many there were. Problems fail the test; the
// first few are told with the latest operations of the file system.
class CaseCount final {
 public:
    explicit CaseCount(std::string what) : what_(std::move(what)) {}
    CaseCount(const CaseCount&) = delete;
    CaseCount& operator=(const CaseCount&) = delete;
    ~CaseCount();

    void add(const Problems& problems, const std::string& label, const CrashingFs& fs);
    std::uint64_t failures() const { return failures_; }

 private:
    std::string what_;
    std::uint64_t cases_ = 0;
    std::uint64_t failures_ = 0;
};

}  // namespace rouse::testing
