#include "client/event_stream.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <deque>
#include <limits>

#include "client/blocking_http.h"
#include "client/errors.h"

namespace rouse::client {

namespace asio = boost::asio;

namespace {

constexpr Milliseconds kStandardRetry{1000};
constexpr Milliseconds kLongestSilence{45'000};  // three of the server's signs of life

}  // namespace

class EventStream::Following final : public std::enable_shared_from_this<Following> {
 public:
    Following(ServerAddress server, std::string path, std::optional<std::uint64_t> from_seq)
        : server_(std::move(server)), path_(std::move(path)), from_seq_(from_seq) {}

    // The parts outlive the loop, which this coroutine dies with.
    static asio::awaitable<void> run(std::shared_ptr<Following> self, HttpClient& http,
                                     asio::io_context& loop) {
        asio::steady_timer pause(loop);
        while (!self->closed_) {
            HttpRequest request = self->make_request();
            const Result<HttpResponse> ended = co_await http.send(std::move(request));
            if (self->closed_ || !self->may_come_back(ended)) co_return;
            self->note_loss();
            pause.expires_after(self->parser_.retry().value_or(kStandardRetry));
            (void)co_await pause.async_wait(asio::as_tuple(asio::use_awaitable));
        }
    }

    void close() { closed_ = true; }
    bool has_news() const { return !events_.empty() || failed_; }

    Result<std::optional<Event>> take() {
        if (events_.empty()) return *failed_;
        std::optional<Event> event = std::move(events_.front());
        events_.pop_front();
        return event;
    }

 private:
    HttpRequest make_request() {
        HttpRequest request;
        request.url = server_.url + path_;
        request.ca_file = server_.ca_file;
        if (from_seq_) request.url += "?from_seq=" + std::to_string(*from_seq_);
        request.headers.emplace_back("Accept", "text/event-stream");
        if (!server_.token.reveal().empty()) {
            request.headers.emplace_back("Authorization", "Bearer " + server_.token.reveal());
        }
        if (!last_id_.empty()) request.headers.emplace_back("Last-Event-ID", last_id_);
        request.idle_timeout = kLongestSilence;
        request.max_response_bytes = std::numeric_limits<std::size_t>::max();
        request.allow_private_addresses = true;
        parser_.restart();
        refusal_ = {};
        request.on_headers = [self = shared_from_this()](const HttpResponse& response) {
            return self->begin(response);
        };
        request.on_body = [self = shared_from_this()](std::string_view bytes) {
            return self->take_bytes(bytes);
        };
        return request;
    }

    Result<void> begin(const HttpResponse& response) {
        if (closed_) return Error(ErrorKind::cancelled, "cancelled", "nobody follows any more");
        refusal_.status = response.status;
        if (response.status != 200) return {};
        if (lost_) events_.push_back({"", std::string(kConnectionBack), ""});
        lost_ = false;
        connected_ = true;
        return {};
    }

    Result<void> take_bytes(std::string_view bytes) {
        if (closed_) return Error(ErrorKind::cancelled, "cancelled", "nobody follows any more");
        if (refusal_.status == 200) return parser_.feed(bytes);
        refusal_.body += bytes;
        return {};
    }

    void take_event(Event event) {
        if (!event.id.empty()) last_id_ = event.id;
        events_.push_back(std::move(event));
    }

    bool may_come_back(const Result<HttpResponse>& ended) {
        if (!ended) {
            if (connected_ && ended.error().reason != "event_too_large") return true;
            failed_ = to_error(ended.error(), server_.url);
            return false;
        }
        if (refusal_.status == 200) return true;
        const Error refused = to_error(refusal_);
        if (connected_ && refused.kind == ErrorKind::unavailable) return true;
        failed_ = refused;
        return false;
    }

    void note_loss() {
        if (!lost_) events_.push_back({"", std::string(kConnectionLost), ""});
        lost_ = true;
    }

    ServerAddress server_;
    std::string path_;
    std::optional<std::uint64_t> from_seq_;
    SseParser parser_{[this](Event event) { take_event(std::move(event)); }};
    std::deque<Event> events_;
    std::optional<Error> failed_;
    std::string last_id_;
    HttpResponse refusal_;  // of this connection: its status, and the body unless it is 200
    bool connected_ = false;
    bool lost_ = false;
    bool closed_ = false;
};

EventStream::EventStream(BlockingHttp& http, const ServerAddress& server, const std::string& path,
                         std::optional<std::uint64_t> from_seq)
    : http_(http), following_(std::make_shared<Following>(server, path, from_seq)) {
    asio::co_spawn(http.loop(), Following::run(following_, http.http(), http.loop()),
                   [](const std::exception_ptr& thrown) {
                       if (thrown) std::rethrow_exception(thrown);
                   });
}

EventStream::~EventStream() {
    following_->close();
}

Result<std::optional<Event>> EventStream::next(std::optional<Milliseconds> patience) {
    const auto has_news = [this] { return following_->has_news(); };
    const Result<bool> ran = http_.run_until(has_news, patience);
    if (!ran) return ran.error();
    if (!*ran) return std::optional<Event>();
    return following_->take();
}

}  // namespace rouse::client
