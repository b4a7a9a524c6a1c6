#pragma once

// The file system as an interface, so that a test can stand in for a disk that fails, fills up or
// loses power. It offers what a durable store needs and nothing that hides an error.
//
// Paths are plain strings with '/'. Directories are made 0700, files 0600. Every failure is
// ErrorKind::io with reason "disk_full" (ENOSPC, EDQUOT), "too_many_files" (EMFILE, ENFILE: nothing
// was opened and nothing changed) or "io_error", but not_found for a missing path and conflict for
// a name that is taken; the message names operation and path. A sync never fails with "disk_full":
// what it should have saved may be lost already, whatever room there is later.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace rouse {

enum class OpenMode : std::uint8_t {
    read,       // must exist
    write,      // must exist, for reading and writing
    create,     // for reading and writing; made when missing
    create_new  // for reading and writing; conflict, reason "file_exists", when the name is taken
};

// An open file. Not for two threads at once.
class File {
 public:
    virtual ~File() = default;

    // What a system call would do: may be short. 0 only at the end of the file.
    virtual Result<std::size_t> read_some_at(std::uint64_t offset, std::span<char> into) = 0;
    virtual Result<std::size_t> write_some_at(std::uint64_t offset, std::string_view bytes) = 0;

    virtual Result<std::uint64_t> size() = 0;
    virtual Result<void> truncate(std::uint64_t size) = 0;
    // Reserves the blocks, so that writing below `size` cannot meet a full disk.
    virtual Result<void> allocate(std::uint64_t size) = 0;
    virtual Result<void> sync_data() = 0;  // fdatasync: the bytes and the size
    virtual Result<void> sync() = 0;       // fsync
    // Reports what a delayed write found. The destructor closes too, and tells nobody.
    virtual Result<void> close() = 0;

    // write_at and sync_data, or a shorter way to the same end.
    virtual Result<void> write_and_sync(std::uint64_t offset, std::string_view bytes);

    Result<void> write_at(std::uint64_t offset, std::string_view bytes);
    // Up to `length` bytes, fewer only at the end of the file.
    Result<std::string> read_at(std::uint64_t offset, std::uint64_t length);
};

// Held while one process owns a directory; gone with the process.
class FileLock {
 public:
    virtual ~FileLock() = default;
};

struct FileStatus {
    std::uint64_t size = 0;
    bool directory = false;
};

// A file system from now on: a sync reports all that goes wrong until then, whoever else syncs it
// meanwhile and sees it first.
class FileSystem {
 public:
    virtual ~FileSystem() = default;
    virtual Result<void> sync() = 0;
};

class Fs {
 public:
    virtual ~Fs() = default;

    virtual Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) = 0;
    virtual Result<FileStatus> status(const std::string& path) = 0;
    virtual Result<std::vector<std::string>> list(const std::string& directory) = 0;  // sorted
    virtual Result<void> make_directory(const std::string& path) = 0;  // fine if it is there
    virtual Result<void> rename(const std::string& from, const std::string& to) = 0;
    virtual Result<void> remove(const std::string& path) = 0;
    virtual Result<void> sync_directory(const std::string& path) = 0;
    // Everything written so far to the file system that holds `path`, names included.
    virtual Result<void> sync_file_system(const std::string& path) = 0;
    // The one that holds `path`.
    virtual Result<std::unique_ptr<FileSystem>> file_system(const std::string& path);
    // unavailable, reason "directory_in_use", when another process holds it: names its pid.
    virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path) = 0;

    Result<std::string> read_file(const std::string& path);
    // A new file, whatever had the name. Never the leftover of an interrupted rename: after a crash
    // both names may lead to the same bytes, and emptying them would lose what is to be replaced.
    Result<std::unique_ptr<File>> make_file(const std::string& path);
    // Temp file in the same directory, fsync, rename, fsync of the directory: after a crash the
    // old content or the new one.
    Result<void> replace_file(const std::string& path, std::string_view content);
    // The same without the syncs, for what can be rebuilt.
    Result<void> replace_view(const std::string& path, std::string_view content);
    // For a view that is not there yet: one file is made instead of one and a name.
    Result<void> make_view(const std::string& path, std::string_view content);
};

// "/a/b.json" → "/a"
std::string parent_directory(const std::string& path);

class RealFs final : public Fs {
 public:
    Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override;
    Result<FileStatus> status(const std::string& path) override;
    Result<std::vector<std::string>> list(const std::string& directory) override;
    Result<void> make_directory(const std::string& path) override;
    Result<void> rename(const std::string& from, const std::string& to) override;
    Result<void> remove(const std::string& path) override;
    Result<void> sync_directory(const std::string& path) override;
    Result<void> sync_file_system(const std::string& path) override;
    Result<std::unique_ptr<FileSystem>> file_system(const std::string& path) override;
    Result<std::unique_ptr<FileLock>> lock(const std::string& path) override;
};

}  // namespace rouse
