#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "base/fs.h"

namespace rouse {
namespace {

Error io_error(int code, std::string_view operation, const std::string& path) {
    std::string message =
        std::string(operation) + " " + path + ": " + std::generic_category().message(code);
    if (code == ENOENT) return {ErrorKind::not_found, "no_such_file", std::move(message)};
    if (code == EEXIST) return {ErrorKind::conflict, "file_exists", std::move(message)};
    const bool full = code == ENOSPC || code == EDQUOT;
    if (full) return {ErrorKind::io, "disk_full", std::move(message)};
    const bool too_many = code == EMFILE || code == ENFILE;
    return {ErrorKind::io, too_many ? "too_many_files" : "io_error", std::move(message)};
}

Error last_error(std::string_view operation, const std::string& path) {
    return io_error(errno, operation, path);
}

Result<void> checked(int result, std::string_view operation, const std::string& path) {
    if (result != 0) return last_error(operation, path);
    return {};
}

// Whatever a sync reports, the bytes it should have saved may be gone from memory too. So it is
// never "disk_full", which would say that making room helps.
Result<void> checked_sync(int result, std::string_view operation, const std::string& path) {
    if (result == 0) return {};
    return Error(ErrorKind::io, "io_error", last_error(operation, path).message);
}

// A second descriptor of a file, past the page cache: write and sync in one call, which saves a
// copy and a wait. Not every file system has it, and then it says so.
class DirectWriter {
 public:
    DirectWriter() = default;
    DirectWriter(const DirectWriter&) = delete;
    DirectWriter& operator=(const DirectWriter&) = delete;
    ~DirectWriter() {
        if (fd_ >= 0) ::close(fd_);
    }

    // False: it cannot be done like this, go the usual way.
    Result<bool> write(int fd, std::uint64_t offset, std::string_view bytes,
                       const std::string& path) {
        if (offset % kAlignment != 0 || bytes.size() % kAlignment != 0 || bytes.empty())
            return false;
        if (state_ == State::unknown) open(fd);
        if (state_ == State::unavailable || !fill(bytes)) return false;
        const ssize_t put = ::pwrite(fd_, buffer_.get(), bytes.size(), static_cast<off_t>(offset));
        if (put == static_cast<ssize_t>(bytes.size())) return true;
        if (put >= 0) return false;
        if (errno != EINVAL)
            return Error(ErrorKind::io, "io_error", last_error("write", path).message);
        state_ = State::unavailable;
        return false;
    }

 private:
    static constexpr std::size_t kAlignment = 512;
    static constexpr std::size_t kPage = 4096;
    enum class State : std::uint8_t { unknown, open, unavailable };
    struct Free {
        void operator()(char* memory) const { std::free(memory); }  // NOLINT: from aligned_alloc
    };

    void open(int fd) {
        const std::string same = "/proc/self/fd/" + std::to_string(fd);
        fd_ = ::open(same.c_str(), O_WRONLY | O_DIRECT | O_DSYNC | O_CLOEXEC);
        state_ = fd_ >= 0 ? State::open : State::unavailable;
    }

    bool fill(std::string_view bytes) {
        if (bytes.size() > capacity_) {
            capacity_ = (bytes.size() * 2 + kPage - 1) / kPage * kPage;
            buffer_.reset(static_cast<char*>(std::aligned_alloc(kPage, capacity_)));
            if (!buffer_) capacity_ = 0;
        }
        if (!buffer_) return false;
        std::memcpy(buffer_.get(), bytes.data(), bytes.size());
        return true;
    }

    int fd_ = -1;
    State state_ = State::unknown;
    std::unique_ptr<char, Free> buffer_;
    std::size_t capacity_ = 0;
};

class RealFile final : public File {
 public:
    RealFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
    RealFile(const RealFile&) = delete;
    RealFile& operator=(const RealFile&) = delete;
    ~RealFile() override {
        if (fd_ >= 0) ::close(fd_);
    }

    Result<std::size_t> read_some_at(std::uint64_t offset, std::span<char> into) override {
        for (;;) {
            const ssize_t got = ::pread(fd_, into.data(), into.size(), static_cast<off_t>(offset));
            if (got >= 0) return static_cast<std::size_t>(got);
            if (errno != EINTR) return last_error("read", path_);
        }
    }

    Result<std::size_t> write_some_at(std::uint64_t offset, std::string_view bytes) override {
        for (;;) {
            const ssize_t put =
                ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
            if (put > 0) return static_cast<std::size_t>(put);
            if (put == 0) return io_error(EIO, "write", path_);
            if (errno != EINTR) return last_error("write", path_);
        }
    }

    Result<std::uint64_t> size() override {
        struct stat info{};
        if (::fstat(fd_, &info) != 0) return last_error("stat", path_);
        return static_cast<std::uint64_t>(info.st_size);
    }

    Result<void> truncate(std::uint64_t size) override {
        return checked(::ftruncate(fd_, static_cast<off_t>(size)), "truncate", path_);
    }

    Result<void> allocate(std::uint64_t size) override {
        const int code = ::posix_fallocate(fd_, 0, static_cast<off_t>(size));
        if (code != 0) return io_error(code, "allocate", path_);
        return {};
    }

    Result<void> write_and_sync(std::uint64_t offset, std::string_view bytes) override {
        const Result<bool> done = direct_.write(fd_, offset, bytes, path_);
        if (!done) return done.error();
        return *done ? Result<void>() : File::write_and_sync(offset, bytes);
    }

    Result<void> sync_data() override { return checked_sync(::fdatasync(fd_), "fdatasync", path_); }
    Result<void> sync() override { return checked_sync(::fsync(fd_), "fsync", path_); }

    Result<void> close() override { return checked(::close(release()), "close", path_); }

    int release() { return std::exchange(fd_, -1); }

 private:
    int fd_;
    std::string path_;
    DirectWriter direct_;
};

// flock on an open file: it belongs to the process and disappears with it, however it dies.
class RealLock final : public FileLock {
 public:
    explicit RealLock(int fd) : fd_(fd) {}
    RealLock(const RealLock&) = delete;
    RealLock& operator=(const RealLock&) = delete;
    ~RealLock() override { ::close(fd_); }

 private:
    int fd_;
};

std::string holder_of(int fd) {
    char text[32] = {};
    const ssize_t got = ::pread(fd, text, sizeof text - 1, 0);
    long pid = 0;
    if (got > 0 && std::from_chars(text, text + got, pid).ec == std::errc{}) {
        return "process " + std::to_string(pid);
    }
    return "another process";
}

int flags_of(OpenMode mode) {
    switch (mode) {
        case OpenMode::read: return O_RDONLY | O_CLOEXEC;
        case OpenMode::write: return O_RDWR | O_CLOEXEC;
        case OpenMode::create: return O_RDWR | O_CREAT | O_CLOEXEC;
        case OpenMode::create_new: return O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
    }
    return O_RDONLY | O_CLOEXEC;
}

Result<int> open_directory(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return last_error("open", path);
    return fd;
}

}  // namespace

Result<std::unique_ptr<File>> RealFs::open(const std::string& path, OpenMode mode) {
    // O_NOFOLLOW: a link in place of one of our files is somebody's trick, not ours.
    const int fd = ::open(path.c_str(), flags_of(mode) | O_NOFOLLOW, 0600);
    if (fd < 0) return last_error("open", path);
    return std::make_unique<RealFile>(fd, path);
}

Result<FileStatus> RealFs::status(const std::string& path) {
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) return last_error("stat", path);
    return FileStatus{static_cast<std::uint64_t>(info.st_size), S_ISDIR(info.st_mode)};
}

Result<std::vector<std::string>> RealFs::list(const std::string& directory) {
    DIR* dir = ::opendir(directory.c_str());
    if (dir == nullptr) return last_error("list", directory);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(dir)) {
        const std::string_view name = entry->d_name;
        if (name != "." && name != "..") names.emplace_back(name);
    }
    const int code = errno;
    ::closedir(dir);
    if (code != 0) return io_error(code, "list", directory);
    std::ranges::sort(names);
    return names;
}

Result<void> RealFs::make_directory(const std::string& path) {
    if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
    return last_error("make directory", path);
}

Result<void> RealFs::rename(const std::string& from, const std::string& to) {
    return checked(::rename(from.c_str(), to.c_str()), "rename to", to);
}

Result<void> RealFs::remove(const std::string& path) {
    return checked(::unlink(path.c_str()), "remove", path);
}

Result<void> RealFs::sync_directory(const std::string& path) {
    const Result<int> fd = open_directory(path);
    if (!fd) return fd.error();
    const Result<void> synced = checked_sync(::fsync(*fd), "fsync", path);
    ::close(*fd);
    return synced;
}

namespace {

// The kernel tells each open descriptor of an error once; a later one is not told of errors that
// somebody has seen.
class RealFileSystem final : public FileSystem {
 public:
    RealFileSystem(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
    RealFileSystem(const RealFileSystem&) = delete;
    RealFileSystem& operator=(const RealFileSystem&) = delete;
    ~RealFileSystem() override { ::close(fd_); }
    Result<void> sync() override { return checked_sync(::syncfs(fd_), "syncfs", path_); }

 private:
    int fd_;
    std::string path_;
};

}  // namespace

Result<std::unique_ptr<FileSystem>> RealFs::file_system(const std::string& path) {
    const Result<int> fd = open_directory(path);
    if (!fd) return fd.error();
    return std::make_unique<RealFileSystem>(*fd, path);
}

Result<void> RealFs::sync_file_system(const std::string& path) {
    const Result<std::unique_ptr<FileSystem>> one = file_system(path);
    return one ? (*one)->sync() : one.error();
}

namespace {

// A child of a killed holder may keep the lock for the moment between its fork and its exec, so one
// whose holder is gone is waited for.
int take_lock(int fd) {
    constexpr int kTries = 200;
    constexpr timespec kPause{0, 10'000'000};
    for (int tries = 0;; ++tries) {
        if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return 0;
        const int code = errno;
        char text[32] = {};
        const ssize_t length = ::pread(fd, text, sizeof text - 1, 0);
        const pid_t holder = length > 0 ? static_cast<pid_t>(std::atoi(text)) : 0;
        const bool gone = holder > 0 && ::kill(holder, 0) != 0 && errno == ESRCH;
        if (code != EWOULDBLOCK || !gone || tries == kTries) return code;
        ::nanosleep(&kPause, nullptr);
    }
}

}  // namespace

Result<std::unique_ptr<FileLock>> RealFs::lock(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return last_error("open", path);
    if (const int code = take_lock(fd); code != 0) {
        const std::string holder = holder_of(fd);
        ::close(fd);
        if (code != EWOULDBLOCK) return io_error(code, "lock", path);
        return Error(ErrorKind::unavailable, "directory_in_use",
                     parent_directory(path) + " is in use by " + holder +
                         "; stop it first, or choose another directory");
    }
    // The pid is for whoever finds the directory in use; the lock itself is what counts.
    RealFile file(fd, path);
    Result<void> noted = file.truncate(0);
    if (noted) noted = file.write_at(0, std::to_string(::getpid()) + "\n");
    if (!noted) return noted.error();
    return std::make_unique<RealLock>(file.release());
}

}  // namespace rouse
