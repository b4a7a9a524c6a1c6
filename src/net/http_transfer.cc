#include "net/http_transfer.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <climits>
#include <cstring>
#include <exception>

#include "base/check.h"
#include "net/address.h"

namespace rouse {
namespace {

namespace ip = boost::asio::ip;

char to_lower(char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool equal_names(std::string_view a, std::string_view b) {
    return std::ranges::equal(a, b, {}, to_lower, to_lower);
}

bool is_token(std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("!#$%&'*+-.^_`|~").contains(c);
    });
}

// RFC 9110: visible characters, blanks and bytes past ASCII. No line may end inside.
bool is_header_value(std::string_view text) {
    return std::ranges::all_of(text, [](char c) {
        const auto byte = static_cast<unsigned char>(c);
        return c == '\t' || (byte >= 0x20 && byte != 0x7F);
    });
}

bool repeats_safely(std::string_view method) {
    constexpr std::string_view kIdempotent[] = {"GET", "HEAD", "OPTIONS", "PUT", "DELETE"};
    return std::ranges::find(kIdempotent, method) != std::end(kIdempotent);
}

std::string_view trimmed(std::string_view text) {
    const std::size_t first = text.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::string part_of(CURLU* url, CURLUPart part) {
    char* text = nullptr;
    if (curl_url_get(url, part, &text, 0) != CURLUE_OK) return {};
    std::string copy(text);
    curl_free(text);
    return copy;
}

std::optional<ip::address> address_of(const curl_sockaddr& address) {
    if (address.family == AF_INET) {
        const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.addr);
        return ip::address_v4(ntohl(v4->sin_addr.s_addr));
    }
    if (address.family == AF_INET6) {
        const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.addr);
        ip::address_v6::bytes_type bytes;
        std::memcpy(bytes.data(), &v6->sin6_addr, bytes.size());
        return ip::address_v6(bytes);
    }
    return std::nullopt;
}

// Runs a callback of the caller's between two layers of C.
template <class Function>
Result<void> guarded(const Function& function) {
    try {
        return function();
    } catch (const std::exception& error) {
        return Error(ErrorKind::internal, "exception", error.what());
    } catch (...) {
        return Error(ErrorKind::internal, "exception", "something that is no std::exception");
    }
}

}  // namespace

Result<std::unique_ptr<HttpTransfer>> HttpTransfer::make(HttpRequest request) {
    std::unique_ptr<HttpTransfer> transfer(new HttpTransfer(std::move(request)));
    if (Result<void> set = transfer->set_url(); !set) return set.error();
    if (Result<void> set = transfer->set_method(); !set) return set.error();
    if (Result<void> set = transfer->set_headers(); !set) return set.error();
    transfer->set_limits();
    transfer->set_connection();
    transfer->set_callbacks();
    return transfer;
}

HttpTransfer::HttpTransfer(HttpRequest request)
    : request_(std::move(request)), easy_(curl_easy_init()), url_(curl_url()) {
    ROUSE_CHECK(easy_ && url_, "libcurl has no memory for a handle");
}

// libcurl reads the URL once, here, and connects to what it read.
Result<void> HttpTransfer::set_url() {
    const CURLUcode code = curl_url_set(url_.get(), CURLUPART_URL, request_.url.c_str(), 0);
    const std::string scheme = part_of(url_.get(), CURLUPART_SCHEME);
    if (code != CURLUE_OK || request_.url.contains('\0')) {
        return Error(ErrorKind::invalid, "invalid_url",
                     std::string("not a URL that can be asked: ") + curl_url_strerror(code));
    }
    if (scheme != "http" && scheme != "https") {
        return Error(ErrorKind::invalid, "invalid_url", "only http and https URLs can be asked");
    }
    target_ = request_.method + " " + scheme + "://" + part_of(url_.get(), CURLUPART_HOST);
    const std::string port = part_of(url_.get(), CURLUPART_PORT);
    if (!port.empty()) target_ += ":" + port;
    curl_easy_setopt(easy(), CURLOPT_CURLU, url_.get());
    curl_easy_setopt(easy(), CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy(), CURLOPT_FOLLOWLOCATION, 0L);
    return {};
}

Result<void> HttpTransfer::set_method() {
    if (!is_token(request_.method)) {
        return Error(ErrorKind::invalid, "invalid_method", "the request's method is not a word");
    }
    if (request_.method == "HEAD") {
        curl_easy_setopt(easy(), CURLOPT_NOBODY, 1L);
        return {};
    }
    if (request_.method == "POST" || !request_.body.empty()) {
        curl_easy_setopt(easy(), CURLOPT_POST, 1L);
        curl_easy_setopt(easy(), CURLOPT_POSTFIELDS, request_.body.data());
        curl_easy_setopt(easy(), CURLOPT_POSTFIELDSIZE_LARGE,
                         static_cast<curl_off_t>(request_.body.size()));
    }
    curl_easy_setopt(easy(), CURLOPT_CUSTOMREQUEST, request_.method.c_str());
    return {};
}

Result<void> HttpTransfer::set_headers() {
    // libcurl invents the first and waits a second for an answer to the second.
    std::vector<std::string> lines = {"Expect:"};
    bool has_type = false;
    bool has_agent = false;
    for (const auto& [name, value] : request_.headers) {
        if (!is_token(name) || !is_header_value(value)) {
            return Error(ErrorKind::invalid, "invalid_header",
                         "a header of the request has a name or a value that HTTP cannot carry");
        }
        has_type = has_type || equal_names(name, "content-type");
        has_agent = has_agent || equal_names(name, "user-agent");
        lines.push_back(name);
        const bool blank = trimmed(value).empty();  // "name:" would mean to leave it out
        lines.back() += blank ? ";" : ": ";
        if (!blank) lines.back() += value;
    }
    if (!has_type) lines.emplace_back("Content-Type:");
    if (!has_agent) lines.emplace_back("User-Agent: rouse");
    for (const std::string& line : lines) {
        headers_.reset(curl_slist_append(headers_.release(), line.c_str()));
        ROUSE_CHECK(headers_, "libcurl has no memory for a header");
    }
    curl_easy_setopt(easy(), CURLOPT_HTTPHEADER, headers_.get());
    return {};
}

void HttpTransfer::set_limits() {
    // 0 means none; what a caller found to be past must not.
    const auto ms = [](Milliseconds time) {
        if (time.count() < 0) return 1L;
        return static_cast<long>(std::min<Milliseconds::rep>(time.count(), INT_MAX));
    };
    curl_easy_setopt(easy(), CURLOPT_CONNECTTIMEOUT_MS, ms(request_.connect_timeout));
    curl_easy_setopt(easy(), CURLOPT_TIMEOUT_MS, ms(request_.total_timeout));
    curl_easy_setopt(easy(), CURLOPT_NOSIGNAL, 1L);
    // A name server that hangs would hold up whoever gives up on it, and with it the loop.
    curl_easy_setopt(easy(), CURLOPT_QUICK_EXIT, 1L);
}

void HttpTransfer::set_connection() {
    curl_easy_setopt(easy(), CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
    curl_easy_setopt(easy(), CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy(), CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    if (request_.proxy != "env") {
        curl_easy_setopt(easy(), CURLOPT_PROXY, request_.proxy.c_str());
    }
    if (!request_.unix_socket.empty()) {
        curl_easy_setopt(easy(), CURLOPT_UNIX_SOCKET_PATH, request_.unix_socket.c_str());
    }
    if (!request_.ca_file.empty()) {
        curl_easy_setopt(easy(), CURLOPT_CAINFO, request_.ca_file.c_str());
        curl_easy_setopt(easy(), CURLOPT_CAPATH, nullptr);
    }
    // On a kept connection that breaks before an answer, libcurl sends the request again by itself.
    if (!request_.may_repeat && !repeats_safely(request_.method)) {
        curl_easy_setopt(easy(), CURLOPT_FRESH_CONNECT, 1L);
    }
}

void HttpTransfer::set_callbacks() {
    curl_easy_setopt(easy(), CURLOPT_ERRORBUFFER, curl_words_);
    curl_easy_setopt(easy(), CURLOPT_OPENSOCKETFUNCTION, &HttpTransfer::open_socket);
    curl_easy_setopt(easy(), CURLOPT_OPENSOCKETDATA, this);
    curl_easy_setopt(easy(), CURLOPT_PREREQFUNCTION, &HttpTransfer::before_request);
    curl_easy_setopt(easy(), CURLOPT_PREREQDATA, this);
    curl_easy_setopt(easy(), CURLOPT_HEADERFUNCTION, &HttpTransfer::header_came);
    curl_easy_setopt(easy(), CURLOPT_HEADERDATA, this);
    curl_easy_setopt(easy(), CURLOPT_WRITEFUNCTION, &HttpTransfer::body_came);
    curl_easy_setopt(easy(), CURLOPT_WRITEDATA, this);
    if (request_.idle_timeout.count() > 0) {
        curl_easy_setopt(easy(), CURLOPT_NOPROGRESS, 0L);
        curl_easy_setopt(easy(), CURLOPT_XFERINFOFUNCTION, &HttpTransfer::progressed);
        curl_easy_setopt(easy(), CURLOPT_XFERINFODATA, this);
    }
}

// Sees the final address of every attempt, after all names are resolved.
curl_socket_t HttpTransfer::open_socket(void* self, curlsocktype /*purpose*/,
                                        curl_sockaddr* address) {
    auto& transfer = *static_cast<HttpTransfer*>(self);
    const HttpRequest& request = transfer.request_;
    const std::optional<ip::address> target = address_of(*address);
    const bool allowed = target ? request.allow_private_addresses || is_public_address(*target)
                                : address->family == AF_UNIX && !request.unix_socket.empty();
    if (!allowed) {
        transfer.address_refused_ = true;
        return CURL_SOCKET_BAD;
    }
    transfer.address_tried_ = true;
    return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

// The last moment at which nothing has been sent. A kept connection may have been opened for a
// request that was allowed more.
int HttpTransfer::before_request(void* self, char* address, char* /*local_address*/, int /*port*/,
                                 int /*local_port*/) {
    auto& transfer = *static_cast<HttpTransfer*>(self);
    const HttpRequest& request = transfer.request_;
    if (!request.allow_private_addresses && request.unix_socket.empty()) {
        boost::system::error_code unreadable;
        const ip::address connected = ip::make_address(address, unreadable);
        if (unreadable || !is_public_address(connected)) {
            transfer.address_refused_ = true;
            transfer.address_tried_ = false;
            return CURL_PREREQFUNC_ABORT;
        }
    }
    transfer.was_sent_ = true;
    transfer.last_activity_ = Clock::now();
    return CURL_PREREQFUNC_OK;
}

std::size_t HttpTransfer::header_came(char* data, std::size_t size, std::size_t count, void* self) {
    const std::string_view line(data, size * count);
    return static_cast<HttpTransfer*>(self)->take_header(line) ? line.size() : 0;
}

std::size_t HttpTransfer::body_came(char* data, std::size_t size, std::size_t count, void* self) {
    const std::string_view bytes(data, size * count);
    // Less than was given ends the transfer; an empty piece cannot be refused.
    return static_cast<HttpTransfer*>(self)->take_body(bytes) ? bytes.size() : bytes.size() + 1;
}

int HttpTransfer::progressed(void* self, curl_off_t /*down_total*/, curl_off_t /*down*/,
                             curl_off_t /*up_total*/, curl_off_t up) {
    auto& transfer = *static_cast<HttpTransfer*>(self);
    if (up != transfer.sent_bytes_) transfer.last_activity_ = Clock::now();
    transfer.sent_bytes_ = up;
    return 0;
}

bool HttpTransfer::take_header(std::string_view line) {
    last_activity_ = Clock::now();
    header_bytes_ += line.size();
    if (header_bytes_ > limits::kHttpHeaderBytes) {
        failure_ =
            describe(ErrorKind::io, "response_too_large", "the answer's headers are too long");
        return false;
    }
    if (headers_ended_) return true;  // trailers
    if (line.starts_with("HTTP/")) {
        response_.headers.clear();
        return true;
    }
    if (trimmed(line).empty()) return end_headers();
    const std::size_t colon = line.find(':');
    if (line.front() == ' ' || line.front() == '\t' || colon == std::string_view::npos) return true;
    std::string name(line.substr(0, colon));
    std::ranges::transform(name, name.begin(), to_lower);
    response_.headers.emplace_back(std::move(name), trimmed(line.substr(colon + 1)));
    return true;
}

bool HttpTransfer::end_headers() {
    long status = 0;
    curl_easy_getinfo(easy(), CURLINFO_RESPONSE_CODE, &status);
    if (status < 200) return true;  // 100, 103: the real one follows
    headers_ended_ = true;
    response_.status = static_cast<int>(status);
    if (!request_.on_headers) return true;
    const Result<void> agreed = guarded([this] { return request_.on_headers(response_); });
    if (!agreed) failure_ = agreed.error();
    return agreed.has_value();
}

bool HttpTransfer::take_body(std::string_view bytes) {
    last_activity_ = Clock::now();
    body_bytes_ += bytes.size();
    if (body_bytes_ > request_.max_response_bytes) {
        failure_ = describe(
            ErrorKind::io, "response_too_large",
            "the answer is longer than " + std::to_string(request_.max_response_bytes) + " bytes");
        return false;
    }
    if (!request_.on_body) {
        response_.body += bytes;
        return true;
    }
    const Result<void> agreed = guarded([&] { return request_.on_body(bytes); });
    if (!agreed) failure_ = agreed.error();
    return agreed.has_value();
}

Error HttpTransfer::describe(ErrorKind kind, std::string_view reason, std::string_view what) const {
    return {kind, reason, target_ + ": " + std::string(what)};
}

Error HttpTransfer::idle_error() const {
    return describe(ErrorKind::timeout, "request_timeout",
                    "no byte moved for " + std::to_string(request_.idle_timeout.count()) + " ms");
}

Result<HttpResponse> HttpTransfer::take_result(CURLcode code) {
    if (failure_) return *failure_;
    if (code == CURLE_OK) return std::move(response_);
    const std::string_view words = curl_words_[0] == '\0' ? curl_easy_strerror(code) : curl_words_;
    if (address_refused_ && !address_tried_) {
        return describe(ErrorKind::denied, "address_not_allowed",
                        "the address is not a public one, and others are not allowed here");
    }
    if (code == CURLE_OPERATION_TIMEDOUT) {
        return describe(ErrorKind::timeout, was_sent_ ? "request_timeout" : "connect_timeout",
                        words);
    }
    if (was_sent_) return describe(ErrorKind::io, "connection_broken", words);
    return describe(ErrorKind::unavailable, "connect_failed", words);
}

}  // namespace rouse
