#include "net/curl_multi.h"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/limits.h"
#include "base/time.h"

namespace rouse {

namespace asio = boost::asio;

// A socket of libcurl's, lent: it is given back open, and libcurl closes it.
struct CurlMulti::Socket {
    Socket(const Strand& strand, curl_socket_t number) : fd(number), descriptor(strand) {
        boost::system::error_code failed;
        lent = !descriptor.assign(fd, failed);
    }
    ~Socket() { release(); }
    Socket(const Socket&) = delete;
    Socket& operator=(const Socket&) = delete;

    void release() {
        if (std::exchange(lent, false)) descriptor.release();
        gone = true;
    }

    curl_socket_t fd;
    asio::posix::stream_descriptor descriptor;
    int interest = 0;  // CURL_POLL_IN | CURL_POLL_OUT, which equal CURL_CSELECT_IN and _OUT
    int waiting = 0;   // for which of them a handler waits
    bool lent = false;
    bool gone = false;
};

static_assert(CURL_POLL_IN == CURL_CSELECT_IN && CURL_POLL_OUT == CURL_CSELECT_OUT);

CurlMulti::CurlMulti(const Strand& strand, Finished finished)
    : strand_(strand), finished_(std::move(finished)), timer_(strand), multi_(curl_multi_init()) {
    ROUSE_CHECK(multi_ != nullptr, "libcurl has no memory for a multi handle");
    curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &CurlMulti::on_socket);
    curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
    curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &CurlMulti::on_timer);
    curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, limits::kHttpKeptConnections);
}

CurlMulti::~CurlMulti() {
    curl_multi_cleanup(multi_);
}

bool CurlMulti::add(CURL* easy) {
    return curl_multi_add_handle(multi_, easy) == CURLM_OK;
}

void CurlMulti::remove(CURL* easy) {
    curl_multi_remove_handle(multi_, easy);
}

int CurlMulti::on_socket(CURL* /*easy*/, curl_socket_t fd, int what, void* self, void* /*unused*/) {
    static_cast<CurlMulti*>(self)->watch(fd, what);
    return 0;
}

int CurlMulti::on_timer(CURLM* /*multi*/, long after_ms, void* self) {
    static_cast<CurlMulti*>(self)->set_timer(after_ms);
    return 0;
}

void CurlMulti::watch(curl_socket_t fd, int interest) {
    const auto known = sockets_.find(fd);
    if (interest == CURL_POLL_REMOVE) {
        if (known == sockets_.end()) return;
        known->second->release();
        sockets_.erase(known);
        return;
    }
    std::shared_ptr<Socket> socket;
    if (known != sockets_.end()) {
        socket = known->second;
    } else {
        socket = std::make_shared<Socket>(strand_, fd);
        sockets_.emplace(fd, socket);
    }
    socket->interest = interest;
    arm(socket);
}

void CurlMulti::arm(const std::shared_ptr<Socket>& socket) {
    for (const int event : {CURL_POLL_IN, CURL_POLL_OUT}) {
        const bool wanted = (socket->interest & event) != 0;
        if (wanted && (socket->waiting & event) == 0) wait(socket, event);
    }
}

void CurlMulti::wait(const std::shared_ptr<Socket>& socket, int event) {
    socket->waiting |= event;
    auto happened = [weak = weak_from_this(), socket, event](boost::system::error_code failed) {
        socket->waiting &= ~event;
        const auto self = weak.lock();
        // What libcurl no longer asks for may still be waited for.
        if (!self || socket->gone || (socket->interest & event) == 0) return;
        self->ready(socket, failed ? CURL_CSELECT_ERR : event);
    };
    const auto kind = event == CURL_POLL_IN ? asio::posix::descriptor_base::wait_read
                                            : asio::posix::descriptor_base::wait_write;
    socket->descriptor.async_wait(kind, std::move(happened));
}

void CurlMulti::ready(const std::shared_ptr<Socket>& socket, int events) {
    act(socket->fd, events);
    if (!socket->gone) arm(socket);
}

void CurlMulti::set_timer(long after_ms) {
    timer_.cancel();
    if (after_ms < 0) return;
    timer_.expires_after(Milliseconds(after_ms));
    timer_.async_wait([weak = weak_from_this()](boost::system::error_code stopped) {
        const auto self = weak.lock();
        if (self && !stopped) self->act(CURL_SOCKET_TIMEOUT, 0);
    });
}

void CurlMulti::act(curl_socket_t fd, int events) {
    int running = 0;
    curl_multi_socket_action(multi_, fd, events, &running);
    std::vector<std::pair<CURL*, CURLcode>> ended;
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi_, &left)) {
        if (message->msg == CURLMSG_DONE) {
            ended.emplace_back(message->easy_handle, message->data.result);
        }
    }
    for (const auto& [easy, code] : ended)
        finished_(easy, code);
}

}  // namespace rouse
