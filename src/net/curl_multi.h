#pragma once

// libcurl's transfers on an Asio loop: libcurl says which sockets and which time to wait for, Asio
// waits.

#include <curl/curl.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <functional>
#include <memory>
#include <unordered_map>

namespace rouse {

// Touched on its strand only, and never from inside a callback of libcurl's.
class CurlMulti final : public std::enable_shared_from_this<CurlMulti> {
 public:
    using Strand = boost::asio::strand<boost::asio::any_io_executor>;
    // Whoever is told removes the handle.
    using Finished = std::function<void(CURL*, CURLcode)>;

    CurlMulti(const Strand& strand, Finished finished);
    ~CurlMulti();
    CurlMulti(const CurlMulti&) = delete;
    CurlMulti& operator=(const CurlMulti&) = delete;

    // False: libcurl would not take it.
    bool add(CURL* easy);
    void remove(CURL* easy);

 private:
    struct Socket;

    static int on_socket(CURL* easy, curl_socket_t fd, int what, void* self, void* unused);
    static int on_timer(CURLM* multi, long after_ms, void* self);
    void watch(curl_socket_t fd, int interest);
    void arm(const std::shared_ptr<Socket>& socket);
    void wait(const std::shared_ptr<Socket>& socket, int event);
    void ready(const std::shared_ptr<Socket>& socket, int events);
    void set_timer(long after_ms);
    void act(curl_socket_t fd, int events);

    Strand strand_;
    Finished finished_;
    boost::asio::steady_timer timer_;
    // Shared with the handlers that wait for them.
    std::unordered_map<curl_socket_t, std::shared_ptr<Socket>> sockets_;
    CURLM* multi_;
};

}  // namespace rouse
