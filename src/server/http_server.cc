#include "server/http_server.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/error.hpp>

#include "server/connection.h"

namespace rouse::server {

namespace asio = boost::asio;
namespace beast = boost::beast;
using tcp = asio::ip::tcp;

namespace {

constexpr auto kAwaitAccept = asio::as_tuple(asio::use_awaitable);

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

struct HttpServer::State {
    std::shared_ptr<Wire> wire;
    tcp::acceptor acceptor;
};

HttpServer::HttpServer(const asio::any_io_executor& loop, Api& api, Logger& log, HttpLimits limits)
    : state_(std::make_shared<State>(std::make_shared<Wire>(Wire{loop, api, log, limits}),
                                     tcp::acceptor(loop))) {}

HttpServer::~HttpServer() = default;

Result<std::uint16_t> HttpServer::listen(const std::string& host, std::uint16_t port) {
    const Result<tcp::endpoint> endpoint = resolve(state_->wire->loop, host, port);
    if (!endpoint) return endpoint.error();
    beast::error_code error;
    tcp::acceptor& acceptor = state_->acceptor;
    error = acceptor.open(endpoint->protocol(), error);
    if (!error) error = acceptor.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) error = acceptor.bind(*endpoint, error);
    if (!error) error = acceptor.listen(asio::socket_base::max_listen_connections, error);
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
        const std::shared_ptr<Wire> wire = state->wire;
        while (!wire->stopping) {
            auto [failed, socket] = co_await state->acceptor.async_accept(kAwaitAccept);
            if (failed == asio::error::operation_aborted) break;
            if (failed) {
                // Too many open files, say: the others go on, and this one is tried again.
                asio::steady_timer pause(wire->loop, std::chrono::milliseconds(50));
                (void)co_await pause.async_wait(kAwaitAccept);
                continue;
            }
            if (wire->connections.size() >= wire->limits.connections) continue;
            beast::error_code ignored;
            ignored = socket.set_option(tcp::no_delay(true), ignored);
            const std::string remote = socket.remote_endpoint(ignored).address().to_string();
            const auto unknown = wire->unknown.find(remote);
            const bool too_many = !wire->limits.behind_proxy && unknown != wire->unknown.end() &&
                                  unknown->second >= wire->limits.connections_per_address;
            if (too_many) continue;
            auto connection = make_connection(wire, std::move(socket), remote);
            auto serve = [](std::unique_ptr<Connection> one) -> Task<void> { co_await one->run(); };
            Task<void> served = serve(std::move(connection));
            asio::co_spawn(wire->loop, std::move(served), [wire](const std::exception_ptr& e) {
                if (e) wire->log.error("connection.escaped", {});
            });
        }
    };
    asio::co_spawn(state_->wire->loop, accept(state_), [](const std::exception_ptr&) {});
    return acceptor.local_endpoint().port();
}

Result<void> HttpServer::use_tls(const std::string& certificate, const std::string& key) {
    namespace ssl = asio::ssl;
    beast::error_code error;
    auto tls = std::make_shared<ssl::context>(ssl::context::tls_server);
    tls->set_options(ssl::context::default_workarounds | ssl::context::no_sslv3 |
                     ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1 | SSL_OP_NO_RENEGOTIATION);
    // OpenSSL would ask for it at the terminal.
    error = tls->set_password_callback([](auto...) { return std::string(); }, error);
    const auto refusal = [&](const char* what, const std::string& file) {
        return Error(
            ErrorKind::invalid, "bad_tls",
            "cannot use " + file + " as " + what + ", which is a PEM file: " + error.message());
    };
    error = tls->use_certificate_chain_file(certificate, error);
    if (error) return refusal("server.tls_cert", certificate);
    error = tls->use_private_key_file(key, ssl::context::pem, error);
    if (error) return refusal("server.tls_key", key);
    state_->wire->tls = std::move(tls);
    return {};
}

void HttpServer::stop() {
    state_->wire->stopping = true;
    beast::error_code ignored;
    ignored = state_->acceptor.close(ignored);
    for (Connection* connection : state_->wire->connections)
        connection->close_if_idle();
}

void HttpServer::close_all() {
    const std::set<Connection*> left = state_->wire->connections;
    for (Connection* connection : left)
        connection->close();
}

std::size_t HttpServer::connections() const {
    return state_->wire->connections.size();
}

}  // namespace rouse::server
