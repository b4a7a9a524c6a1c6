#include "server/http_server.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <map>
#include <set>

#include "server/body.h"

namespace rouse::server {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

// %41 and nothing else; a plus is a plus, but in a query.
std::optional<std::string> percent_decode(std::string_view text, bool plus_is_blank) {
    std::string out;
    out.reserve(text.size());
    const auto digit = [](char c) {
        if (c >= '0' && c <= '9') return c - '0';
        if (c >= 'a' && c <= 'f') return c - 'a' + 10;
        if (c >= 'A' && c <= 'F') return c - 'A' + 10;
        return -1;
    };
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '%') {
            if (i + 2 >= text.size()) return std::nullopt;
            const int high = digit(text[i + 1]);
            const int low = digit(text[i + 2]);
            if (high < 0 || low < 0 || (high == 0 && low == 0)) return std::nullopt;
            out += static_cast<char>(high * 16 + low);
            i += 2;
        } else {
            out += plus_is_blank && text[i] == '+' ? ' ' : text[i];
        }
    }
    return out;
}

bool read_target(std::string_view target, Request& request) {
    const std::size_t mark = target.find('?');
    const std::optional<std::string> path = percent_decode(target.substr(0, mark), false);
    if (!path) return false;
    request.path = *path;
    if (mark == std::string_view::npos) return true;
    std::string_view query = target.substr(mark + 1);
    while (!query.empty()) {
        const std::size_t end = std::min(query.find('&'), query.size());
        const std::string_view pair = query.substr(0, end);
        query.remove_prefix(std::min(end + 1, query.size()));
        const std::size_t equals = std::min(pair.find('='), pair.size());
        const std::optional<std::string> name = percent_decode(pair.substr(0, equals), true);
        const std::optional<std::string> value =
            percent_decode(pair.substr(std::min(equals + 1, pair.size())), true);
        if (!name || !value) return false;
        if (!name->empty()) request.query[*name] = *value;
    }
    return true;
}

Problem too_large(std::string detail) {
    return {413, "too_large", "Too large", std::move(detail)};
}

using Parser = http::request_parser<http::string_body>;

// Beast is more lenient about framing than is safe behind a proxy.
std::optional<Problem> check_framing(const Parser::value_type& message, const HttpLimits& limits) {
    std::size_t hosts = 0;
    std::size_t lengths = 0;
    std::size_t fields = 0;
    for (const auto& field : message) {
        ++fields;
        if (field.name() == http::field::host) ++hosts;
        if (field.name() == http::field::content_length) {
            ++lengths;
            if (field.value().find(',') != std::string_view::npos) ++lengths;
        }
        if (field.name() != http::field::transfer_encoding) continue;
        if (field.value() != "chunked" || message.version() < 11) {
            return invalid_request("Transfer-Encoding must be chunked, on HTTP/1.1");
        }
    }
    if (hosts != 1) return invalid_request("a request has one Host header");
    if (lengths > 1) return invalid_request("a request has one Content-Length");
    if (fields > limits.header_fields) return too_large("too many header fields");
    if (!message.target().starts_with('/')) return invalid_request("the target begins with /");
    return std::nullopt;
}

}  // namespace

struct HttpServer::State {
    State(asio::any_io_executor on, Api& the_api, Logger& logger, HttpLimits the_limits)
        : loop(std::move(on)), api(the_api), log(logger), limits(the_limits), acceptor(loop) {}

    asio::any_io_executor loop;
    Api& api;
    Logger& log;
    HttpLimits limits;
    tcp::acceptor acceptor;
    std::set<Connection*> connections;
    std::map<std::string, std::size_t> unknown;  // connections without a valid token, by address
    bool stopping = false;
};

class HttpServer::Connection {
 public:
    Connection(std::shared_ptr<State> state, tcp::socket socket, std::string remote)
        : state_(std::move(state)), stream_(std::move(socket)), remote_(std::move(remote)) {
        state_->connections.insert(this);
        ++state_->unknown[remote_];
    }
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection() {
        state_->connections.erase(this);
        become_known();
    }

    Task<void> run() {
        beast::flat_buffer buffer;
        while (!state_->stopping) {
            Parser parser;
            parser.header_limit(static_cast<std::uint32_t>(state_->limits.header_bytes));
            parser.body_limit(state_->limits.body_bytes);
            const bool goes_on = co_await read(buffer, parser);
            if (!goes_on) break;
            busy_ = true;
            const bool keeps = co_await respond(parser);
            busy_ = false;
            if (!keeps) break;
        }
        beast::error_code ignored;
        stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    }

    void close_if_idle() {
        if (!busy_) stream_.cancel();
    }
    void close() {
        if (events_ != nullptr) events_->close();
        stream_.cancel();
    }

 private:
    // From then on it does not count among those of its address.
    void become_known() {
        if (std::exchange(known_, true)) return;
        const auto count = state_->unknown.find(remote_);
        if (--count->second == 0) state_->unknown.erase(count);
    }

    // False: there is nothing more to read, or nothing that could be answered.
    Task<bool> read(beast::flat_buffer& buffer, Parser& parser) {
        const bool has_header = co_await read_header(buffer, parser);
        if (!has_header) co_return false;
        if (auto problem = check_framing(parser.get(), state_->limits)) {
            co_return co_await refuse(*std::move(problem));
        }
        if (parser.is_done()) co_return true;
        stream_.expires_after(state_->limits.request_time);
        if (lower_case(parser.get()[http::field::expect]) == "100-continue") {
            constexpr std::string_view kGoOn = "HTTP/1.1 100 Continue\r\n\r\n";
            const auto [failed, sent] =
                co_await asio::async_write(stream_, asio::buffer(kGoOn), kAwait);
            if (failed) co_return false;
        }
        const auto [bad_body, body_bytes] =
            co_await http::async_read(stream_, buffer, parser, kAwait);
        if (bad_body) co_return co_await refuse(bad_body);
        co_return true;
    }

    // Beast takes folded fields as if they were one line, so each piece is looked at before.
    Task<bool> read_header(beast::flat_buffer& buffer, Parser& parser) {
        stream_.expires_after(state_->limits.idle_time);
        for (bool first = buffer.size() == 0;; first = false) {
            if (!first) {
                beast::error_code bad;
                if (has_folds(buffer)) {
                    co_return co_await refuse(invalid_request("a header field has one line"));
                }
                buffer.consume(parser.put(buffer.data(), bad));
                if (bad && bad != http::error::need_more) co_return co_await refuse(bad);
                if (parser.is_header_done()) co_return true;
                stream_.expires_after(state_->limits.header_time);
            }
            const auto [broken, bytes] =
                co_await stream_.async_read_some(buffer.prepare(kReadBytes), kAwait);
            if (broken) co_return false;
            buffer.commit(bytes);
        }
    }

    static bool has_folds(const beast::flat_buffer& buffer) {
        const asio::const_buffer data = buffer.data();
        std::string_view text(static_cast<const char*>(data.data()), data.size());
        text = text.substr(0, text.find("\r\n\r\n"));
        return text.contains("\r\n ") || text.contains("\r\n\t");
    }

    Task<bool> refuse(beast::error_code error) {
        if (error == http::error::body_limit) {
            co_return co_await refuse(too_large(
                "the body has more than " + std::to_string(state_->limits.body_bytes) + " bytes"));
        }
        if (error == http::error::header_limit || error == http::error::buffer_overflow) {
            co_return co_await refuse(too_large("the header is too long"));
        }
        const bool ours =
            error.category() == http::make_error_code(http::error::bad_target).category();
        if (!ours || error == http::error::end_of_stream || error == http::error::partial_message) {
            co_return false;
        }
        co_return co_await refuse(invalid_request("this is not HTTP: " + error.message()));
    }

    Task<bool> refuse(Problem problem) {
        const std::string id = state_->api.new_request_id();
        Response response = state_->api.refuse(std::move(problem), id);
        (void)co_await write(response, id, false);
        co_return false;
    }

    Task<bool> respond(Parser& parser) {
        auto message = parser.release();
        const bool keep_alive = message.keep_alive();
        Request request;
        request.id = state_->api.new_request_id();
        request.method = std::string(message.method_string());
        request.target = std::string(message.target());
        request.remote = remote_;
        for (const auto& field : message)
            request.headers.emplace_back(lower_case(field.name_string()), field.value());
        request.body = std::move(message.body());
        // Answered like GET; its body stays here.
        const bool head = request.method == "HEAD";
        if (head) request.method = "GET";
        const std::string id = request.id;
        if (!read_target(request.target, request)) {
            co_return co_await refuse(invalid_request("the target is not well encoded"));
        }
        stream_.expires_never();
        Response response;
        try {
            response = co_await state_->api.handle(std::move(request));
        } catch (const std::exception& thrown) {
            state_->log.error("request.threw", {{"request", id}, {"what", thrown.what()}});
            response = problem_response(
                {500, "internal", "Internal error", "something went wrong on our side"}, id);
        }
        if (response.known) become_known();
        if (response.events && !head) {
            co_await stream_events(response, id);
            co_return false;
        }
        const bool keeps = keep_alive && !response.close && !state_->stopping;
        const bool written = co_await write(response, id, keeps, head);
        co_return written&& keeps;
    }

    std::string header_of(const Response& response, const std::string& id) const {
        std::string out =
            "HTTP/1.1 " + std::to_string(response.status) + " " +
            std::string(http::obsolete_reason(static_cast<http::status>(response.status))) +
            "\r\nX-Request-Id: " + id + "\r\n";
        if (response.status != 204) out += "Content-Type: " + response.content_type + "\r\n";
        for (const auto& [name, value] : response.headers)
            out += name + ": " + value + "\r\n";
        out += "X-Content-Type-Options: nosniff\r\n";
        return out;
    }

    Task<bool> write(const Response& response, const std::string& id, bool keeps,
                     bool head = false) {
        std::string out = header_of(response, id);
        if (response.status != 204) {
            out += "Content-Length: " + std::to_string(response.body.size()) + "\r\n";
        }
        out += keeps ? "\r\n" : "Connection: close\r\n\r\n";
        if (!head) out += response.body;
        stream_.expires_after(state_->limits.write_time);
        const auto [failed, bytes] = co_await asio::async_write(stream_, asio::buffer(out), kAwait);
        co_return !failed;
    }

    Task<void> stream_events(Response& response, const std::string& id) {
        const std::string header = header_of(response, id) + "Connection: close\r\n\r\n";
        stream_.expires_after(state_->limits.write_time);
        const auto [failed, bytes] =
            co_await asio::async_write(stream_, asio::buffer(header), kAwait);
        if (failed) co_return;
        events_ = response.events.get();
        stream_.expires_never();
        // Whoever hangs up is noticed when nothing is sent, too.
        stream_.socket().async_wait(tcp::socket::wait_read,
                                    [source = response.events.get(),
                                     alive = std::weak_ptr(alive_)](const beast::error_code&) {
                                        if (!alive.expired()) source->close();
                                    });
        for (;;) {
            const std::string text = co_await response.events->next();
            if (text.empty()) break;
            stream_.expires_after(state_->limits.write_time);
            const auto [broken, sent] =
                co_await asio::async_write(stream_, asio::buffer(text), kAwait);
            if (broken) break;
            stream_.expires_never();
        }
        events_ = nullptr;
        alive_.reset();
    }

    static constexpr std::size_t kReadBytes = 8U << 10U;

    std::shared_ptr<State> state_;
    beast::tcp_stream stream_;
    std::string remote_;
    bool busy_ = false;
    bool known_ = false;
    EventSource* events_ = nullptr;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // while events may be closed
};

namespace {

Result<tcp::endpoint> resolve(const asio::any_io_executor& loop, const std::string& host,
                              std::uint16_t port) {
    beast::error_code error;
    tcp::resolver resolver(loop);
    const auto found = resolver.resolve(
        host, std::to_string(port), tcp::resolver::passive | tcp::resolver::numeric_service, error);
    if (!error && !found.empty()) return found.begin()->endpoint();
    return Error(ErrorKind::unavailable, "cannot_listen",
                 "cannot listen on " + host + ": " + error.message());
}

}  // namespace

HttpServer::HttpServer(asio::any_io_executor loop, Api& api, Logger& log, HttpLimits limits)
    : state_(std::make_shared<State>(std::move(loop), api, log, limits)) {}

HttpServer::~HttpServer() = default;

Result<std::uint16_t> HttpServer::listen(const std::string& host, std::uint16_t port) {
    const Result<tcp::endpoint> endpoint = resolve(state_->loop, host, port);
    if (!endpoint) return endpoint.error();
    beast::error_code error;
    tcp::acceptor& acceptor = state_->acceptor;
    acceptor.open(endpoint->protocol(), error);
    if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor.bind(*endpoint, error);
    if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
    if (error == asio::error::address_in_use) {
        return Error(ErrorKind::unavailable, "address_in_use",
                     host + ":" + std::to_string(port) +
                         " is in use; choose another one with --listen, or stop who has it");
    }
    if (error) {
        return Error(
            ErrorKind::unavailable, "cannot_listen",
            "cannot listen on " + host + ":" + std::to_string(port) + ": " + error.message());
    }
    auto accept = [](std::shared_ptr<State> state) -> Task<void> {
        while (!state->stopping) {
            auto [failed, socket] = co_await state->acceptor.async_accept(kAwait);
            if (failed == asio::error::operation_aborted) break;
            if (failed) {
                // Too many open files, say: the others go on, and this one is tried again.
                asio::steady_timer pause(state->loop, std::chrono::milliseconds(50));
                (void)co_await pause.async_wait(kAwait);
                continue;
            }
            if (state->connections.size() >= state->limits.connections) continue;
            beast::error_code ignored;
            socket.set_option(tcp::no_delay(true), ignored);
            const std::string remote = socket.remote_endpoint(ignored).address().to_string();
            const auto unknown = state->unknown.find(remote);
            const bool too_many = unknown != state->unknown.end() &&
                                  unknown->second >= state->limits.connections_per_address;
            if (too_many) continue;
            auto connection = std::make_unique<Connection>(state, std::move(socket), remote);
            auto serve = [](std::unique_ptr<Connection> one) -> Task<void> { co_await one->run(); };
            Task<void> served = serve(std::move(connection));
            asio::co_spawn(state->loop, std::move(served), [state](const std::exception_ptr& e) {
                if (e) state->log.error("connection.escaped", {});
            });
        }
    };
    asio::co_spawn(state_->loop, accept(state_), [](const std::exception_ptr&) {});
    return acceptor.local_endpoint().port();
}

void HttpServer::stop() {
    state_->stopping = true;
    beast::error_code ignored;
    state_->acceptor.close(ignored);
    for (Connection* connection : state_->connections)
        connection->close_if_idle();
}

void HttpServer::close_all() {
    const std::set<Connection*> left = state_->connections;
    for (Connection* connection : left)
        connection->close();
}

std::size_t HttpServer::connections() const {
    return state_->connections.size();
}

}  // namespace rouse::server
