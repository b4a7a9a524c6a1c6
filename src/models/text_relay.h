#pragma once

// Takes text from the network's strand to where the turn runs, in its order. The turn's listener is
// called nowhere else.

#include <boost/asio/any_io_executor.hpp>
#include <deque>
#include <memory>
#include <mutex>
#include <string>

#include "rouse/model.h"

namespace rouse {

class TextRelay final : public std::enable_shared_from_this<TextRelay> {
 public:
    // `on_text` is not called after close().
    TextRelay(boost::asio::any_io_executor turn, const Model::OnText& on_text)
        : turn_(std::move(turn)), on_text_(on_text) {}

    // From the network. The listener's error, if an earlier piece got one.
    Result<void> push(std::string text);
    // From the turn: hands over what is left. The listener's error.
    Result<void> close();

 private:
    void deliver();

    boost::asio::any_io_executor turn_;
    const Model::OnText& on_text_;
    std::mutex delivering_;  // held while the listener is called
    bool closed_ = false;    // under delivering_
    std::mutex mutex_;       // of what follows
    std::deque<std::string> waiting_;
    Result<void> said_;
};

}  // namespace rouse
