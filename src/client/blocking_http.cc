#include "client/blocking_http.h"

#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <exception>
#include <memory>

#include "net/operation.h"

namespace rouse::client {

namespace asio = boost::asio;

BlockingHttp::BlockingHttp(int interrupt) {
    if (interrupt < 0) return;
    interrupt_.assign(::dup(interrupt));
    interrupt_.async_wait(asio::posix::descriptor_base::wait_read,
                          [this](const boost::system::error_code& error) {
                              if (!error) interrupted_ = true;
                          });
}

Result<HttpResponse> BlockingHttp::send(HttpRequest request) {
    // Shared: an interrupted wait leaves the request behind.
    const auto answer = std::make_shared<std::optional<Result<HttpResponse>>>();
    asio::co_spawn(loop_, http_.send(std::move(request)),
                   [answer](const std::exception_ptr& thrown, Result<HttpResponse> response) {
                       if (thrown) std::rethrow_exception(thrown);
                       *answer = std::move(response);
                   });
    const auto answered = [&] { return answer->has_value(); };
    if (const Result<bool> ran = run_until(answered, std::nullopt); !ran) return ran.error();
    return *std::move(*answer);
}

Result<bool> BlockingHttp::run_until(const std::function<bool()>& done,
                                     std::optional<Milliseconds> patience) {
    const auto over = std::make_shared<bool>(false);
    asio::steady_timer timer(loop_);
    if (patience) {
        timer.expires_after(*patience);
        timer.async_wait([over](const boost::system::error_code& error) { *over = !error; });
    }
    loop_.restart();
    while (!done()) {
        if (interrupted_) return cancelled_error("the wait for the server");
        if (*over) return false;
        if (loop_.run_one() == 0) {
            return Error(ErrorKind::internal, "internal", "nothing is left to wait for");
        }
    }
    return true;
}

}  // namespace rouse::client
