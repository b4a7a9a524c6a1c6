#include "net/process.h"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <cerrno>
#include <memory>

#include "net/operation.h"
#include "net/spawn.h"

namespace rouse {
namespace {

namespace asio = boost::asio;
using asio::posix::descriptor_base;

constexpr int kPiecesAtOnce = 256;  // more than a pipe holds; then others have their turn

// One program from its start to its end, on a strand of its own.
class Running final : public Operation<ProcessResult>,
                      public std::enable_shared_from_this<Running> {
 public:
    Running(const asio::any_io_executor& executor, ProcessRequest request)
        : strand_(asio::make_strand(executor)),
          request_(std::move(request)),
          exit_(strand_),
          limit_(strand_),
          output_(strand_, result_.output),
          errors_(strand_, result_.errors) {}

    // Reached alive only when the loop ended first.
    ~Running() override {
        if (pid_ > 0) reap();
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

    void start(Done<ProcessResult> done) override {
        done_ = std::move(done);
        asio::post(strand_, [self = shared_from_this()] { self->begin(); });
    }

    void cancel() override {
        asio::post(strand_, [self = shared_from_this()] {
            self->cancelled_ = true;
            self->kill_group();
        });
    }

 private:
    struct Stream {
        Stream(const asio::strand<asio::any_io_executor>& strand, std::string& into)
            : pipe(strand), text(into) {}
        asio::posix::stream_descriptor pipe;
        std::string& text;
    };

    void begin() {
        Result<Spawned> spawned = spawn(request_);
        if (!spawned) return end(spawned.error());
        pid_ = spawned->pid;
        if (!take(exit_, spawned->exit) || !take(output_.pipe, spawned->output) ||
            !take(errors_.pipe, spawned->errors)) {
            reap();
            return end(Error(ErrorKind::io, "spawn_failed", "the loop cannot watch the program"));
        }
        watch(output_);
        watch(errors_);
        exit_.async_wait(
            descriptor_base::wait_read,
            [self = shared_from_this()](boost::system::error_code) { self->exited(); });
        if (request_.time_limit.count() == 0) return;
        limit_.expires_after(request_.time_limit);
        limit_.async_wait([self = shared_from_this()](boost::system::error_code stopped) {
            if (stopped || self->pid_ == 0) return;
            self->result_.timed_out = true;
            self->kill_group();
        });
    }

    static bool take(asio::posix::stream_descriptor& into, Descriptor& descriptor) {
        boost::system::error_code failed;
        if (into.assign(descriptor.number(), failed)) return false;
        descriptor.release();
        return true;
    }

    void watch(Stream& stream) {
        auto readable = [self = shared_from_this(), &stream](boost::system::error_code failed) {
            if (!failed && self->pid_ > 0 && self->read(stream)) self->watch(stream);
        };
        stream.pipe.async_wait(descriptor_base::wait_read, std::move(readable));
    }

    // Takes what is there. False: no more will come, or no more is wanted.
    bool read(Stream& stream) {
        char piece[16384];
        for (int pieces = 0; pieces < kPiecesAtOnce; ++pieces) {
            const ssize_t count = ::read(stream.pipe.native_handle(), piece, sizeof piece);
            if (count < 0 && errno == EINTR) continue;
            if (count < 0) return errno == EAGAIN;
            if (count == 0) return false;
            const std::size_t room = request_.output_bytes - stream.text.size();
            stream.text.append(piece, std::min(room, static_cast<std::size_t>(count)));
            // Somebody who talks much there may still be doing what was asked.
            if (static_cast<std::size_t>(count) <= room || &stream == &errors_) continue;
            result_.truncated = true;
            kill_group();
            return false;
        }
        return true;
    }

    // Whoever escaped from the group may hold the pipes open: what is in them now is all.
    void exited() {
        if (pid_ == 0) return;
        const int status = reap();
        read(output_);
        read(errors_);
        if (WIFSIGNALED(status)) result_.signal = WTERMSIG(status);
        if (WIFEXITED(status)) result_.exit_code = WEXITSTATUS(status);
        if (cancelled_) return end(cancelled_error(request_.argv.front()));
        end(std::move(result_));
    }

    void kill_group() const {
        if (pid_ > 0) ::kill(-pid_, SIGKILL);
    }

    // The group's number is its own until the program has been waited for.
    int reap() {
        int status = 0;
        kill_group();
        while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
        }
        pid_ = 0;
        return status;
    }

    void end(Result<ProcessResult> result) {
        limit_.cancel();
        for (auto* descriptor : {&exit_, &output_.pipe, &errors_.pipe}) {
            boost::system::error_code ignored;
            ignored = descriptor->close(ignored);
        }
        std::exchange(done_, nullptr)(std::move(result));
    }

    asio::strand<asio::any_io_executor> strand_;
    ProcessRequest request_;
    ProcessResult result_;
    asio::posix::stream_descriptor exit_;
    asio::steady_timer limit_;
    Stream output_;
    Stream errors_;
    pid_t pid_ = 0;  // 0: not started, or waited for
    bool cancelled_ = false;
    Done<ProcessResult> done_;
};

}  // namespace

asio::awaitable<Result<ProcessResult>> run_process(ProcessRequest request) {
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    std::shared_ptr<Operation<ProcessResult>> running =
        std::make_shared<Running>(executor, std::move(request));
    co_return co_await await_operation(std::move(running));
}

}  // namespace rouse
