// The physical limit of a box, for `bench/load --mode ceiling`: a bare HTTP server that does
// nothing for a POST but append the request's body to a file, many requests in one synced write. A
// GET is answered at once.
//
//   ceiling --data DIR [--listen 127.0.0.1:0] [--answer-bytes 1500] [--append-bytes 0]
//
// With --append-bytes every append is that long: as much as the server it is compared with writes.
//
// Two threads, as lean as it goes: the loop has the sockets, the other has the disk. A request that
// is alone is written by the loop itself, which saves it two changes of thread.

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/check.h"
#include "bench/address.h"

namespace rouse::bench {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

// A file of a fixed size, written round and round, so that no write changes its length.
class RoundFile {
 public:
    explicit RoundFile(const std::string& path) {
        const int plain = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        ROUSE_CHECK(plain >= 0, "cannot make the file of the ceiling");
        const std::string zeros(1U << 20U, '\0');
        for (std::size_t at = 0; at < kBytes; at += zeros.size()) {
            const ssize_t put = ::pwrite(plain, zeros.data(), zeros.size(), static_cast<off_t>(at));
            ROUSE_CHECK(put == static_cast<ssize_t>(zeros.size()), "cannot fill the file");
        }
        ROUSE_CHECK(::fsync(plain) == 0, "fsync");
        // Past the page cache, write and sync in one call; not every file system has it.
        const int direct = ::open(path.c_str(), O_WRONLY | O_DIRECT | O_DSYNC | O_CLOEXEC);
        if (direct >= 0) ::close(plain);
        is_direct_ = direct >= 0;
        fd_ = is_direct_ ? direct : plain;
    }
    RoundFile(const RoundFile&) = delete;
    RoundFile& operator=(const RoundFile&) = delete;
    ~RoundFile() { ::close(fd_); }

    void write_and_sync(std::string_view bytes) {
        const std::size_t padded = (bytes.size() + kSector - 1) / kSector * kSector;
        ROUSE_CHECK(padded <= kBytes, "a group larger than the file");
        if (padded > capacity_) {
            capacity_ = (padded * 2 + kPage - 1) / kPage * kPage;
            buffer_.reset(static_cast<char*>(std::aligned_alloc(kPage, capacity_)));
            ROUSE_CHECK(buffer_ != nullptr, "no memory");
        }
        std::memcpy(buffer_.get(), bytes.data(), bytes.size());
        std::memset(buffer_.get() + bytes.size(), 0, padded - bytes.size());
        if (at_ + padded > kBytes) at_ = 0;
        const ssize_t put = ::pwrite(fd_, buffer_.get(), padded, static_cast<off_t>(at_));
        ROUSE_CHECK(put == static_cast<ssize_t>(padded), "the write failed");
        ROUSE_CHECK(is_direct_ || ::fdatasync(fd_) == 0, "the sync failed");
        at_ += padded;
    }

 private:
    static constexpr std::size_t kBytes = 64U << 20U;
    static constexpr std::size_t kSector = 512;
    static constexpr std::size_t kPage = 4096;
    struct Free {
        void operator()(char* memory) const { std::free(memory); }
    };

    int fd_ = -1;
    bool is_direct_ = false;
    std::size_t at_ = 0;
    std::size_t capacity_ = 0;
    std::unique_ptr<char, Free> buffer_;
};

class Connection;

// Group commit: what arrives while a write is under way goes together into the next one.
class GroupCommit {
 public:
    GroupCommit(asio::io_context& loop, const std::string& path, std::size_t append_bytes)
        : loop_(loop), file_(path), append_bytes_(append_bytes), thread_([this] { run(); }) {}
    GroupCommit(const GroupCommit&) = delete;
    GroupCommit& operator=(const GroupCommit&) = delete;
    ~GroupCommit() {
        wake(stopping_);
        thread_.join();
    }

    // Calls waiter->answer() on the loop when the bytes are on disk.
    void append(std::string_view bytes, std::shared_ptr<Connection> waiter) {
        const std::uint64_t length = bytes.size();
        collected_.bytes.append(reinterpret_cast<const char*>(&length), sizeof length);
        collected_.bytes.append(bytes);
        if (bytes.size() < append_bytes_) {
            collected_.bytes.append(append_bytes_ - bytes.size(), ' ');
        }
        collected_.waiters.push_back(std::move(waiter));
        // After whatever else is ready: the more requests go together the better.
        if (collected_.waiters.size() == 1 && !writing_) asio::post(loop_, [this] { begin(); });
    }

 private:
    struct Group {
        std::string bytes;
        std::vector<std::shared_ptr<Connection>> waiters;
    };

    void begin() {
        if (writing_ || collected_.waiters.empty()) return;
        if (collected_.waiters.size() > 1) return hand_over();
        std::swap(collected_, group_);
        file_.write_and_sync(group_.bytes);
        answer(group_);
    }

    void hand_over() {
        std::swap(collected_, group_);
        writing_ = true;
        wake(handed_over_);
    }

    // The disk goes on with the next group before this one is answered.
    void written() {
        writing_ = false;
        std::swap(group_, answered_);
        if (!collected_.waiters.empty()) hand_over();
        answer(answered_);
    }

    static void answer(Group& group);

    void wake(bool& reason) {
        {
            const std::lock_guard lock(mutex_);
            reason = true;
        }
        work_.notify_one();
    }

    void run() {
        for (;;) {
            {
                std::unique_lock lock(mutex_);
                work_.wait(lock, [this] { return stopping_ || handed_over_; });
                if (stopping_) return;
                handed_over_ = false;
            }
            file_.write_and_sync(group_.bytes);
            asio::post(loop_, [this] { written(); });
        }
    }

    asio::io_context& loop_;
    RoundFile file_;  // with group_, the thread's from hand_over() to written(), else the loop's
    const std::size_t append_bytes_;
    Group group_;
    Group collected_;  // the loop's, like all but the flags below
    Group answered_;
    bool writing_ = false;
    std::mutex mutex_;  // for the two below
    bool handed_over_ = false;
    bool stopping_ = false;
    std::condition_variable work_;
    std::thread thread_;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
    Connection(tcp::socket socket, GroupCommit& journal, const std::string& response)
        : socket_(std::move(socket)), journal_(journal), response_(response) {
        socket_.set_option(tcp::no_delay(true));
    }

    void read() {
        parser_.emplace();
        parser_->body_limit(kBodyLimit);
        http::async_read(socket_, buffer_, *parser_,
                         [self = shared_from_this()](error_code failed, std::size_t) {
                             if (!failed) self->handle();
                         });
    }

    void answer() {
        asio::async_write(socket_, asio::buffer(response_),
                          [self = shared_from_this()](error_code failed, std::size_t) {
                              if (!failed) self->read();
                          });
    }

 private:
    static constexpr std::uint64_t kBodyLimit = 1U << 20U;

    void handle() {
        const http::request<http::string_body>& request = parser_->get();
        if (request.method() != http::verb::post) return answer();
        journal_.append(request.body(), shared_from_this());
    }

    tcp::socket socket_;
    GroupCommit& journal_;
    const std::string& response_;
    beast::flat_buffer buffer_;
    std::optional<http::request_parser<http::string_body>> parser_;
};

void GroupCommit::answer(Group& group) {
    for (const std::shared_ptr<Connection>& waiter : group.waiters)
        waiter->answer();
    group.bytes.clear();
    group.waiters.clear();
}

// The same for all: JSON of about the given size.
std::string make_response(std::size_t body_bytes) {
    std::string body = R"({"ok":"")";
    if (body_bytes > body.size()) body.insert(body.size() - 1, body_bytes - body.size() - 1, 'x');
    body += '}';
    return "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
}

class Server {
 public:
    Server(asio::io_context& loop, const tcp::endpoint& at, GroupCommit& journal,
           std::string response)
        : acceptor_(loop, at), journal_(journal), response_(std::move(response)) {}

    tcp::endpoint address() const { return acceptor_.local_endpoint(); }

    void accept() {
        acceptor_.async_accept([this](error_code failed, tcp::socket socket) {
            if (failed == asio::error::operation_aborted) return;
            if (!failed) {
                std::make_shared<Connection>(std::move(socket), journal_, response_)->read();
            }
            accept();
        });
    }

 private:
    tcp::acceptor acceptor_;
    GroupCommit& journal_;
    const std::string response_;
};

}  // namespace
}  // namespace rouse::bench

int main(int argc, char** argv) {
    using namespace rouse::bench;
    CLI::App app("A bare HTTP server that syncs each POST to disk: the limit of this box");
    std::string listen = "127.0.0.1:0";
    std::string data;
    std::size_t answer_bytes = 1500;
    std::size_t append_bytes = 0;
    app.add_option("--listen", listen, "address; port 0 takes a free one")->capture_default_str();
    app.add_option("--data", data, "directory for its file, on the disk to measure")->required();
    app.add_option("--answer-bytes", answer_bytes, "size of an answer")->capture_default_str();
    app.add_option("--append-bytes", append_bytes, "least size of an append")
        ->capture_default_str();
    CLI11_PARSE(app, argc, argv);
    try {
        std::filesystem::create_directories(data);
        const Address address = parse_address(listen);
        asio::io_context loop(1);
        GroupCommit journal(loop, data + "/ceiling.data", append_bytes);
        Server server(loop, {asio::ip::make_address(address.host), address.port}, journal,
                      make_response(answer_bytes));
        asio::signal_set signals(loop, SIGINT, SIGTERM);
        signals.async_wait([&](error_code, int) { loop.stop(); });
        server.accept();
        std::printf("listening on http://%s:%d\n", address.host.c_str(), server.address().port());
        std::fflush(stdout);
        loop.run();
    } catch (const std::exception& failed) {
        std::fprintf(stderr, "ceiling: %s\n", failed.what());
        return 1;
    }
    return 0;
}
