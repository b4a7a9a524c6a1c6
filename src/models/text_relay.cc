#include "models/text_relay.h"

#include <boost/asio/post.hpp>

namespace rouse {

Result<void> TextRelay::push(std::string text) {
    {
        const std::lock_guard lock(mutex_);
        if (!said_) return said_;
        waiting_.push_back(std::move(text));
    }
    boost::asio::post(turn_, [self = shared_from_this()] { self->deliver(); });
    return {};
}

Result<void> TextRelay::close() {
    deliver();
    {
        const std::lock_guard lock(delivering_);
        closed_ = true;
    }
    const std::lock_guard lock(mutex_);
    return said_;
}

void TextRelay::deliver() {
    const std::lock_guard calling(delivering_);
    for (;;) {
        std::string text;
        {
            const std::lock_guard lock(mutex_);
            if (closed_ || !said_ || waiting_.empty()) return;
            text = std::move(waiting_.front());
            waiting_.pop_front();
        }
        Result<void> sent;
        try {
            sent = on_text_(text);
        } catch (const std::exception& thrown) {
            sent = Error(ErrorKind::internal, "exception",
                         std::string("whoever listens to the model threw: ") + thrown.what());
        }
        if (sent) continue;
        const std::lock_guard lock(mutex_);
        said_ = sent;
    }
}

}  // namespace rouse
