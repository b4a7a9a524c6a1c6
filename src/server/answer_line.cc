#include "server/answer_line.h"

#include <boost/asio/post.hpp>
#include <utility>

namespace rouse::server {

namespace asio = boost::asio;

namespace {

// A look at the sockets costs a tenth of an answer: not after each.
constexpr int kAtOnce = 2;

}  // namespace

void AnswerLine::put(Answer answer) {
    const std::lock_guard lock(mutex_);
    brought_.push_back(std::move(answer));
    if (!std::exchange(on_its_way_, true)) asio::post(loop_, [this] { take_some(); });
}

void AnswerLine::take_some() {
    for (int i = 0; i < kAtOnce; ++i) {
        if (taken_.empty()) {
            const std::lock_guard lock(mutex_);
            if (brought_.empty()) {
                on_its_way_ = false;
                return;
            }
            taken_.swap(brought_);
        }
        Answer answer = std::move(taken_.front());
        taken_.pop_front();
        answer();
    }
    asio::post(loop_, [this] { take_some(); });
}

}  // namespace rouse::server
