#include "server/event_hub.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <charconv>
#include <utility>

#include "base/json.h"
#include "server/views.h"

namespace rouse::server {

namespace asio = boost::asio;

namespace {

// A reader that is behind gets so much at a time.
const ReadLimit kReplay(500, 1U << 20U);
constexpr std::string_view kOverrun = "event: overrun\ndata: {}\n\n";

// A line of a log, taken apart as far as a stream needs it.
struct EventLine {
    Seq seq = 0;
    std::string kind;
    std::string data;
};

EventLine read_line(const std::string& line, const SessionId& session, const std::string& task) {
    EventLine event;
    std::vector<JsonMember> members;
    if (!split_object(line, members)) return event;
    for (const JsonMember& member : members) {
        if (member.key == "seq") {
            event.seq = static_cast<Seq>(read_json_int(member.value).value_or(0));
        } else if (member.key == "kind") {
            event.kind = read_json_string(member.value).value_or("");
        }
    }
    event.data = "{\"session_id\":" + to_json_string(session.text()) +
                 ",\"task_id\":" + to_json_string(task) + "," + line.substr(1);
    return event;
}

std::string frame(std::string_view id, std::string_view event, std::string_view data) {
    std::string out;
    out.reserve(id.size() + event.size() + data.size() + 32);
    if (!id.empty()) out.append("id: ").append(id).append("\n");
    out.append("event: ").append(event).append("\ndata: ").append(data).append("\n\n");
    return out;
}

template <class Number>
bool read_number(std::string_view& text, Number& number) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) return false;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return true;
}

// Sorts right before the commit at `cursor`.
Cursor before(Cursor cursor) {
    if (cursor.index > 0) {
        --cursor.index;
    } else {
        cursor.group = cursor.group > 0 ? cursor.group - 1 : 0;
        cursor.index = std::numeric_limits<std::uint32_t>::max();
    }
    return cursor;
}

}  // namespace

std::string GlobalPosition::text() const {
    std::string out = std::to_string(cursor.epoch) + "." + std::to_string(cursor.group) + "." +
                      std::to_string(cursor.index);
    if (seen) out += "-" + std::to_string(*seen);
    return out;
}

std::optional<GlobalPosition> GlobalPosition::parse(std::string_view text) {
    GlobalPosition position;
    const auto dot = [&] {
        const bool there = text.starts_with('.');
        if (there) text.remove_prefix(1);
        return there;
    };
    if (!read_number(text, position.cursor.epoch) || !dot()) return std::nullopt;
    if (!read_number(text, position.cursor.group) || !dot()) return std::nullopt;
    if (!read_number(text, position.cursor.index)) return std::nullopt;
    if (text.starts_with('-')) {
        text.remove_prefix(1);
        if (!read_number(text, position.seen.emplace())) return std::nullopt;
    }
    if (!text.empty()) return std::nullopt;
    return position;
}

// ---- readers --------------------------------------------------------------------------------

class EventHub::Reader : public EventSource {
 public:
    Reader(EventHub& hub, std::string token_id)
        : hub_(hub), hub_alive_(hub.alive_), token_id_(std::move(token_id)), wake_(hub.loop_) {
        ++hub_.readers_;
    }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    ~Reader() override {
        if (*hub_alive_) --hub_.readers_;
    }

    Task<std::string> next() override {
        if (!greeted_) {
            greeted_ = true;
            co_return "retry: 1000\n\n";
        }
        while (!closed_) {
            if (!live_) {
                std::string replayed = replay();
                if (!replayed.empty()) co_return replayed;
                // Nothing for this reader in all that; others have their turn.
                co_await asio::post(hub_.loop_, asio::use_awaitable);
                continue;
            }
            if (!frames_.empty()) co_return take();
            if (overrun_) {
                closed_ = true;
                co_return std::string(kOverrun);
            }
            wake_.expires_after(hub_.limits_.heartbeat);
            const auto [woken] = co_await wake_.async_wait(asio::as_tuple(asio::use_awaitable));
            if (!woken && frames_.empty()) co_return ": still here\n\n";
        }
        co_return "";
    }

    void close() override {
        closed_ = true;
        wake_.cancel();
    }

    bool is_closed() const override { return closed_; }

    bool is_live() const { return live_ && !overrun_; }
    const std::string& token_id() const { return token_id_; }

    void push(std::shared_ptr<const std::string> frame) {
        if (overrun_) return;
        if (std::exchange(latest_, hub_.told_) != hub_.told_) told_ = {};
        told_.add(frame->size());
        waiting_.add(frame->size());
        frames_.push_back(std::move(frame));
        // However much comes at once, nobody is late with that alone, nor with what follows before
        // there was time to take it.
        most_told_ = {std::max(most_told_.frames, told_.frames),
                      std::max(most_told_.bytes, told_.bytes)};
        if (waiting_.frames > hub_.limits_.events + most_told_.frames ||
            waiting_.bytes > hub_.limits_.bytes + most_told_.bytes) {
            // What was queued is dropped: the reader comes back with the last id that it saw.
            frames_.clear();
            overrun_ = true;
        }
        wake_.cancel();
    }

 protected:
    // What the store has beyond what was sent; sets live_ when there is nothing.
    virtual std::string replay() = 0;

    EventHub& hub_;
    std::shared_ptr<bool> hub_alive_;
    bool live_ = false;
    bool closed_ = false;

 private:
    std::string take() {
        std::string out;
        while (!frames_.empty()) {
            out += *frames_.front();
            frames_.pop_front();
        }
        waiting_ = told_ = most_told_ = {};
        return out;
    }

    struct Amount {
        std::size_t frames = 0;
        std::size_t bytes = 0;
        void add(std::size_t frame_bytes) {
            ++frames;
            bytes += frame_bytes;
        }
    };

    std::string token_id_;
    asio::steady_timer wake_;
    std::deque<std::shared_ptr<const std::string>> frames_;
    Amount waiting_;            // all of the frames
    Amount told_;               // those that came with the latest of them
    Amount most_told_;          // the most that came at once
    std::uint64_t latest_ = 0;  // with what the latest came
    bool overrun_ = false;
    bool greeted_ = false;
};

class EventHub::SessionReader final : public Reader {
 public:
    SessionReader(EventHub& hub, SessionId session, std::optional<Seq> from, std::string token_id)
        : Reader(hub, std::move(token_id)), session_(std::move(session)), from_(from) {
        hub_.by_session_[session_].push_back(this);
        if (from_) last_ = *from_ > 0 ? *from_ - 1 : 0;
    }
    ~SessionReader() override {
        if (!*hub_alive_) return;
        const auto mine = hub_.by_session_.find(session_);
        std::erase(mine->second, this);
        if (mine->second.empty()) hub_.by_session_.erase(mine);
    }

    Seq last() const { return last_; }
    void saw(Seq seq) { last_ = seq; }

 private:
    std::string replay() override {
        const std::optional<View> view = hub_.look_(session_);
        if (!view) {
            closed_ = true;
            return {};
        }
        // Whoever has seen more than there is would wait for a seq that may never come.
        if (!from_ || *from_ > view->seq + 1) {
            from_ = view->seq + 1;
            last_ = view->seq;
            return frame(std::to_string(view->seq), "snapshot", hub_.snapshot_(session_));
        }
        const std::string task = hub_.store_->task_of(session_);
        const Result<std::vector<std::string>> lines =
            hub_.store_->read(session_, last_ + 1, kReplay);
        if (!lines) {
            closed_ = true;
            return {};
        }
        std::string out;
        for (const std::string& line : *lines) {
            const EventLine event = read_line(line, session_, task);
            last_ = event.seq;
            out += frame(std::to_string(event.seq), event.kind, event.data);
        }
        live_ = !kReplay.is_reached(lines->size(), total_bytes(*lines));
        if (live_) out += frame({}, "status", view->status);
        return out;
    }

    SessionId session_;
    std::optional<Seq> from_;
    Seq last_ = 0;
};

class EventHub::GlobalReader final : public Reader {
 public:
    GlobalReader(EventHub& hub, std::optional<GlobalPosition> behind, MaySee may_see,
                 std::string token_id)
        : Reader(hub, std::move(token_id)), behind_(behind), may_see_(std::move(may_see)) {
        hub_.global_.push_back(this);
        live_ = !behind_;
    }
    ~GlobalReader() override {
        if (*hub_alive_) std::erase(hub_.global_, this);
    }

    bool has_seen(const Cursor& cursor) const { return behind_ && cursor <= behind_->cursor; }
    void saw(const Cursor& cursor) { behind_ = GlobalPosition{cursor, std::nullopt}; }
    bool may_see(const std::string& task) const { return !may_see_ || may_see_(task); }

 private:
    std::string replay() override;

    std::optional<GlobalPosition> behind_;
    MaySee may_see_;
};

// For readers who may see everything but what settles a call.
class EventHub::Masked final : public EventSource {
 public:
    explicit Masked(std::unique_ptr<EventSource> source) : source_(std::move(source)) {}
    Task<std::string> next() override {
        const std::string text = co_await source_->next();
        co_return mask_pending_ids(text);
    }
    void close() override { source_->close(); }
    bool is_closed() const override { return source_->is_closed(); }

 private:
    std::unique_ptr<EventSource> source_;
};

namespace {

// The events of a commit, each with its id; those of the system log are nobody's business.
struct GlobalEvents {
    struct One {
        std::string task;
        std::string text;
    };
    std::vector<One> events;

    GlobalEvents(const CommittedLines& committed, Store& store, std::optional<std::size_t> skip) {
        std::size_t count = 0;
        for (const CommittedLines::Part& part : committed.parts) {
            if (part.log != system_log()) count += part.lines.size();
        }
        std::size_t number = 0;
        for (const CommittedLines::Part& part : committed.parts) {
            if (part.log == system_log()) continue;
            const std::string task = store.task_of(part.log);  // though it may be gone by now
            for (const std::string& line : part.lines) {
                ++number;
                if (skip && number <= *skip) continue;
                GlobalPosition position{committed.cursor, std::nullopt};
                if (number < count) position.seen = number;
                const EventLine event = read_line(line, part.log, task);
                events.push_back({task, frame(position.text(), event.kind, event.data)});
            }
        }
    }
};

}  // namespace

std::string EventHub::GlobalReader::replay() {
    Cursor after = behind_->cursor;
    if (behind_->seen) after = before(after);
    const Result<std::vector<CommittedLines>> commits = hub_.store_->read_commits(after, kReplay);
    if (!commits) {
        live_ = true;
        behind_.reset();  // it says nothing about what comes
        return frame({}, "resync", "{}");
    }
    std::string out;
    std::size_t bytes = 0;
    for (const CommittedLines& committed : *commits) {
        std::optional<std::size_t> skip;
        if (behind_->seen && committed.cursor == behind_->cursor) skip = behind_->seen;
        const GlobalEvents rendered(committed, *hub_.store_, skip);
        for (const GlobalEvents::One& event : rendered.events) {
            if (may_see(event.task)) out += event.text;
        }
        bytes += total_bytes(committed);
        saw(committed.cursor);
    }
    live_ = !kReplay.is_reached(commits->size(), bytes);
    return out;
}

// ---- the hub --------------------------------------------------------------------------------

EventHub::EventHub(asio::any_io_executor loop, std::shared_ptr<Store> store, Look look,
                   Snapshot snapshot, HubLimits limits)
    : loop_(std::move(loop)),
      store_(std::move(store)),
      look_(std::move(look)),
      snapshot_(std::move(snapshot)),
      limits_(limits) {}

EventHub::~EventHub() {
    *alive_ = false;
}

void EventHub::on_commit(const CommittedLines& committed) {
    if (readers_ == 0) return;
    asio::post(loop_, [this, alive = alive_, committed] {
        if (*alive) publish(committed);
    });
}

void EventHub::publish(const CommittedLines& committed) {
    ++told_;
    for (const CommittedLines::Part& part : committed.parts) {
        const auto readers = by_session_.find(part.log);
        if (readers == by_session_.end()) continue;
        const std::optional<View> view = look_(part.log);
        const std::string task = store_->task_of(part.log);
        for (const std::string& line : part.lines) {
            const EventLine event = read_line(line, part.log, task);
            const auto text = std::make_shared<const std::string>(
                frame(std::to_string(event.seq), event.kind, event.data));
            for (SessionReader* reader : readers->second) {
                if (!reader->is_live() || event.seq <= reader->last()) continue;
                reader->saw(event.seq);
                reader->push(text);
            }
        }
        if (!view) continue;
        // The store may be ahead: a status comes behind the records that it tells of, and those of
        // later commits are on their way.
        const auto status = std::make_shared<const std::string>(frame({}, "status", view->status));
        for (SessionReader* reader : readers->second) {
            if (reader->is_live() && view->seq <= reader->last()) reader->push(status);
        }
    }
    if (global_.empty()) return;
    const GlobalEvents rendered(committed, *store_, std::nullopt);
    for (GlobalReader* reader : global_) {
        if (!reader->is_live() || reader->has_seen(committed.cursor)) continue;
        reader->saw(committed.cursor);
        for (const GlobalEvents::One& event : rendered.events) {
            if (!reader->may_see(event.task)) continue;
            reader->push(std::make_shared<const std::string>(event.text));
        }
    }
}

void EventHub::on_delta(const RunDriver::Delta& delta) {
    if (readers_ == 0) return;
    JsonObject data;
    data.text("session_id", delta.session.text()).text("task_id", store_->task_of(delta.session));
    data.text("run_id", delta.run.text()).text("message_id", delta.message.text());
    data.number("at", static_cast<std::int64_t>(delta.at)).text("text", delta.text);
    tell(delta.session, "delta", data.done());
}

void EventHub::on_progress(const SessionId& session, const PendingId& call,
                           const Progress& progress) {
    if (readers_ == 0) return;
    JsonObject data;
    data.text("session_id", session.text()).text("task_id", store_->task_of(session));
    data.text("kind", PendingProgress::kKind).text("pending_id", call.text());
    data.value("progress", progress);
    tell(session, PendingProgress::kKind, data.done());
}

void EventHub::tell(const SessionId& session, std::string_view event, std::string_view data) {
    std::string text = frame({}, event, data);
    asio::post(loop_, [this, alive = alive_, session, text = std::move(text)] {
        if (!*alive) return;
        const auto readers = by_session_.find(session);
        if (readers == by_session_.end()) return;
        ++told_;
        const auto told = std::make_shared<const std::string>(text);
        for (SessionReader* reader : readers->second) {
            if (reader->is_live()) reader->push(told);
        }
    });
}

std::unique_ptr<EventSource> EventHub::follow(SessionId session, std::optional<Seq> from,
                                              ReaderOptions options) {
    std::unique_ptr<EventSource> reader = std::make_unique<SessionReader>(
        *this, std::move(session), from, std::move(options.token_id));
    if (!options.masks_ids) return reader;
    return std::make_unique<Masked>(std::move(reader));
}

std::unique_ptr<EventSource> EventHub::follow_all(std::optional<GlobalPosition> behind,
                                                  MaySee may_see, ReaderOptions options) {
    std::unique_ptr<EventSource> reader = std::make_unique<GlobalReader>(
        *this, behind, std::move(may_see), std::move(options.token_id));
    if (!options.masks_ids) return reader;
    return std::make_unique<Masked>(std::move(reader));
}

void EventHub::revoke(const std::string& token_id) {
    for_each_reader([&](Reader& reader) {
        if (reader.token_id() == token_id) reader.close();
    });
}

void EventHub::close() {
    closed_ = true;
    for_each_reader([](Reader& reader) { reader.close(); });
}

void EventHub::for_each_reader(const std::function<void(Reader&)>& visit) {
    for (const auto& [session, readers] : by_session_) {
        for (SessionReader* reader : readers)
            visit(*reader);
    }
    for (GlobalReader* reader : global_)
        visit(*reader);
}

}  // namespace rouse::server
