#pragma once

// Runs one task on a loop that others share, until that task has ended.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <exception>
#include <optional>
#include <utility>

namespace rouse::testing {

template <class T>
T run_on(boost::asio::io_context& loop, boost::asio::awaitable<T> task) {
    std::optional<T> result;
    std::exception_ptr thrown;
    const auto done = [&](const std::exception_ptr& error, T value) {
        thrown = error;
        result = std::move(value);
    };
    boost::asio::co_spawn(loop, std::move(task), done);
    loop.restart();
    while (!result && loop.run_one() > 0) {
    }
    if (thrown) std::rethrow_exception(thrown);
    return std::move(result).value();
}

}  // namespace rouse::testing
