#include "testing/http_fake.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "base/json.h"
#include "testing/self_signed.h"

namespace rouse::testing {
namespace {

std::string to_lower(std::string_view text) {
    std::string lower(text);
    std::ranges::transform(lower, lower.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return lower;
}

std::string echo_of(const HttpFakeRequest& request) {
    std::string out = "{\"method\":" + to_json_string(request.method);
    out += ",\"target\":" + to_json_string(request.target) + ",\"headers\":{";
    for (const auto& [name, value] : request.headers) {
        if (out.back() != '{') out += ',';
        out += to_json_string(name) + ':' + to_json_string(value);
    }
    return out + "},\"body\":" + to_json_string(request.body) + '}';
}

std::string head_of(const HttpReply& reply, std::size_t body_bytes) {
    std::string head = "HTTP/1.1 " + std::to_string(reply.status) + " Scripted\r\n";
    for (const auto& [name, value] : reply.headers)
        head.append(name).append(": ").append(value).append("\r\n");
    return head + "Content-Length: " + std::to_string(body_bytes) + "\r\n\r\n";
}

HttpFakeRequest parse_head(std::string_view head) {
    HttpFakeRequest request;
    std::size_t end = head.find("\r\n");
    const std::string_view first = head.substr(0, end);
    const std::size_t blank = first.find(' ');
    request.method = first.substr(0, blank);
    request.target = first.substr(blank + 1, first.rfind(' ') - blank - 1);
    while (end != std::string_view::npos && end + 2 < head.size()) {
        head.remove_prefix(end + 2);
        end = head.find("\r\n");
        const std::string_view line = head.substr(0, end);
        const std::size_t colon = line.find(':');
        if (colon == std::string_view::npos) continue;
        std::string_view value = line.substr(colon + 1);
        while (value.starts_with(' '))
            value.remove_prefix(1);
        request.headers.emplace_back(to_lower(line.substr(0, colon)), value);
    }
    return request;
}

}  // namespace

struct HttpFake::Tls {
    explicit Tls(const SelfSigned& identity, HttpFake& fake) : context(SSL_CTX_new(TLS_method())) {
        BIO* text = BIO_new_mem_buf(identity.certificate.data(),
                                    static_cast<int>(identity.certificate.size()));
        X509* certificate = PEM_read_bio_X509(text, nullptr, nullptr, nullptr);
        SSL_CTX_use_certificate(context, certificate);
        X509_free(certificate);
        BIO_free(text);
        text = BIO_new_mem_buf(identity.key.data(), static_cast<int>(identity.key.size()));
        EVP_PKEY* key = PEM_read_bio_PrivateKey(text, nullptr, nullptr, nullptr);
        SSL_CTX_use_PrivateKey(context, key);
        EVP_PKEY_free(key);
        BIO_free(text);
        SSL_CTX_set_alpn_select_cb(context, &Tls::choose, &fake);
    }
    ~Tls() { SSL_CTX_free(context); }
    Tls(const Tls&) = delete;
    Tls& operator=(const Tls&) = delete;

    // Keeps what is offered, speaks HTTP/1.1.
    static int choose(SSL* /*ssl*/, const unsigned char** out, unsigned char* out_size,
                      const unsigned char* in, unsigned int in_size, void* self) {
        auto& fake = *static_cast<HttpFake*>(self);
        const std::lock_guard lock(fake.mutex_);
        fake.offered_.clear();
        for (unsigned int at = 0; at < in_size; at += 1U + in[at]) {
            fake.offered_.emplace_back(reinterpret_cast<const char*>(in + at + 1), in[at]);
            if (fake.offered_.back() != "http/1.1") continue;
            *out = in + at + 1;
            *out_size = in[at];
        }
        return *out_size > 0 ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
    }

    SSL_CTX* context;
};

// A client, with or without TLS. Everything blocks; shutdown() of the socket ends it.
class HttpFake::Connection {
 public:
    Connection(int fd, SSL_CTX* context) : fd_(fd) {
        if (context == nullptr) return;
        ssl_ = SSL_new(context);
        SSL_set_fd(ssl_, fd);
        failed_ = SSL_accept(ssl_) != 1;
    }
    ~Connection() { SSL_free(ssl_); }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    bool write(std::string_view bytes) {
        while (!bytes.empty() && !failed_) {
            const auto sent = ssl_ ? SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size()))
                                   : ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            failed_ = sent <= 0;
            if (!failed_) bytes.remove_prefix(static_cast<std::size_t>(sent));
        }
        return !failed_;
    }

    // False: the client is gone.
    bool read_more() {
        char piece[16384];
        const auto count =
            ssl_ ? SSL_read(ssl_, piece, sizeof piece) : ::recv(fd_, piece, sizeof piece, 0);
        if (count > 0) unread_.append(piece, static_cast<std::size_t>(count));
        return !failed_ && count > 0;
    }

    std::optional<HttpFakeRequest> read_request() {
        std::size_t end = 0;
        while ((end = unread_.find("\r\n\r\n")) == std::string::npos) {
            if (!read_more()) return std::nullopt;
        }
        HttpFakeRequest request = parse_head(std::string_view(unread_).substr(0, end + 2));
        unread_.erase(0, end + 4);
        const std::string length = request.header("content-length");
        const std::size_t size = length.empty() ? 0 : std::stoul(length);
        while (unread_.size() < size) {
            if (!read_more()) return std::nullopt;
        }
        request.body = unread_.substr(0, size);
        unread_.erase(0, size);
        return request;
    }

    void reset_on_close() const {
        const linger now{1, 0};
        ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }

 private:
    int fd_;
    SSL* ssl_ = nullptr;
    std::string unread_;
    bool failed_ = false;
};

std::string HttpFakeRequest::header(std::string_view name) const {
    const auto found = std::ranges::find(headers, name, &decltype(headers)::value_type::first);
    return found == headers.end() ? "" : found->second;
}

HttpReply HttpReply::text(std::string body, int status) {
    HttpReply reply;
    reply.status = status;
    reply.headers = {{"Content-Type", "text/plain"}};
    reply.body = std::move(body);
    return reply;
}

HttpReply HttpReply::json(std::string body, int status) {
    HttpReply reply = text(std::move(body), status);
    reply.headers = {{"Content-Type", "application/json"}};
    return reply;
}

HttpReply HttpReply::redirect(std::string location) {
    HttpReply reply = text("elsewhere", 302);
    reply.headers.emplace_back("Location", std::move(location));
    return reply;
}

HttpReply HttpReply::huge(std::size_t bytes) {
    return text(std::string(bytes, 'x'));
}

HttpReply HttpReply::failing(Fault fault, std::size_t after, std::string body) {
    HttpReply reply = text(std::move(body));
    reply.fault = fault;
    reply.fault_after = after;
    return reply;
}

HttpReply HttpReply::gate(std::string body) {
    HttpReply reply = text(std::move(body));
    reply.gated = true;
    return reply;
}

HttpFake::HttpFake(HttpFakeOptions options) : options_(std::move(options)) {
    if (options_.tls) {
        const SelfSigned identity = make_self_signed("IP:127.0.0.1");
        certificate_ = identity.certificate;
        tls_ = std::make_unique<Tls>(identity, *this);
    }
    HttpReply echo;
    echo.echo = true;
    scripts_["/echo"] = {echo};
    options_.unix_socket.empty() ? listen_on_port() : listen_on_path(options_.unix_socket);
    accepting_ = std::thread([this] { accept_all(); });
}

HttpFake::~HttpFake() {
    std::vector<std::thread> serving;
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        changed_.notify_all();
        for (const int fd : open_)
            ::shutdown(fd, SHUT_RDWR);
    }
    ::shutdown(listener_, SHUT_RDWR);
    accepting_.join();
    {
        const std::lock_guard lock(mutex_);
        serving.swap(serving_);
    }
    for (std::thread& thread : serving)
        thread.join();
    ::close(listener_);
}

void HttpFake::listen_on_port() {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    ROUSE_CHECK(::bind(listener_, any, size) == 0, "no free port");
    ROUSE_CHECK(::listen(listener_, 128) == 0, "cannot listen");
    ::getsockname(listener_, any, &size);
    port_ = ntohs(address.sin_port);
}

void HttpFake::listen_on_path(const std::string& path) {
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    ROUSE_CHECK(path.size() < sizeof address.sun_path, "the socket's path is too long");
    std::memcpy(address.sun_path, path.data(), path.size());
    const auto* any = reinterpret_cast<const sockaddr*>(&address);
    ROUSE_CHECK(::bind(listener_, any, sizeof address) == 0, "cannot listen on that path");
    ROUSE_CHECK(::listen(listener_, 128) == 0, "cannot listen");
}

void HttpFake::script(const std::string& path, std::vector<HttpReply> replies) {
    std::ranges::reverse(replies);  // the next one is last
    const std::lock_guard lock(mutex_);
    scripts_[path] = std::move(replies);
}

void HttpFake::on_request(std::function<void(const HttpFakeRequest&)> callback) {
    const std::lock_guard lock(mutex_);
    on_request_ = std::move(callback);
}

void HttpFake::open_gate() {
    const std::lock_guard lock(mutex_);
    gate_open_ = true;
    changed_.notify_all();
}

std::string HttpFake::url(std::string_view path) const {
    const std::string scheme = options_.tls ? "https://" : "http://";
    const std::string port = port_ == 0 ? "" : ":" + std::to_string(port_);
    return scheme + "127.0.0.1" + port + std::string(path);
}

std::vector<HttpFakeRequest> HttpFake::requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
}

int HttpFake::connections() const {
    const std::lock_guard lock(mutex_);
    return connections_;
}

std::vector<std::string> HttpFake::offered() const {
    const std::lock_guard lock(mutex_);
    return offered_;
}

void HttpFake::wait_for_leavers(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return leavers_ >= count || stopping_; });
}

void HttpFake::accept_all() {
    for (;;) {
        const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
        const std::lock_guard lock(mutex_);
        if (fd < 0 || stopping_) {
            if (fd >= 0) ::close(fd);
            return;
        }
        ++connections_;
        open_.insert(fd);
        serving_.emplace_back([this, fd] { serve(fd); });
    }
}

void HttpFake::serve(int fd) {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);  // OpenSSL writes without MSG_NOSIGNAL
    {
        Connection connection(fd, tls_ ? tls_->context : nullptr);
        while (serve_one(connection)) {
        }
    }
    const std::lock_guard lock(mutex_);
    open_.erase(fd);
    ::close(fd);
}

// False: the connection is to be closed.
bool HttpFake::serve_one(Connection& connection) {
    const std::optional<HttpFakeRequest> request = connection.read_request();
    if (!request) return false;
    std::function<void(const HttpFakeRequest&)> tell;
    {
        const std::lock_guard lock(mutex_);
        requests_.push_back(*request);
        tell = on_request_;
    }
    if (tell) tell(*request);
    return answer(connection, *request, next_reply(*request));
}

HttpReply HttpFake::next_reply(const HttpFakeRequest& request) {
    const std::lock_guard lock(mutex_);
    const auto found = scripts_.find(request.path());
    if (found == scripts_.end()) return HttpReply::text("no script for this path", 404);
    HttpReply reply = found->second.back();
    if (found->second.size() > 1) found->second.pop_back();
    return reply;
}

bool HttpFake::answer(Connection& connection, const HttpFakeRequest& request,
                      const HttpReply& reply) {
    if (!reply.raw.empty()) {
        connection.write(reply.raw);
        return finish(connection, reply);
    }
    const std::string body = reply.echo ? echo_of(request) : reply.body;
    const std::string head = head_of(reply, body.size());
    const std::string whole = head + (request.method == "HEAD" ? "" : body);
    if (reply.fault != HttpReply::Fault::none) {
        connection.write(std::string_view(whole).substr(0, reply.fault_after));
        return finish(connection, reply);
    }
    if (!reply.gated) return connection.write(whole);
    if (!connection.write(head)) return false;
    wait_at_gate();
    return connection.write(std::string_view(whole).substr(head.size()));
}

bool HttpFake::finish(Connection& connection, const HttpReply& reply) {
    if (reply.fault == HttpReply::Fault::reset) connection.reset_on_close();
    if (reply.fault == HttpReply::Fault::stall) {
        while (connection.read_more()) {
        }
        const std::lock_guard lock(mutex_);
        ++leavers_;
        changed_.notify_all();
    }
    return false;
}

void HttpFake::wait_at_gate() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return gate_open_ || stopping_; });
}

}  // namespace rouse::testing
