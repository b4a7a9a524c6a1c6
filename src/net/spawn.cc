#include "net/spawn.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <system_error>

namespace rouse {
namespace {

using Environment = std::vector<std::pair<std::string, std::string>>;

// What the child could not do, as it writes it into its report.
enum class Step : std::uint8_t { prepare, change_directory, execute };
struct Failure {
    Step step;
    int error;
};

// All the child needs, ready: between vfork and exec it may not even allocate.
struct Plan {
    const char* path;
    const char* working_dir;
    char* const* argv;
    char* const* environment;
    int standard[3];
    int report;
    pid_t parent;
};

Error failed(std::string_view what, int error) {
    return {ErrorKind::io, "spawn_failed",
            std::string(what) + ": " + std::generic_category().message(error)};
}

[[noreturn]] void give_up(const Plan& plan, Step step) {
    const Failure failure{step, errno};
    (void)!::write(plan.report, &failure, sizeof failure);
    ::_exit(127);
}

// The child, in the parent's memory: nothing but system calls.
[[noreturn]] void become(const Plan& plan) {
    struct sigaction plain{};
    plain.sa_handler = SIG_DFL;
    for (int number = 1; number < NSIG; ++number)
        ::sigaction(number, &plain, nullptr);
    if (::setsid() < 0 || ::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) give_up(plan, Step::prepare);
    if (::getppid() != plan.parent) ::_exit(127);  // it died before that took hold
    for (int i = 0; i < 3; ++i) {
        if (::dup2(plan.standard[i], i) < 0) give_up(plan, Step::prepare);
    }
    if (::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0) give_up(plan, Step::prepare);
    if (plan.working_dir != nullptr && ::chdir(plan.working_dir) != 0) {
        give_up(plan, Step::change_directory);
    }
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execve(plan.path, plan.argv, plan.environment);
    give_up(plan, Step::execute);
}

// vfork, because a fork copies the page tables of a server with gigabytes. No signal may find the
// child with the parent's handlers.
pid_t start_child(const Plan& plan) {
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    const pid_t child = ::vfork();  // NOLINT: posix_spawn has no place for the death signal
    if (child == 0) become(plan);
    const int error = errno;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    errno = error;
    return child;
}

// Never 0, 1 or 2, which the child gets anew.
Descriptor above_standard(int number) {
    Descriptor low(number);
    if (number < 0 || number > 2) return low;
    return Descriptor(::fcntl(number, F_DUPFD_CLOEXEC, 3));
}

struct Pipe {
    Descriptor reading;
    Descriptor writing;
    bool open() const { return reading.open() && writing.open(); }
};

Pipe make_pipe() {
    int ends[2] = {-1, -1};
    if (::pipe2(ends, O_CLOEXEC) != 0) return {};
    return {above_standard(ends[0]), above_standard(ends[1])};
}

// The input as a file: no writer that waits, no SIGPIPE from a program that does not read it.
Result<Descriptor> make_input(std::string_view bytes) {
    Descriptor file = above_standard(::memfd_create("input", MFD_CLOEXEC));
    if (!file.open()) return failed("the program's input", errno);
    while (!bytes.empty()) {
        const ssize_t count = ::write(file.number(), bytes.data(), bytes.size());
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return failed("the program's input", errno);
        bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    if (::lseek(file.number(), 0, SEEK_SET) != 0) return failed("the program's input", errno);
    return file;
}

Environment whole_environment(const Environment& given) {
    Environment all = given;
    for (const char* name : {"PATH", "HOME", "LANG"}) {
        const char* value = std::getenv(name);
        const bool replaced =
            std::ranges::find(given, name, &Environment::value_type::first) != given.end();
        if (value != nullptr && !replaced) all.emplace_back(name, value);
    }
    return all;
}

bool is_program(const std::string& path) {
    struct stat info{};
    return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
           ::access(path.c_str(), X_OK) == 0;
}

// Absolute folders of PATH only: which program runs must not hang on where we stand.
Result<std::string> find_program(const std::string& name, const Environment& environment) {
    if (name.contains('/')) return name;
    const auto found = std::ranges::find(environment, "PATH", &Environment::value_type::first);
    std::string_view folders = "/usr/bin:/bin";
    if (found != environment.end()) folders = found->second;
    while (!folders.empty()) {
        const std::string_view folder = folders.substr(0, folders.find(':'));
        folders.remove_prefix(std::min(folder.size() + 1, folders.size()));
        std::string path = std::string(folder) + "/" + name;
        if (folder.starts_with('/') && is_program(path)) return path;
    }
    return Error(ErrorKind::not_found, "command_not_found",
                 "there is no program " + name + " in PATH");
}

Result<void> check(const ProcessRequest& request) {
    const auto bad = [](const std::string& text) { return text.contains('\0'); };
    bool wrong = request.argv.empty() || request.argv.front().empty() || bad(request.working_dir) ||
                 std::ranges::any_of(request.argv, bad);
    for (const auto& [name, value] : request.environment)
        wrong = wrong || name.empty() || name.contains('=') || bad(name) || bad(value);
    if (!wrong) return {};
    return Error(ErrorKind::invalid, "invalid_command",
                 "a program needs a name, and its arguments and environment must have no NUL");
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
    std::vector<char*> pointers;
    pointers.reserve(texts.size() + 1);
    for (std::string& text : texts)
        pointers.push_back(text.data());
    pointers.push_back(nullptr);
    return pointers;
}

Error refusal(const Failure& failure, const ProcessRequest& request) {
    const bool missing = failure.error == ENOENT || failure.error == ENOTDIR;
    if (failure.step == Step::change_directory && missing) {
        return {ErrorKind::not_found, "working_dir_not_found",
                "there is no folder " + request.working_dir};
    }
    if (failure.step == Step::execute && missing) {
        return {ErrorKind::not_found, "command_not_found",
                "there is no program " + request.argv.front()};
    }
    return failed("cannot run " + request.argv.front(), failure.error);
}

// The report ends without a word when the program has taken over.
Result<void> read_report(int report, const ProcessRequest& request) {
    Failure failure{};
    ssize_t count = 0;
    do {
        count = ::read(report, &failure, sizeof failure);
    } while (count < 0 && errno == EINTR);
    if (count == 0) return {};
    return refusal(failure, request);
}

}  // namespace

Result<Spawned> spawn(const ProcessRequest& request) {
    if (Result<void> fits = check(request); !fits) return fits.error();
    const Environment environment = whole_environment(request.environment);
    const Result<std::string> path = find_program(request.argv.front(), environment);
    if (!path) return path.error();
    std::vector<std::string> arguments = request.argv;
    std::vector<std::string> variables;
    for (const auto& [name, value] : environment)
        variables.emplace_back(name).append("=").append(value);
    const std::vector<char*> argv = pointers_to(arguments);
    const std::vector<char*> envp = pointers_to(variables);

    const Result<Descriptor> input = make_input(request.input);
    if (!input) return input.error();
    Pipe output = make_pipe();
    Pipe errors = make_pipe();
    Pipe report = make_pipe();
    if (!output.open() || !errors.open() || !report.open()) return failed("a pipe", errno);
    ::fcntl(output.reading.number(), F_SETFL, O_NONBLOCK);
    ::fcntl(errors.reading.number(), F_SETFL, O_NONBLOCK);

    Plan plan{};
    plan.path = path->c_str();
    plan.working_dir = request.working_dir.empty() ? nullptr : request.working_dir.c_str();
    plan.argv = argv.data();
    plan.environment = envp.data();
    plan.standard[0] = input->number();
    plan.standard[1] = output.writing.number();
    plan.standard[2] = errors.writing.number();
    plan.report = report.writing.number();
    plan.parent = ::getpid();
    Spawned spawned;
    spawned.pid = start_child(plan);
    if (spawned.pid < 0) return failed("a process", errno);

    report.writing = Descriptor();
    Result<void> started = read_report(report.reading.number(), request);
    // glibc 2.36 declares pidfd_open for C alone.
    spawned.exit = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, spawned.pid, 0)));
    if (started && !spawned.exit.open()) started = failed("to watch the program", errno);
    if (!started) {
        ::kill(-spawned.pid, SIGKILL);
        ::waitpid(spawned.pid, nullptr, 0);
        return started.error();
    }
    spawned.output = std::move(output.reading);
    spawned.errors = std::move(errors.reading);
    return spawned;
}

}  // namespace rouse
