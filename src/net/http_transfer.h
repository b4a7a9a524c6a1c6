#pragma once

// One request on its way: a libcurl handle set up for it, what has come back so far, and the
// judgement of how it ended.

#include <curl/curl.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/http_client.h"

namespace rouse {

// Must not move while libcurl has its handle; must outlive its stay there.
class HttpTransfer final {
 public:
    using Clock = std::chrono::steady_clock;

    //   invalid   invalid_url, invalid_header, invalid_method
    static Result<std::unique_ptr<HttpTransfer>> make(HttpRequest request);

    HttpTransfer(const HttpTransfer&) = delete;
    HttpTransfer& operator=(const HttpTransfer&) = delete;

    CURL* easy() const { return easy_.get(); }
    bool was_sent() const { return was_sent_; }
    Clock::time_point last_activity() const { return last_activity_; }

    Result<HttpResponse> take_result(CURLcode code);
    Error idle_error() const;

 private:
    template <auto function>
    struct Free {
        template <class T>
        void operator()(T* thing) const {
            function(thing);
        }
    };

    explicit HttpTransfer(HttpRequest request);
    Result<void> set_url();
    Result<void> set_method();
    Result<void> set_headers();
    void set_limits();
    void set_connection();
    void set_callbacks();

    static curl_socket_t open_socket(void* self, curlsocktype purpose, curl_sockaddr* address);
    static int before_request(void* self, char* address, char* local_address, int port,
                              int local_port);
    static std::size_t header_came(char* data, std::size_t size, std::size_t count, void* self);
    static std::size_t body_came(char* data, std::size_t size, std::size_t count, void* self);
    static int progressed(void* self, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                          curl_off_t up);

    bool take_header(std::string_view line);
    bool take_body(std::string_view bytes);
    bool end_headers();
    Error describe(ErrorKind kind, std::string_view reason, std::string_view what) const;

    HttpRequest request_;
    std::string target_;  // method, scheme, host and port: what may be shown. Paths hold secrets
    std::unique_ptr<CURL, Free<curl_easy_cleanup>> easy_;
    std::unique_ptr<CURLU, Free<curl_url_cleanup>> url_;
    std::unique_ptr<curl_slist, Free<curl_slist_free_all>> headers_;
    char curl_words_[CURL_ERROR_SIZE] = {};

    HttpResponse response_;
    std::size_t header_bytes_ = 0;
    std::size_t body_bytes_ = 0;
    curl_off_t sent_bytes_ = 0;
    Clock::time_point last_activity_;
    std::optional<Error> failure_;  // found by a callback
    bool headers_ended_ = false;    // of the response that counts
    bool was_sent_ = false;         // or is about to be
    bool address_refused_ = false;
    bool address_tried_ = false;
};

}  // namespace rouse
