#include "server/connection.h"

#include <poll.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <concepts>
#include <stop_token>

#include "base/utf8.h"
#include "server/body.h"

namespace rouse::server {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using tcp = asio::ip::tcp;

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

// %41 and nothing else; a plus is a plus, but in a query. What comes out is UTF-8, since it may
// appear in an answer.
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
    if (to_utf8(out) != out) return std::nullopt;
    return out;
}

bool read_target(std::string_view target, Request& request) {
    const std::size_t mark = target.find('?');
    const std::string_view raw_path = target.substr(0, mark);
    const std::optional<std::string> path = percent_decode(raw_path, false);
    if (!path) return false;
    // An encoded slash is not one between the path's parts: whoever is in front of us did not see
    // it as one. No name of ours has one.
    const bool hides_slash = std::ranges::count(*path, '/') != std::ranges::count(raw_path, '/');
    request.path = hides_slash ? std::string(raw_path) : *path;
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

// A proxy adds the address that it sees to what its client said; the rest is hearsay.
std::string client_of(const Parser::value_type& message, const std::string& proxy) {
    std::string_view hops;
    for (const auto& field : message) {
        if (lower_case(field.name_string()) == "x-forwarded-for") hops = field.value();
    }
    const std::size_t comma = hops.rfind(',');
    std::string_view last = hops.substr(comma == std::string_view::npos ? 0 : comma + 1);
    last.remove_prefix(std::min(last.find_first_not_of(" \t"), last.size()));
    last = last.substr(0, last.find_last_not_of(" \t") + 1);
    beast::error_code bad;
    const auto address = asio::ip::make_address(std::string(last), bad);
    return bad ? proxy : address.to_string();
}

// The other side will send nothing more, whatever there is still to read.
bool has_ended(tcp::socket& socket) {
    pollfd one{socket.native_handle(), POLLRDHUP, 0};
    return ::poll(&one, 1, 0) > 0;
}

// `Stream` is a TCP stream, or TLS on one.
template <class Stream>
class StreamConnection final : public Connection {
 public:
    template <class... Tls>
    StreamConnection(std::shared_ptr<Wire> wire, tcp::socket socket, std::string remote,
                     Tls&... tls)
        : wire_(std::move(wire)), stream_(std::move(socket), tls...), remote_(std::move(remote)) {
        wire_->connections.insert(this);
        ++wire_->unknown[remote_];
    }
    StreamConnection(const StreamConnection&) = delete;
    StreamConnection& operator=(const StreamConnection&) = delete;
    ~StreamConnection() override {
        wire_->connections.erase(this);
        become_known();
    }

    Task<void> run() override {
        const bool is_open = co_await begin();
        if (!is_open) co_return;
        beast::flat_buffer buffer;
        while (!wire_->stopping) {
            Parser parser;
            parser.header_limit(static_cast<std::uint32_t>(wire_->limits.header_bytes));
            parser.body_limit(wire_->limits.body_bytes);
            const bool goes_on = co_await read(buffer, parser);
            if (!goes_on) break;
            busy_ = true;
            const bool keeps = co_await respond(parser);
            busy_ = false;
            if (!keeps) break;
        }
        co_await end();
    }

    void close_if_idle() override {
        if (!busy_) transport().cancel();
    }
    void close() override {
        if (events_ != nullptr) events_->close();
        transport().cancel();
    }

 private:
    static constexpr bool kTls = !std::same_as<Stream, beast::tcp_stream>;

    beast::tcp_stream& transport() { return beast::get_lowest_layer(stream_); }

    Task<bool> begin() {
        if constexpr (kTls) {
            transport().expires_after(wire_->limits.header_time);
            const auto [failed] =
                co_await stream_.async_handshake(asio::ssl::stream_base::server, kAwait);
            co_return !failed;
        } else {
            co_return true;
        }
    }

    Task<void> end() {
        if constexpr (kTls) {
            transport().expires_after(wire_->limits.header_time);
            (void)co_await stream_.async_shutdown(kAwait);
        }
        beast::error_code ignored;
        transport().socket().shutdown(tcp::socket::shutdown_send, ignored);
        if (refused_ && !kTls) co_await drop_the_rest();
    }

    // Closed while the client still sends, its system would throw away what we answered.
    Task<void> drop_the_rest() {
        std::string dropped(kSendBytes, '\0');
        transport().expires_after(kDropTime);
        for (std::size_t left = kDropBytes; left > 0;) {
            const auto [ended, bytes] =
                co_await transport().async_read_some(asio::buffer(dropped), kAwait);
            if (ended) break;
            left -= std::min(left, bytes);
        }
    }

    // From then on it does not count among those of its address.
    void become_known() {
        if (std::exchange(known_, true)) return;
        const auto count = wire_->unknown.find(remote_);
        if (--count->second == 0) wire_->unknown.erase(count);
    }

    // False: there is nothing more to read, or nothing that could be answered.
    Task<bool> read(beast::flat_buffer& buffer, Parser& parser) {
        const bool has_header = co_await read_header(buffer, parser);
        if (!has_header) co_return false;
        if (auto problem = check_framing(parser.get(), wire_->limits)) {
            co_return co_await refuse(*std::move(problem));
        }
        if (parser.is_done()) co_return true;
        transport().expires_after(wire_->limits.request_time);
        if (lower_case(parser.get()[http::field::expect]) == "100-continue") {
            constexpr std::string_view kGoOn = "HTTP/1.1 100 Continue\r\n\r\n";
            const auto [failed, sent] =
                co_await asio::async_write(stream_, asio::buffer(kGoOn), kAwait);
            if (failed) co_return false;
        }
        co_return co_await read_body(buffer, parser);
    }

    // Most bodies came together with their header: nothing is waited for then.
    Task<bool> read_body(beast::flat_buffer& buffer, Parser& parser) {
        parser.eager(true);
        for (;;) {
            beast::error_code bad;
            if (buffer.size() > 0) buffer.consume(parser.put(buffer.data(), bad));
            if (bad && bad != http::error::need_more) co_return co_await refuse(bad);
            if (parser.is_done()) co_return true;
            const auto [broken, bytes] =
                co_await stream_.async_read_some(buffer.prepare(kReadBytes), kAwait);
            if (broken) co_return false;
            buffer.commit(bytes);
        }
    }

    // Beast takes folded fields as if they were one line, so each piece is looked at before.
    Task<bool> read_header(beast::flat_buffer& buffer, Parser& parser) {
        transport().expires_after(wire_->limits.idle_time);
        for (bool first = buffer.size() == 0;; first = false) {
            if (!first) {
                beast::error_code bad;
                if (has_folds(buffer)) {
                    co_return co_await refuse(invalid_request("a header field has one line"));
                }
                buffer.consume(parser.put(buffer.data(), bad));
                if (bad && bad != http::error::need_more) co_return co_await refuse(bad);
                if (parser.is_header_done()) co_return true;
                transport().expires_after(wire_->limits.header_time);
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
                "the body has more than " + std::to_string(wire_->limits.body_bytes) + " bytes"));
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
        refused_ = true;
        const std::string id = wire_->api.new_request_id();
        Response response = wire_->api.refuse(std::move(problem), id);
        (void)co_await write(response, id, false);
        co_return false;
    }

    Task<bool> respond(Parser& parser) {
        auto message = parser.release();
        const bool keep_alive = message.keep_alive();
        Request request;
        request.id = wire_->api.new_request_id();
        request.method = std::string(message.method_string());
        request.target = std::string(message.target());
        request.remote = wire_->limits.behind_proxy ? client_of(message, remote_) : remote_;
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
        request.watch_client = [this](Request::Look look) { return watch_client(look); };
        transport().expires_never();
        Response response;
        try {
            response = co_await wire_->api.handle(std::move(request));
        } catch (const std::exception& thrown) {
            wire_->log.error("request.threw", {{"request", id}, {"what", thrown.what()}});
            response = problem_response(
                {500, "internal", "Internal error", "something went wrong on our side"}, id);
        }
        end_watch();
        if (response.known) become_known();
        if (response.events && !head) {
            co_await stream_events(response, id);
            co_return false;
        }
        const bool keeps = keep_alive && !response.close && !wire_->stopping;
        const bool written = co_await write(response, id, keeps, head);
        co_return written&& keeps;
    }

    // Looks for the end of what the client sends while a handler waits. Nothing is read meanwhile:
    // the next request may be there already, and TLS has a say of its own.
    struct Watch {
        explicit Watch(const asio::any_io_executor& loop) : again(loop) {}
        std::stop_source hung_up;
        asio::steady_timer again;
        bool on_socket = false;
    };

    std::stop_token watch_client(Request::Look look) {
        if (watch_) return watch_->hung_up.get_token();
        watch_ = std::make_shared<Watch>(wire_->loop);
        if (look == Request::Look::at_once) {
            watch_socket();
        } else {
            watch_->again.expires_after(kLookLater);
            watch_->again.async_wait(
                [this, watch = std::weak_ptr(watch_)](const beast::error_code&) {
                    if (!watch.expired()) watch_socket();
                });
        }
        return watch_->hung_up.get_token();
    }

    void watch_socket() {
        watch_->on_socket = true;
        transport().socket().async_wait(
            tcp::socket::wait_read,
            [this, watch = std::weak_ptr(watch_)](const beast::error_code&) {
                if (!watch.expired()) look_for_end();
            });
    }

    void look_for_end() {
        if (has_ended(transport().socket())) {
            watch_->hung_up.request_stop();
            return;
        }
        // Something else is there to be read, and would be reported at once, again and again.
        watch_->again.expires_after(kLookAgain);
        watch_->again.async_wait([this, watch = std::weak_ptr(watch_)](const beast::error_code&) {
            if (!watch.expired()) look_for_end();
        });
    }

    void end_watch() {
        if (!watch_) return;
        const bool on_socket = watch_->on_socket;
        watch_.reset();
        beast::error_code ignored;
        if (on_socket) transport().socket().cancel(ignored);  // nothing else is under way on it
    }

    std::string header_of(const Response& response, const std::string& id) const {
        std::string out =
            "HTTP/1.1 " + std::to_string(response.status) + " " +
            std::string(http::obsolete_reason(static_cast<http::status>(response.status))) +
            "\r\nX-Request-Id: " + id + "\r\n";
        if (response.status != 204) out += "Content-Type: " + response.content_type + "\r\n";
        for (const auto& [name, value] : response.headers)
            out.append(name).append(": ").append(value).append("\r\n");
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
        co_return co_await send(out);
    }

    // Whoever takes a piece in time is sent the next one, unless it is of a stream that was closed
    // meanwhile.
    Task<bool> send(std::string_view text) {
        while (!text.empty()) {
            transport().expires_after(wire_->limits.write_time);
            const std::string_view piece = text.substr(0, kSendBytes);
            const auto [failed, sent] =
                co_await asio::async_write(stream_, asio::buffer(piece), kAwait);
            if (failed) co_return false;
            text.remove_prefix(piece.size());
            if (events_ != nullptr && events_->is_closed()) break;
        }
        co_return true;
    }

    Task<void> stream_events(Response& response, const std::string& id) {
        const std::string header = header_of(response, id) + "Connection: close\r\n\r\n";
        const bool begun = co_await send(header);
        if (!begun) co_return;
        events_ = response.events.get();
        transport().expires_never();
        // Whoever hangs up is noticed when nothing is sent, too.
        transport().socket().async_wait(tcp::socket::wait_read,
                                        [source = response.events.get(),
                                         alive = std::weak_ptr(alive_)](const beast::error_code&) {
                                            if (!alive.expired()) source->close();
                                        });
        for (;;) {
            const std::string text = co_await response.events->next();
            if (text.empty()) break;
            const bool sent = co_await send(text);
            if (!sent) break;
            transport().expires_never();
        }
        events_ = nullptr;
        alive_.reset();
    }

    static constexpr std::size_t kReadBytes = 8U << 10U;
    static constexpr std::size_t kSendBytes = 256U << 10U;
    static constexpr std::size_t kDropBytes = 64U << 20U;
    static constexpr std::chrono::seconds kDropTime{3};
    static constexpr std::chrono::milliseconds kLookAgain{100};
    static constexpr std::chrono::seconds kLookLater{1};

    std::shared_ptr<Wire> wire_;
    Stream stream_;
    std::string remote_;
    bool busy_ = false;
    bool known_ = false;
    bool refused_ = false;          // what it sent was no request, or too long
    std::shared_ptr<Watch> watch_;  // while a handler wants it: what comes later finds it gone
    EventSource* events_ = nullptr;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // while events may be closed
};

}  // namespace

std::unique_ptr<Connection> make_connection(std::shared_ptr<Wire> wire, tcp::socket socket,
                                            std::string remote) {
    using Plain = StreamConnection<beast::tcp_stream>;
    using Tls = StreamConnection<beast::ssl_stream<beast::tcp_stream>>;
    const std::shared_ptr<asio::ssl::context> tls = wire->tls;
    if (!tls) {
        return std::make_unique<Plain>(std::move(wire), std::move(socket), std::move(remote));
    }
    return std::make_unique<Tls>(std::move(wire), std::move(socket), std::move(remote), *tls);
}

}  // namespace rouse::server
