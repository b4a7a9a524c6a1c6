// Readers of one session's event stream while it works: does each see every record, once, in order?

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <charconv>
#include <memory>
#include <vector>

#include "bench/load_run.h"

namespace rouse::bench {
namespace {

using asio::use_awaitable;
using asio::ip::tcp;
using boost::system::error_code;

struct Event {
    std::string id;  // empty: not a record of the log
    std::string name;
    std::size_t data_hash = 0;
};

// The text of an event stream, in whatever pieces it arrives.
class EventParser {
 public:
    template <class OnEvent>
    void feed(std::string_view text, OnEvent on_event) {
        for (;;) {
            const std::size_t end = text.find('\n');
            line_.append(text.substr(0, end));
            if (end == text.npos) return;
            text.remove_prefix(end + 1);
            if (line_.ends_with('\r')) line_.pop_back();
            if (line_.empty()) {
                if (has_data_) on_event(event_);
                event_ = {};
                has_data_ = false;
            } else {
                take_field(line_);
            }
            line_.clear();
        }
    }

 private:
    void take_field(std::string_view line) {
        const std::size_t colon = line.find(':');
        const std::string_view name = line.substr(0, colon);
        std::string_view value = colon == line.npos ? "" : line.substr(colon + 1);
        if (value.starts_with(' ')) value.remove_prefix(1);
        if (name == "id") event_.id = value;
        if (name == "event") event_.name = value;
        if (name != "data") return;
        event_.data_hash = event_.data_hash * 31 + std::hash<std::string_view>{}(value);
        has_data_ = true;
    }

    std::string line_;
    Event event_;
    bool has_data_ = false;
};

// One reader, over as many connections as it takes.
struct Reader {
    std::uint64_t last = 0;  // the seq of the last record seen
    std::uint64_t records = 0;
    std::uint64_t others = 0;  // events that are not records
    std::uint64_t missing = 0;
    std::uint64_t repeated = 0;
    std::uint64_t returns = 0;  // connected again after being too slow
    std::size_t hash = 0;       // of all records, in order
    bool connected = false;
    std::shared_ptr<tcp::socket> socket;  // shared with the coroutine that reads from it

    void see(const Event& event) {
        std::uint64_t seq = 0;
        const char* end = event.id.data() + event.id.size();
        const auto [stop, failed] = std::from_chars(event.id.data(), end, seq);
        if (failed != std::errc{} || stop != end) {
            ++others;
            return;
        }
        ++records;
        if (seq <= last) {
            ++repeated;
            return;
        }
        missing += seq - last - 1;
        last = seq;
        hash = (hash * 31 + event.data_hash) * 31 + std::hash<std::string>{}(event.name);
    }
};

struct Audience {
    std::string session_id;
    std::vector<Reader> readers;
    std::size_t running = 0;
    bool closing = false;
};

// Reads until the server closes the stream, or the audience leaves.
Task<void> read_stream(Run& run, Audience& audience, Reader& reader) {
    const Target& target = run.options.target;
    Request request;
    request.path = "/v1/sessions/" + audience.session_id + "/events?from_seq=1";
    std::string lines = "Accept: text/event-stream\r\n";
    if (reader.last > 0) lines += "Last-Event-ID: " + std::to_string(reader.last) + "\r\n";
    const std::string head = head_of(target, request, lines);
    tcp::socket fresh = co_await connect(target);
    const auto socket = std::make_shared<tcp::socket>(std::move(fresh));
    reader.socket = socket;
    const asio::const_buffer bytes = asio::buffer(head);
    co_await asio::async_write(*socket, bytes, use_awaitable);

    boost::beast::flat_buffer buffer;
    http::response_parser<http::string_body> parser;
    parser.body_limit(std::numeric_limits<std::uint64_t>::max());
    co_await http::async_read_header(*socket, buffer, parser, use_awaitable);
    const unsigned status = parser.get().result_int();
    if (status != 200) {
        throw Unexpected(std::to_string(status), "GET " + request.path + " answered " +
                                                     std::to_string(status) + ", not 200");
    }
    reader.connected = true;
    EventParser events;
    while (!parser.is_done() && !audience.closing) {
        const auto token = asio::as_tuple(use_awaitable);
        const auto [failed, got] = co_await http::async_read_some(*socket, buffer, parser, token);
        std::string& text = parser.get().body();
        events.feed(text, [&](const Event& event) { reader.see(event); });
        text.clear();
        if (failed) co_return;
    }
}

Task<void> read_all(Run& run, Audience& audience, Reader& reader) {
    constexpr std::uint64_t kReturns = 100;
    while (!audience.closing && !run.is_stopped()) {
        co_await read_stream(run, audience, reader);
        if (audience.closing) co_return;
        if (++reader.returns > kReturns) {
            throw Unexpected("connection",
                             "a stream was closed " + std::to_string(kReturns) + " times");
        }
    }
}

void start_readers(Run& run, Audience& audience, const asio::any_io_executor& executor) {
    audience.running = audience.readers.size();
    for (Reader& reader : audience.readers) {
        asio::co_spawn(executor, read_all(run, audience, reader),
                       [&run, &audience](const std::exception_ptr& thrown) {
                           --audience.running;
                           run.ended(thrown);
                       });
    }
}

// Looks again every few milliseconds until all readers are so, or it takes too long.
template <class Condition>
Task<bool> wait_for_all(Run& run, Audience& audience, Condition is_so) {
    const SteadyClock::time_point until = SteadyClock::now() + run.options.patience / 2;
    while (!std::ranges::all_of(audience.readers, is_so)) {
        if (run.is_stopped() || SteadyClock::now() > until) co_return false;
        co_await pause_for(std::chrono::milliseconds(5));
    }
    co_return true;
}

void count_up(Run& run, const Audience& audience, std::uint64_t last_seq) {
    Reader sum;
    std::uint64_t different = 0;
    std::uint64_t short_of = 0;
    for (const Reader& reader : audience.readers) {
        sum.records += reader.records;
        sum.others += reader.others;
        sum.missing += reader.missing + (last_seq - std::min(last_seq, reader.last));
        sum.repeated += reader.repeated;
        sum.returns += reader.returns;
        short_of += reader.last < last_seq ? 1 : 0;
        different += reader.hash != audience.readers.front().hash ? 1 : 0;
    }
    boost::json::object found;
    found["readers"] = audience.readers.size();
    found["last_seq"] = last_seq;
    found["records_expected"] = last_seq * audience.readers.size();
    found["records_seen"] = sum.records;
    found["other_events"] = sum.others;
    found["missing"] = sum.missing;
    found["repeated"] = sum.repeated;
    found["readers_not_at_the_end"] = short_of;
    found["readers_that_saw_something_else"] = different;
    found["came_back"] = sum.returns;
    found["events_per_second"] = static_cast<double>(sum.records) / run.report.seconds();
    for (auto& member : found)
        run.report.more.insert(member);
    if (sum.missing + sum.repeated + different > 0) {
        run.failed("not every reader saw every event once: " + std::to_string(sum.missing) +
                   " missing, " + std::to_string(sum.repeated) + " repeated, " +
                   std::to_string(different) + " readers with other bytes");
    }
}

Task<void> work_before(Run& run, Audience& audience, Api& api) {
    const auto is_connected = [](const Reader& reader) { return reader.connected; };
    const bool all_there = co_await wait_for_all(run, audience, is_connected);
    if (!all_there) {
        run.failed("not all readers could connect");
        co_return;
    }
    run.start_clock();
    while (run.take()) {
        const Waiting waiting = co_await api.message(audience.session_id);
        co_await api.result(waiting.pending_id);
        ++run.report.cycles;
    }
    const SteadyClock::time_point last_turn = SteadyClock::now();
    const std::uint64_t last_seq = co_await api.last_seq(audience.session_id);
    const auto is_at_the_end = [last_seq](const Reader& reader) { return reader.last >= last_seq; };
    (void)co_await wait_for_all(run, audience, is_at_the_end);
    const SteadyClock::time_point end = SteadyClock::now();
    run.report.end = end;
    run.report.more["drain_ms"] = Microseconds(end - last_turn).count() / 1000;
    count_up(run, audience, last_seq);
}

}  // namespace

Task<void> run_sse(Run& run) {
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    Api api = run.make_api();
    Audience audience;
    const Waiting first = co_await api.create();
    co_await api.result(first.pending_id);
    audience.session_id = first.session_id;
    audience.readers.resize(run.options.connections);
    start_readers(run, audience, executor);
    std::exception_ptr thrown;
    try {
        co_await work_before(run, audience, api);
    } catch (...) {
        thrown = std::current_exception();
    }
    audience.closing = true;
    for (const Reader& reader : audience.readers) {
        error_code ignored;
        if (reader.socket) (void)reader.socket->shutdown(tcp::socket::shutdown_both, ignored);
    }
    while (audience.running > 0)
        co_await pause_for(std::chrono::milliseconds(1));
    if (thrown) std::rethrow_exception(thrown);
}

}  // namespace rouse::bench
