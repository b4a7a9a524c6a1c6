#include "net/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <filesystem>
#include <fstream>
#include <optional>

#include "testing/run_on.h"

namespace rouse {
namespace {

namespace asio = boost::asio;
using namespace testing;

ProcessRequest shell(std::string script) {
    ProcessRequest request;
    request.argv = {"sh", "-c", std::move(script)};
    return request;
}

Result<ProcessResult> run(ProcessRequest request) {
    asio::io_context loop(1);
    return run_on(loop, run_process(std::move(request)));
}

std::string output_of(ProcessRequest request) {
    const Result<ProcessResult> result = run(std::move(request));
    if (!result) return result.error().message;
    EXPECT_EQ(result->exit_code, 0) << result->errors;
    EXPECT_EQ(result->signal, 0);
    return result->output;
}

// A folder with a pipe in it. Whoever holds the pipe's writing end is alive: its end is seen when
// the last of them is dead, and not before.
class ProcessTest : public ::testing::Test {
 protected:
    ProcessTest() {
        std::string pattern = std::filesystem::temp_directory_path() / "rouse_process_XXXXXX";
        folder_ = ::mkdtemp(pattern.data());
        EXPECT_EQ(::mkfifo(alive().c_str(), 0600), 0);
        watching_ = ::open(alive().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    }
    ~ProcessTest() override {
        ::close(watching_);
        std::filesystem::remove_all(folder_);
    }
    std::string alive() const { return folder_ + "/alive"; }

    // Opens the pipe in this shell and all it starts, and says so.
    std::string holding(const std::string& script) const {
        return "exec 3>" + alive() + "; echo up >&3; " + script;
    }

    // False: somebody still lives. The limit only bounds a failure.
    bool all_are_dead() const {
        char piece[64];
        for (;;) {
            pollfd waiting{watching_, POLLIN, 0};
            if (::poll(&waiting, 1, 20'000) <= 0) return false;
            if (::read(watching_, piece, sizeof piece) == 0) return true;
        }
    }

    std::string folder_;
    int watching_ = -1;
};

TEST_F(ProcessTest, InputGoesInAndOutputComesOut) {
    ProcessRequest request;
    request.argv = {"cat"};
    request.input = std::string("bytes\0\xFF\n", 8);
    EXPECT_EQ(output_of(request), request.input);
    request.argv = {"cat", "/dev/stdin"};
    EXPECT_EQ(output_of(request), request.input);
    request.input = std::string(900'000, 'x');  // more than any pipe holds
    request.argv = {"tee", "/dev/stderr"};
    const Result<ProcessResult> both = run(request);
    ASSERT_TRUE(both) << both.error().message;
    EXPECT_TRUE(both->output == request.input);
    EXPECT_TRUE(both->errors == request.input);
    EXPECT_FALSE(both->truncated);
}

TEST_F(ProcessTest, AProgramNeedNotReadItsInput) {
    ProcessRequest request = shell("echo done");
    request.input = std::string(1'000'000, 'x');
    EXPECT_EQ(output_of(request), "done\n");
    EXPECT_EQ(output_of(shell("read line || echo none")), "none\n");
}

TEST_F(ProcessTest, TheEndIsACodeOrASignal) {
    const Result<ProcessResult> code = run(shell("echo out; echo err >&2; exit 7"));
    ASSERT_TRUE(code) << code.error().message;
    EXPECT_EQ(code->exit_code, 7);
    EXPECT_EQ(code->signal, 0);
    EXPECT_EQ(code->output, "out\n");
    EXPECT_EQ(code->errors, "err\n");
    const Result<ProcessResult> signal = run(shell("kill -USR1 $$"));
    ASSERT_TRUE(signal) << signal.error().message;
    EXPECT_EQ(signal->signal, SIGUSR1);
    EXPECT_FALSE(signal->timed_out);
}

TEST_F(ProcessTest, ArgumentsReachItAsTheyAre) {
    ProcessRequest request;
    request.argv = {"printf", "%s|", "$HOME", "`id`", "a b", "", "; rm -rf x", "'\"\\", "*"};
    EXPECT_EQ(output_of(request), "$HOME|`id`|a b||; rm -rf x|'\"\\|*|");
}

TEST_F(ProcessTest, ItsEnvironmentIsWhatWasGiven) {
    ::setenv("ROUSE_TEST_SECRET", "x", 1);
    ::setenv("LANG", "C.UTF-8", 1);
    ProcessRequest request;
    request.argv = {"env"};
    request.environment = {{"B", "two words"}, {"HOME", "/nowhere"}};
    EXPECT_EQ(output_of(request), "B=two words\nHOME=/nowhere\nPATH=" +
                                      std::string(std::getenv("PATH")) + "\nLANG=C.UTF-8\n");
    ::unsetenv("ROUSE_TEST_SECRET");
}

TEST_F(ProcessTest, ItStandsWhereItIsTold) {
    ProcessRequest request = shell("pwd -P");
    EXPECT_EQ(output_of(request), std::filesystem::current_path().string() + "\n");
    request.working_dir = folder_;
    EXPECT_EQ(output_of(request), std::filesystem::canonical(folder_).string() + "\n");
}

TEST_F(ProcessTest, AProgramIsFoundInThePathItIsGiven) {
    std::ofstream(folder_ + "/mine") << "#!/bin/sh\necho mine\n";
    ::chmod((folder_ + "/mine").c_str(), 0700);
    ProcessRequest request;
    request.argv = {"mine"};
    request.environment = {{"PATH", "/bin::" + folder_}};
    EXPECT_EQ(output_of(request), "mine\n");
    request.argv = {"./mine"};
    request.working_dir = folder_;
    EXPECT_EQ(output_of(request), "mine\n");
    request.argv = {"mine"};
    const std::filesystem::path before = std::filesystem::current_path();
    std::filesystem::current_path(folder_);
    for (const char* path : {".", "", ":", "./"}) {  // not from where we happen to stand
        request.environment = {{"PATH", path}};
        const Result<ProcessResult> result = run(request);
        EXPECT_EQ(result ? "found" : result.error().reason, "command_not_found") << path;
    }
    std::filesystem::current_path(before);
}

TEST_F(ProcessTest, WhatCannotBeRunSaysWhy) {
    std::ofstream(folder_ + "/plain") << "no program";
    std::ofstream(folder_ + "/lost") << "#!/no/such/interpreter\n";
    ::chmod((folder_ + "/lost").c_str(), 0700);
    struct Case {
        std::vector<std::string> argv;
        std::string working_dir;
        ErrorKind kind;
        std::string_view reason;
    };
    const Case cases[] = {
        {{"no-such-program"}, "", ErrorKind::not_found, "command_not_found"},
        {{"/no/such/program"}, "", ErrorKind::not_found, "command_not_found"},
        {{folder_ + "/lost"}, "", ErrorKind::not_found, "command_not_found"},
        {{folder_ + "/plain"}, "", ErrorKind::io, "spawn_failed"},
        {{folder_}, "", ErrorKind::io, "spawn_failed"},
        {{"true"}, "/no/such/folder", ErrorKind::not_found, "working_dir_not_found"},
        {{}, "", ErrorKind::invalid, "invalid_command"},
        {{""}, "", ErrorKind::invalid, "invalid_command"},
        {{"echo", std::string("a\0b", 3)}, "", ErrorKind::invalid, "invalid_command"},
    };
    for (const Case& c : cases) {
        ProcessRequest request;
        request.argv = c.argv;
        request.working_dir = c.working_dir;
        const Result<ProcessResult> result = run(request);
        ASSERT_FALSE(result) << c.reason;
        EXPECT_EQ(result.error().kind, c.kind) << result.error().message;
        EXPECT_EQ(result.error().reason, c.reason) << result.error().message;
    }
    for (const auto& variable : {std::pair<std::string, std::string>("A=B", "c"),
                                 {"", "c"},
                                 {"A", std::string("\0", 1)}}) {
        ProcessRequest request = shell("true");
        request.environment = {variable};
        EXPECT_EQ(run(request).error().reason, "invalid_command");
    }
}

TEST_F(ProcessTest, NoDescriptorOfOursIsLeftOpenInIt) {
    const int ours = ::open("/dev/null", O_RDONLY);  // without O_CLOEXEC, as libraries do
    EXPECT_EQ(output_of(shell("ls /proc/$$/fd; true")), "0\n1\n2\n");
    ::close(ours);
}

TEST_F(ProcessTest, NoSignalSettingOfOursReachesIt) {
    struct sigaction before{};
    struct sigaction ignore{};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &ignore, &before);
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    ::pthread_sigmask(SIG_BLOCK, &usr1, nullptr);
    EXPECT_EQ(run(shell("kill -PIPE $$"))->signal, SIGPIPE);
    EXPECT_EQ(run(shell("kill -USR1 $$"))->signal, SIGUSR1);
    ::pthread_sigmask(SIG_UNBLOCK, &usr1, nullptr);
    ::sigaction(SIGPIPE, &before, nullptr);
}

TEST_F(ProcessTest, OutputMayBeAsLongAsTheLimitAndNoLonger) {
    for (const std::string stream : {"", " >&2"}) {
        ProcessRequest request = shell("head -c 70000 /dev/zero" + stream);
        request.output_bytes = 70'000;
        const Result<ProcessResult> exact = run(request);
        ASSERT_TRUE(exact) << exact.error().message;
        EXPECT_EQ(exact->output.size() + exact->errors.size(), 70'000U);
        EXPECT_FALSE(exact->truncated);
        EXPECT_EQ(exact->signal, 0);
    }
    ProcessRequest request = shell(holding("yes"));
    request.output_bytes = 70'000;
    const Result<ProcessResult> endless = run(request);
    ASSERT_TRUE(endless) << endless.error().message;
    EXPECT_EQ(endless->output.size(), 70'000U);
    EXPECT_TRUE(endless->truncated);
    EXPECT_FALSE(endless->timed_out);
    EXPECT_TRUE(all_are_dead());
}

TEST_F(ProcessTest, WhoeverTalksMuchOnStandardErrorComesToAnEnd) {
    ProcessRequest request = shell("head -c 9000000 /dev/zero >&2; echo done");
    request.output_bytes = 70'000;
    const Result<ProcessResult> chatty = run(request);
    ASSERT_TRUE(chatty) << chatty.error().message;
    EXPECT_EQ(chatty->output, "done\n");
    EXPECT_EQ(chatty->errors.size(), 70'000U);
    EXPECT_FALSE(chatty->truncated);
    EXPECT_EQ(chatty->exit_code, 0);
}

TEST_F(ProcessTest, TheTimeLimitEndsTheWholeGroup) {
    ProcessRequest request = shell(holding("trap '' TERM; sleep 1000 & echo early; wait"));
    request.time_limit = Milliseconds(100);
    const Result<ProcessResult> result = run(request);
    ASSERT_TRUE(result) << result.error().message;
    EXPECT_TRUE(result->timed_out);
    EXPECT_EQ(result->signal, SIGKILL);
    EXPECT_TRUE(all_are_dead());
}

TEST_F(ProcessTest, ATimeLimitThatIsNotReachedIsNotSeen) {
    ProcessRequest request = shell("echo quick");
    request.time_limit = std::chrono::hours(1);
    EXPECT_EQ(output_of(request), "quick\n");
}

TEST_F(ProcessTest, WhatItLeavesBehindIsKilledWithItsGroup) {
    EXPECT_EQ(output_of(shell(holding("sleep 1000 & echo left"))), "left\n");
    EXPECT_TRUE(all_are_dead());
}

TEST_F(ProcessTest, NobodyWaitsForWhatEscapedFromTheGroup) {
    const std::string script = "setsid sh -c 'echo $$ > " + folder_ + "/pid; echo up > " + alive() +
                               "; exec sleep 1000' & read line < " + alive() + "; echo escaped";
    EXPECT_EQ(output_of(shell(script)), "escaped\n");  // it holds our pipes open
    pid_t escaped = 0;
    std::ifstream(folder_ + "/pid") >> escaped;
    ASSERT_GT(escaped, 1);
    EXPECT_EQ(::kill(escaped, SIGKILL), 0);
}

// Runs until the program holds the pipe, then calls `act`.
template <class Act>
void when_it_is_up(asio::io_context& loop, asio::posix::stream_descriptor& watching, Act act) {
    watching.async_wait(asio::posix::descriptor_base::wait_read,
                        [act](boost::system::error_code) { act(); });
    loop.run();
}

TEST_F(ProcessTest, CancellingKillsTheGroupAndTellsOnceItIsDead) {
    asio::io_context loop(1);
    asio::cancellation_signal signal;
    asio::posix::stream_descriptor watching(loop, ::dup(watching_));
    std::optional<Result<ProcessResult>> result;
    auto done = [&](const std::exception_ptr& thrown, Result<ProcessResult> value) {
        EXPECT_FALSE(thrown);
        result = std::move(value);
    };
    asio::co_spawn(loop, run_process(shell(holding("sleep 1000 & wait"))),
                   asio::bind_cancellation_slot(signal.slot(), done));
    when_it_is_up(loop, watching, [&] { signal.emit(asio::cancellation_type::terminal); });
    ASSERT_TRUE(result.has_value());
    ASSERT_FALSE(*result);
    EXPECT_EQ(result->error().kind, ErrorKind::cancelled);
    EXPECT_TRUE(all_are_dead());
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);  // and nothing is left to be waited for
    EXPECT_EQ(errno, ECHILD);
}

TEST_F(ProcessTest, ItEndsWithTheLoop) {
    {
        asio::io_context loop(1);
        asio::posix::stream_descriptor watching(loop, ::dup(watching_));
        auto done = [](const std::exception_ptr&, const Result<ProcessResult>&) {
            ADD_FAILURE() << "nobody is there to be told";
        };
        asio::co_spawn(loop, run_process(shell(holding("sleep 1000 & wait"))), done);
        when_it_is_up(loop, watching, [&] { loop.stop(); });
    }
    EXPECT_TRUE(all_are_dead());
}

TEST_F(ProcessTest, ItDoesNotOutliveAServerThatIsKilled) {
    const pid_t server = ::fork();
    if (server == 0) {
        (void)run(shell(holding("exec sleep 1000")));
        ::_exit(0);
    }
    pollfd waiting{watching_, POLLIN, 0};
    ASSERT_EQ(::poll(&waiting, 1, 20'000), 1);
    ::kill(server, SIGKILL);
    ::waitpid(server, nullptr, 0);
    EXPECT_TRUE(all_are_dead());
}

TEST_F(ProcessTest, ManyRunAtOnce) {
    asio::io_context loop(1);
    std::vector<std::string> outputs(20);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        auto done = [&outputs, i](const std::exception_ptr&, Result<ProcessResult> result) {
            outputs[i] = result ? result->output : result.error().message;
        };
        ProcessRequest request;
        request.argv = {"cat"};
        request.input = std::to_string(i);
        asio::co_spawn(loop, run_process(std::move(request)), done);
    }
    loop.run();
    for (std::size_t i = 0; i < outputs.size(); ++i)
        EXPECT_EQ(outputs[i], std::to_string(i));
}

}  // namespace
}  // namespace rouse
