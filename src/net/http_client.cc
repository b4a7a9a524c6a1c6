#include "net/http_client.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <mutex>
#include <unordered_map>

#include "base/check.h"
#include "net/curl_multi.h"
#include "net/http_transfer.h"
#include "net/operation.h"

namespace rouse {
namespace {

namespace asio = boost::asio;

void start_curl() {
    static std::once_flag once;
    std::call_once(once, [] {
        ROUSE_CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK, "libcurl does not start");
    });
}

}  // namespace

// All requests in flight. On its strand, but for stop().
class HttpClient::Core final {
 public:
    explicit Core(const asio::any_io_executor& executor);

    void add(const std::shared_ptr<Sending>& sending);
    void remove(CURL* easy);
    void stop();

    CurlMulti::Strand strand;
    bool stopped = false;

 private:
    void finished(CURL* easy, CURLcode code);

    std::unordered_map<CURL*, std::shared_ptr<Sending>> in_flight_;
    std::shared_ptr<CurlMulti> multi_;  // its handlers look whether it still is
};

// One request. Whoever ends it first, ends it.
class HttpClient::Sending final : public Operation<HttpResponse>,
                                  public std::enable_shared_from_this<Sending> {
 public:
    Sending(std::shared_ptr<Core> core, HttpRequest request)
        : core_(std::move(core)),
          request_(std::move(request)),
          idle_timeout_(request_.idle_timeout),
          idle_(core_->strand) {}

    void start(Done<HttpResponse> done) override {
        done_ = std::move(done);
        asio::post(core_->strand, [self = shared_from_this()] { self->begin(); });
    }

    void cancel() override {
        asio::post(core_->strand,
                   [self = shared_from_this()] { self->end(cancelled_error("the request")); });
    }

    CURL* easy() const { return transfer_->easy(); }
    void finished(CURLcode code) { end(transfer_->take_result(code)); }

    void end(Result<HttpResponse> result) {
        if (!done_) return;
        if (transfer_) core_->remove(easy());
        transfer_.reset();
        idle_.cancel();
        std::exchange(done_, nullptr)(std::move(result));
    }

 private:
    void begin() {
        if (!done_) return;
        if (core_->stopped) return end(cancelled_error("the request"));
        Result<std::unique_ptr<HttpTransfer>> made = HttpTransfer::make(std::move(request_));
        if (!made) return end(made.error());
        transfer_ = *std::move(made);
        core_->add(shared_from_this());
        if (done_ && idle_timeout_.count() > 0) watch(HttpTransfer::Clock::now());
    }

    void watch(HttpTransfer::Clock::time_point last_activity) {
        idle_.expires_at(last_activity + idle_timeout_);
        idle_.async_wait([self = shared_from_this()](boost::system::error_code stopped) {
            if (!stopped && self->done_) self->look_whether_idle();
        });
    }

    void look_whether_idle() {
        const auto now = HttpTransfer::Clock::now();
        if (!transfer_->was_sent()) return watch(now);
        if (transfer_->last_activity() + idle_timeout_ > now) {
            return watch(transfer_->last_activity());
        }
        end(transfer_->idle_error());
    }

    std::shared_ptr<Core> core_;
    HttpRequest request_;
    Milliseconds idle_timeout_;
    asio::steady_timer idle_;
    std::unique_ptr<HttpTransfer> transfer_;
    Done<HttpResponse> done_;
};

HttpClient::Core::Core(const asio::any_io_executor& executor)
    : strand(asio::make_strand(executor)),
      multi_(std::make_shared<CurlMulti>(
          strand, [this](CURL* easy, CURLcode code) { finished(easy, code); })) {}

void HttpClient::Core::add(const std::shared_ptr<Sending>& sending) {
    CURL* easy = sending->easy();
    in_flight_.emplace(easy, sending);
    if (!multi_->add(easy)) {
        sending->end(Error(ErrorKind::internal, "internal", "libcurl refuses the request"));
    }
}

void HttpClient::Core::remove(CURL* easy) {
    multi_->remove(easy);
    in_flight_.erase(easy);
}

void HttpClient::Core::finished(CURL* easy, CURLcode code) {
    const auto found = in_flight_.find(easy);
    if (found == in_flight_.end()) return;
    const std::shared_ptr<Sending> sending = found->second;
    sending->finished(code);
}

void HttpClient::Core::stop() {
    stopped = true;
    while (!in_flight_.empty()) {
        const std::shared_ptr<Sending> sending = in_flight_.begin()->second;
        sending->end(cancelled_error("the request"));
    }
}

HttpClient::HttpClient(const asio::any_io_executor& executor) {
    start_curl();
    core_ = std::make_shared<Core>(executor);
}

HttpClient::~HttpClient() {
    core_->stop();
}

asio::awaitable<Result<HttpResponse>> HttpClient::send(HttpRequest request) {
    std::shared_ptr<Operation<HttpResponse>> sending =
        std::make_shared<Sending>(core_, std::move(request));
    return await_operation(std::move(sending));
}

bool may_have_been_sent(const Error& error) {
    constexpr std::string_view kBefore[] = {"invalid_url",    "invalid_header",
                                            "invalid_method", "address_not_allowed",
                                            "connect_failed", "connect_timeout"};
    return std::ranges::find(kBefore, error.reason) == std::end(kBefore);
}

std::string percent_encode(std::string_view text) {
    std::string encoded;
    for (const char c : text) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') || std::string_view("-._~").contains(c);
        if (plain) {
            encoded += c;
            continue;
        }
        constexpr std::string_view kHex = "0123456789ABCDEF";
        const auto byte = static_cast<unsigned char>(c);
        encoded += '%';
        encoded += kHex[byte >> 4U];
        encoded += kHex[byte & 15U];
    }
    return encoded;
}

}  // namespace rouse
