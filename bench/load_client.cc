#include "bench/load_client.h"

#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>

namespace rouse::bench {

using asio::use_awaitable;
using asio::ip::tcp;

std::string head_of(const Target& target, const Request& request, const std::string& more_lines) {
    std::string head(http::to_string(request.method));
    head += " " + request.path + " HTTP/1.1\r\nHost: " + target.server.text() + "\r\n";
    if (!target.token.empty()) head += "Authorization: Bearer " + target.token + "\r\n";
    head += more_lines;
    if (request.method == http::verb::post) {
        head += "Content-Type: application/json\r\nContent-Length: " +
                std::to_string(request.body.size()) + "\r\n";
    }
    return head + "\r\n";
}

Task<tcp::socket> connect(const Target& target) {
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    tcp::resolver resolver(executor);
    const std::string port = std::to_string(target.server.port);
    const auto found = co_await resolver.async_resolve(target.server.host, port, use_awaitable);
    tcp::socket socket(executor);
    const tcp::endpoint endpoint = found.begin()->endpoint();
    co_await socket.async_connect(endpoint, use_awaitable);
    socket.set_option(tcp::no_delay(true));
    co_return socket;
}

Task<Answer> Client::send(Request request, std::string kind) {
    const SteadyClock::time_point start = SteadyClock::now();
    std::string failure;
    try {
        Answer answer = co_await exchange(request);
        RequestKind& counted = report_.kinds[kind];
        counted.latencies.add(SteadyClock::now() - start);
        counted.request_bytes += request.body.size();
        counted.answer_bytes += answer.body.size();
        ++report_.requests;
        co_return answer;
    } catch (const boost::system::system_error& failed) {
        failure = failed.code().message();
    }
    socket_.reset();
    buffer_.clear();
    const std::string method(http::to_string(request.method));
    throw Unexpected("connection", method + " " + request.path + ": " + failure);
}

Task<Answer> Client::exchange(const Request& request) {
    if (!socket_) socket_ = co_await connect(target_);
    sent_ = head_of(target_, request) + request.body;
    const asio::const_buffer bytes = asio::buffer(sent_);
    co_await asio::async_write(*socket_, bytes, use_awaitable);
    http::response_parser<http::string_body> parser;
    parser.body_limit(std::numeric_limits<std::uint64_t>::max());
    co_await http::async_read(*socket_, buffer_, parser, use_awaitable);
    Answer answer;
    answer.status = parser.get().result_int();
    answer.body = std::move(parser.get().body());
    if (!parser.get().keep_alive()) {
        socket_.reset();
        buffer_.clear();
    }
    co_return answer;
}

}  // namespace rouse::bench
