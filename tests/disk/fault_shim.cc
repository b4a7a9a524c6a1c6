// A library to preload: the N-th file operation of a process fails, tears or kills.
//
//   FAULT_PATH=text         only operations on paths that contain this text; needed
//   FAULT_OPS=write,fsync   which operations count: write fsync fdatasync syncfs rename ftruncate
//                           fallocate open mkdir unlink (open: only when it may create)
//   FAULT_AT=N              the N-th of them, counted over all threads; 0 or absent: only count
//   FAULT_ACT=how           EIO ENOSPC SHORT TORN_KILL KILL_BEFORE KILL_AFTER
//   FAULT_STICKY=1          and every later one too
//   FAULT_NOTE=file         at the fault: "<operation> <path>"; at the end: "count <N>"
//
// It sees calls through the dynamic linker only: no static programs, no io_uring.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

enum class Act { none, fail, shorten, tear, kill_before, kill_after };

std::string_view setting(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

struct Plan {
    std::string_view path = setting("FAULT_PATH");
    std::string ops = "," + std::string(setting("FAULT_OPS")) + ",";
    long at = std::atol(setting("FAULT_AT").data());
    bool sticky = !setting("FAULT_STICKY").empty();
    std::string note = std::string(setting("FAULT_NOTE"));
    Act act = Act::none;
    int error = 0;
    std::atomic<long> count{0};

    Plan() {
        const std::string_view how = setting("FAULT_ACT");
        if (how == "EIO") act = Act::fail, error = EIO;
        if (how == "ENOSPC") act = Act::fail, error = ENOSPC;
        if (how == "SHORT") act = Act::shorten;
        if (how == "TORN_KILL") act = Act::tear;
        if (how == "KILL_BEFORE") act = Act::kill_before;
        if (how == "KILL_AFTER") act = Act::kill_after;
    }

    // By system call, so that notes are neither counted nor harmed.
    void write_note(const std::string& text) const {
        if (note.empty()) return;
        const long fd = syscall(SYS_openat, AT_FDCWD, note.c_str(),
                                O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (fd < 0) return;
        syscall(SYS_write, fd, text.data(), text.size());
        syscall(SYS_close, fd);
    }
};

// Never destroyed: threads may still work while the process ends.
Plan& plan() {
    static Plan& the_plan = *new Plan;
    return the_plan;
}

struct CountAtExit {
    ~CountAtExit() { plan().write_note("count " + std::to_string(plan().count.load()) + "\n"); }
} g_count_at_exit;

std::string path_of(int fd) {
    char path[4096];
    const std::string link = "/proc/self/fd/" + std::to_string(fd);
    const ssize_t length = readlink(link.c_str(), path, sizeof path);
    return length < 0 ? "" : std::string(path, static_cast<std::size_t>(length));
}

// What happens to this operation. Counts it when it is one of those that the plan names.
template <class PathOf>
Act decide(std::string_view op, PathOf path_of_target) {
    Plan& p = plan();
    if (p.path.empty() || p.ops.find("," + std::string(op) + ",") == std::string::npos) {
        return Act::none;
    }
    const std::string path = path_of_target();
    if (path.find(p.path) == std::string::npos) return Act::none;
    const long number = ++p.count;
    if (p.at == 0 || p.act == Act::none || number < p.at) return Act::none;
    if (number > p.at && !p.sticky) return Act::none;
    if (number == p.at) p.write_note(std::string(op) + " " + path + "\n");
    return p.act;
}

[[noreturn]] void die() {
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

// Performs `whole` as the plan says; `part` is what a short or torn operation gets done.
template <class PathOf, class Whole, class Part>
auto perform(std::string_view op, PathOf path, Whole whole, Part part) -> decltype(whole()) {
    const int saved = errno;
    const Act act = decide(op, path);
    errno = saved;
    if (act == Act::fail) {
        errno = plan().error;
        return -1;
    }
    if (act == Act::kill_before) die();
    if (act == Act::shorten) return part();
    if (act == Act::tear) {
        part();
        die();
    }
    const auto result = whole();
    if (act == Act::kill_after) die();
    return result;
}

template <class Whole>
auto on_fd(std::string_view op, int fd, Whole whole) {
    return perform(op, [fd] { return path_of(fd); }, whole, whole);
}

template <class Whole>
auto on_path(std::string_view op, const char* path, Whole whole) {
    return perform(op, [path] { return std::string(path); }, whole, whole);
}

template <class Function>
Function* next(const char* name) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

std::size_t half(std::size_t size) {
    return size > 1 ? size / 2 : size;
}

int open_file(int directory, const char* path, int flags, mode_t mode) {
    static auto* real = next<int(int, const char*, int, ...)>("openat");
    const auto whole = [&] { return real(directory, path, flags, mode); };
    return flags & O_CREAT ? on_path("open", path, whole) : whole();
}

ssize_t write_at(int fd, const void* data, std::size_t size, off_t offset) {
    static auto* real = next<ssize_t(int, const void*, std::size_t, off_t)>("pwrite");
    return perform(
        "write", [fd] { return path_of(fd); }, [&] { return real(fd, data, size, offset); },
        [&] { return real(fd, data, half(size), offset); });
}

int cut_file(int fd, off_t size) {
    static auto* real = next<int(int, off_t)>("ftruncate");
    return on_fd("ftruncate", fd, [&] { return real(fd, size); });
}

// Returns the error instead of setting errno, as posix_fallocate does.
int allocate_file(int fd, off_t offset, off_t size) {
    static auto* real = next<int(int, off_t, off_t)>("posix_fallocate");
    const int code = on_fd("fallocate", fd, [&] { return real(fd, offset, size); });
    return code == -1 ? errno : code;
}

mode_t mode_argument(int flags, va_list arguments) {
    return flags & O_CREAT ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

}  // namespace

#define SHIM extern "C" __attribute__((visibility("default")))

SHIM int open(const char* path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = mode_argument(flags, arguments);
    va_end(arguments);
    return open_file(AT_FDCWD, path, flags, mode);
}
SHIM int open64(const char* path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = mode_argument(flags, arguments);
    va_end(arguments);
    return open_file(AT_FDCWD, path, flags, mode);
}
SHIM int openat(int directory, const char* path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = mode_argument(flags, arguments);
    va_end(arguments);
    return open_file(directory, path, flags, mode);
}
SHIM ssize_t write(int fd, const void* data, std::size_t size) {
    static auto* real = next<ssize_t(int, const void*, std::size_t)>("write");
    return perform(
        "write", [fd] { return path_of(fd); }, [&] { return real(fd, data, size); },
        [&] { return real(fd, data, half(size)); });
}
SHIM ssize_t pwrite(int fd, const void* data, std::size_t size, off_t offset) {
    return write_at(fd, data, size, offset);
}
SHIM ssize_t pwrite64(int fd, const void* data, std::size_t size, off_t offset) {
    return write_at(fd, data, size, offset);
}
SHIM ssize_t writev(int fd, const iovec* parts, int count) {
    static auto* real = next<ssize_t(int, const iovec*, int)>("writev");
    static auto* one = next<ssize_t(int, const void*, std::size_t)>("write");
    return perform(
        "write", [fd] { return path_of(fd); }, [&] { return real(fd, parts, count); },
        [&] { return one(fd, parts[0].iov_base, half(parts[0].iov_len)); });
}
SHIM ssize_t pwritev(int fd, const iovec* parts, int count, off_t offset) {
    static auto* real = next<ssize_t(int, const iovec*, int, off_t)>("pwritev");
    static auto* one = next<ssize_t(int, const void*, std::size_t, off_t)>("pwrite");
    return perform(
        "write", [fd] { return path_of(fd); }, [&] { return real(fd, parts, count, offset); },
        [&] { return one(fd, parts[0].iov_base, half(parts[0].iov_len), offset); });
}
SHIM int fsync(int fd) {
    static auto* real = next<int(int)>("fsync");
    return on_fd("fsync", fd, [&] { return real(fd); });
}
SHIM int fdatasync(int fd) {
    static auto* real = next<int(int)>("fdatasync");
    return on_fd("fdatasync", fd, [&] { return real(fd); });
}
SHIM int syncfs(int fd) noexcept {
    static auto* real = next<int(int)>("syncfs");
    return on_fd("syncfs", fd, [&] { return real(fd); });
}
SHIM int ftruncate(int fd, off_t size) noexcept {
    return cut_file(fd, size);
}
SHIM int ftruncate64(int fd, off_t size) noexcept {
    return cut_file(fd, size);
}
SHIM int posix_fallocate(int fd, off_t at, off_t size) {
    return allocate_file(fd, at, size);
}
SHIM int posix_fallocate64(int fd, off_t at, off_t size) {
    return allocate_file(fd, at, size);
}
SHIM int rename(const char* from, const char* to) noexcept {
    static auto* real = next<int(const char*, const char*)>("rename");
    return on_path("rename", to, [&] { return real(from, to); });
}
SHIM int unlink(const char* path) noexcept {
    static auto* real = next<int(const char*)>("unlink");
    return on_path("unlink", path, [&] { return real(path); });
}
SHIM int mkdir(const char* path, mode_t mode) noexcept {
    static auto* real = next<int(const char*, mode_t)>("mkdir");
    return on_path("mkdir", path, [&] { return real(path, mode); });
}
