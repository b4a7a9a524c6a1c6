#include "tools/exec_tool.h"

#include <gtest/gtest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/system_error.hpp>

#include "testing/agent_kit.h"

namespace rouse {
namespace {

namespace asio = boost::asio;
using namespace testing;

constexpr std::string_view kInput = R"({"branch":"a b","n":1.0,"big":18446744073709551616})";

ExecToolOptions running(std::vector<std::string> command) {
    ExecToolOptions options;
    options.spec.name = "deploy";
    options.command = std::move(command);
    return options;
}

ExecToolOptions script(std::string text) {
    return running({"sh", "-c", std::move(text)});
}

ToolCall a_call() {
    return {CallId{"c1"}, "deploy", json(kInput), SessionId("sess_a")};
}

ToolResult result_of(ExecToolOptions options, ToolCall call = a_call()) {
    const ToolOutcome outcome = wait_for(make_exec_tool(std::move(options))->call(std::move(call)));
    EXPECT_FALSE(outcome.suspend);
    return outcome.result.value_or(text_result("no result"));
}

std::string text_of(const ToolResult& result) {
    return read_json_string(result.content.text()).value_or("no text");
}

std::string error_of(ExecToolOptions options) {
    const ToolResult result = result_of(std::move(options));
    return result.is_error ? text_of(result) : "no error";
}

TEST(ExecToolTest, TheInputIsOnStandardInputByteForByte) {
    const ToolResult result = result_of(running({"cat"}));
    EXPECT_FALSE(result.is_error);
    EXPECT_EQ(text_of(result), kInput);
}

TEST(ExecToolTest, OutputInTheFormOfAResultIsOne) {
    EXPECT_EQ(to_json(result_of(running({"echo", R"({"content":"no","is_error":true})"}))),
              R"({"content":"no","is_error":true})");
    EXPECT_EQ(text_of(result_of(running({"printf", "caf\\351"}))), "caf\uFFFD");
}

TEST(ExecToolTest, TheProgramKnowsWhoAsks) {
    ExecToolOptions options =
        script("echo $ROUSE_SESSION_ID $ROUSE_CALL_ID $ROUSE_TOOL $MINE; pwd");
    options.env = {{"MINE", "yes"}};
    options.cwd = "/";
    EXPECT_EQ(text_of(result_of(options)), "sess_a c1 deploy yes\n/\n");
}

TEST(ExecToolTest, NoShellReadsTheInput) {
    ToolCall hostile = a_call();
    hostile.id.text = "$(echo bad); `echo bad`";
    EXPECT_EQ(text_of(result_of(running({"printenv", "ROUSE_CALL_ID"}), hostile)),
              hostile.id.text + "\n");
    hostile.id.text = std::string("a\0b", 3);
    EXPECT_TRUE(result_of(running({"true"}), hostile).is_error);
}

TEST(ExecToolTest, AFailureIsAnErrorWithItsCodeAndLastWords) {
    EXPECT_EQ(error_of(script("echo out; echo wrong >&2; exit 3")),
              "the command ended with exit code 3: wrong\n");
    EXPECT_EQ(error_of(script("exit 1")), "the command ended with exit code 1");
    EXPECT_EQ(error_of(script("kill -TERM $$")), "the command was killed by signal 15");
    const std::string error =
        error_of(script("head -c 5000 /dev/zero | tr '\\0' x >&2; echo last >&2; exit 1"));
    EXPECT_TRUE(error.ends_with("xlast\n"));
    EXPECT_EQ(error.size(),
              std::string("the command ended with exit code 1: ").size() + limits::kToolErrorBytes);
}

TEST(ExecToolTest, ACommandThatIsNotThereIsAnError) {
    EXPECT_EQ(error_of(running({"no-such-program"})),
              "the command did not run: there is no program no-such-program in PATH");
}

TEST(ExecToolTest, LimitsAreErrorsThatSayWhich) {
    ExecToolOptions slow = script("echo begun >&2; exec sleep 1000");
    slow.timeout = Milliseconds(200);
    EXPECT_TRUE(error_of(slow).starts_with("the command took longer than 200 ms and was stopped"));
    ExecToolOptions loud = running({"head", "-c", "1001", "/dev/zero"});
    loud.output_bytes = 1000;
    EXPECT_EQ(error_of(loud), "the command wrote more than 1000 bytes and was stopped");
}

TEST(ExecToolTest, WhoeverIsCancelledGetsNoResult) {
    asio::io_context loop(1);
    asio::cancellation_signal signal;
    std::exception_ptr thrown;
    auto done = [&](const std::exception_ptr& error, const ToolOutcome&) { thrown = error; };
    const auto tool = make_exec_tool(running({"sleep", "1000"}));
    asio::co_spawn(loop, tool->call(a_call()), asio::bind_cancellation_slot(signal.slot(), done));
    loop.poll();  // it runs
    asio::post(loop, [&] { signal.emit(asio::cancellation_type::terminal); });
    loop.run();
    ASSERT_TRUE(thrown);
    EXPECT_THROW(std::rethrow_exception(thrown), boost::system::system_error);
}

}  // namespace
}  // namespace rouse
