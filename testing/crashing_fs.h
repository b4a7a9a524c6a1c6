#pragma once

// A file system in memory that loses power, fails and fills up when told to, for proving that a
// durable store survives it. It is not kinder than POSIX: what no sync has covered may be gone,
// kept in part or kept in another order after a crash, and a sync covers exactly what it names.
//
//   bytes     durable by sync_data or sync of the file, in sectors of 512 bytes
//   size      durable with the bytes
//   name      durable by sync_directory of the directory that holds it; never by a sync of the file
//   all       durable by sync_file_system
//
// Every operation that changes something is counted from 1 on, and a FaultPlan names operations by
// their number, so that a test can cut or fail each one in turn. Same calls, same plan, same seeds:
// same disk. One mutex guards it all, so a store may use it from several threads.
//
// It knows plain paths ("." and doubled slashes too, but not ".."), has a root directory from the
// start, and does not rename directories.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fs.h"
#include "testing/simulated_disk.h"

namespace rouse::testing {

enum class FailCode : std::uint8_t { io_error, disk_full };

// Operations have the numbers that operations() gives: 1 for the first since the start or since
// reset_operations(). 0 is never. Counted are: open that creates or empties, write_some_at,
// truncate, allocate, sync_data, sync, sync_directory, sync_file_system, rename, remove,
// make_directory and lock that make something. Calls that are refused anyway (a missing file) and
// calls that change nothing (a directory that is there already) are not.
struct FaultPlan {
    // The power goes during this operation. Whether it has an effect is up to the seed; the disk
    // model decides how much of a cut write stays; a cut sync has none. It and every call after it
    // give io_error until restart().
    std::int64_t crash_at = 0;

    // This operation fails; nothing crashes. A failed write may have written a prefix, a failed
    // allocate may have reserved a part. A failed sync forgets what it should have written: a later
    // sync returns ok and does not make it durable, as on Linux.
    std::int64_t fail_at = 0;
    FailCode fail_code = FailCode::io_error;
    // And all later ones that can: with io_error every one, with disk_full only what needs new
    // space (not a write into what is allocated or written already, nor a sync, a remove, a rename
    // onto a name that exists).
    bool sticky = false;

    bool short_writes = false;  // write_some_at takes about half, at least one byte
    bool short_reads = false;   // read_some_at likewise

    std::uint64_t seed = 1;  // for what an operation that was cut or failed leaves behind
};

class CrashingFs final : public Fs {
 public:
    explicit CrashingFs(FaultPlan plan = {});
    ~CrashingFs() override;

    Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override;
    Result<FileStatus> status(const std::string& path) override;
    Result<std::vector<std::string>> list(const std::string& directory) override;
    Result<void> make_directory(const std::string& path) override;
    Result<void> rename(const std::string& from, const std::string& to) override;
    Result<void> remove(const std::string& path) override;
    Result<void> sync_directory(const std::string& path) override;
    Result<void> sync_file_system(const std::string& path) override;
    Result<std::unique_ptr<FileLock>> lock(const std::string& path) override;

    void set_plan(FaultPlan plan);
    std::int64_t operations() const;
    void reset_operations();
    std::int64_t failures() const;  // made by the plan so far; the cut operation is none
    bool crashed() const;           // the power is off

    // Power on again; on a running machine, pulls the plug first. Open files and locks of before
    // are dead for good, the plan is cleared, the operation count goes on.
    void restart(DiskModel model = DiskModel::lose_unsynced, std::uint64_t seed = 1);

    // kill -9 in place of a power cut: open files and locks are gone and the plan is cleared, but
    // the page cache stays, and what was not durable still is not.
    void kill_process();

    // The same disk, unsynced changes included, in a machine of its own: without plan, open files
    // and locks, at operation 0. The copy of a crashed one is crashed, so that one crash can be
    // restarted in many ways.
    std::unique_ptr<CrashingFs> copy() const;

    // Past the counting and the faults, also when crashed. As a running program would see it.
    std::map<std::string, std::string> files() const;  // absolute path → content
    std::optional<std::string> read_raw(const std::string& path) const;
    // Puts the bytes there durably, with all directories above: for making damage.
    void write_raw(const std::string& path, std::string_view bytes);

    // The latest operations, one a line, for the message of a failed test.
    std::string trace() const;

 private:
    struct Machine;
    class OpenFile;
    class HeldLock;

    // Shared, because an open file may be destroyed after the file system.
    std::shared_ptr<Machine> machine_;
};

}  // namespace rouse::testing
