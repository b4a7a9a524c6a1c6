#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

namespace rouse::server {

// Answers that other threads bring to the loop of the sockets. It takes a few at a time and looks
// at its sockets in between, so that nobody stands behind a whole crowd's answers.
class AnswerLine final {
 public:
    using Answer = std::move_only_function<void()>;

    explicit AnswerLine(boost::asio::any_io_executor loop) : loop_(std::move(loop)) {}

    void put(Answer answer);  // from any thread

 private:
    void take_some();

    boost::asio::any_io_executor loop_;
    std::mutex mutex_;
    std::deque<Answer> brought_;
    bool on_its_way_ = false;   // the loop, to what was brought
    std::deque<Answer> taken_;  // the loop's own
};

}  // namespace rouse::server
