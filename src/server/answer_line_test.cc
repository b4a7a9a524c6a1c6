#include "server/answer_line.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/connect_pair.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>
#include <string>
#include <thread>

namespace rouse::server {
namespace {

namespace asio = boost::asio;
using Socket = asio::local::stream_protocol::socket;

class AnswerLineTest : public testing::Test {
 protected:
    asio::io_context loop_{1};
    AnswerLine line_{loop_.get_executor()};
    std::string seen_;
};

TEST_F(AnswerLineTest, TakesThemInOrder) {
    std::thread other([this] {
        for (char c = 'a'; c <= 'z'; ++c)
            line_.put([this, c] { seen_ += c; });
    });
    other.join();
    loop_.run();
    EXPECT_EQ(seen_, "abcdefghijklmnopqrstuvwxyz");
}

TEST_F(AnswerLineTest, SocketsComeBetweenAnswers) {
    Socket near(loop_);
    Socket far(loop_);
    asio::local::connect_pair(near, far);
    near.async_wait(Socket::wait_read, [this](const boost::system::error_code&) { seen_ += '!'; });
    line_.put([this, &far] {
        seen_ += 'a';
        asio::write(far, asio::buffer("x", 1));
    });
    for (char c = 'b'; c <= 'z'; ++c)
        line_.put([this, c] { seen_ += c; });
    loop_.run();
    EXPECT_LT(seen_.find('!'), seen_.find('f')) << seen_;
    EXPECT_EQ(seen_.size(), 27);
}

TEST_F(AnswerLineTest, TakesWhatComesWhileItIsEmptyAndWhileItAnswers) {
    line_.put([this] {
        seen_ += 'a';
        line_.put([this] { seen_ += 'b'; });
    });
    loop_.run();
    EXPECT_EQ(seen_, "ab");
    loop_.restart();
    line_.put([this] { seen_ += 'c'; });
    loop_.run();
    EXPECT_EQ(seen_, "abc");
}

}  // namespace
}  // namespace rouse::server
