#include "server/event_hub.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include "store/memory/memory_store.h"
#include "testing/run_on.h"

namespace rouse::server {
namespace {

class EventHubTest : public ::testing::Test {
 protected:
    EventHubTest() {
        store_->listen({[this](const CommittedLines& lines) { committed_.push_back(lines); }});
        SessionCreated created;
        created.id = id_;
        commit(created);
    }

    void commit(RecordBody record) {
        ASSERT_TRUE(store_->commit_and_wait(make_commit(id_, std::nullopt, {std::move(record)})));
    }
    MessageUser message(const char* id) const {
        return {MessageId(id), text_content("hello"), false, {}};
    }
    std::optional<EventHub::View> look() const {
        const Seq seq = *store_->last_seq(id_);
        return EventHub::View{"{\"seq\":" + std::to_string(seq) + "}", seq};
    }
    std::string next(EventSource& reader) { return testing::run_on(loop_, reader.next()); }

    SystemClock clock_;
    boost::asio::io_context loop_;
    SessionId id_{"sess_1"};
    std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>(clock_);
    std::vector<CommittedLines> committed_;
    EventHub hub_{loop_.get_executor(), store_, [this](const SessionId&) { return look(); },
                  [](const SessionId&) { return "{}"; }};
};

// Whoever waits for a status may go when it comes: nothing that it tells of may be missing.
TEST_F(EventHubTest, AStatusComesBehindTheRecordsThatItTellsOf) {
    const auto reader = hub_.follow(id_, 1, {});
    EXPECT_EQ(next(*reader), "retry: 1000\n\n");
    EXPECT_TRUE(next(*reader).ends_with("event: status\ndata: {\"seq\":1}\n\n"));
    commit(message("msg_2"));
    commit(message("msg_3"));
    hub_.on_commit(committed_.at(1));  // the store is one ahead by now
    const std::string second = next(*reader);
    EXPECT_TRUE(second.starts_with("id: 2\n")) << second;
    EXPECT_FALSE(second.contains("event: status")) << second;
    hub_.on_commit(committed_.at(2));
    const std::string third = next(*reader);
    EXPECT_TRUE(third.starts_with("id: 3\n")) << third;
    EXPECT_TRUE(third.ends_with("event: status\ndata: {\"seq\":3}\n\n")) << third;
}

// However short the lines before a long one are.
TEST_F(EventHubTest, AReplayIsInPiecesOfBoundedSize) {  // P11
    for (int i = 0; i < 600; ++i)
        commit(message("msg_short"));
    for (int i = 0; i < 20; ++i)
        commit(MessageUser{MessageId("msg_long"), text_content(std::string(400'000, 'x')), {}, {}});
    const auto all = committed_.size();
    const auto session = hub_.follow(id_, 1, {});
    const auto global = hub_.follow_all(GlobalPosition{committed_.front().cursor, {}}, {}, {});
    for (EventSource* reader : {session.get(), global.get()}) {
        EXPECT_EQ(next(*reader), "retry: 1000\n\n");
        std::size_t seen = reader == global.get() ? 1 : 0;
        while (seen < all) {
            const std::string piece = next(*reader);
            EXPECT_LT(piece.size(), 2'000'000U);
            for (std::size_t at = piece.find("id: "); at != std::string::npos;
                 at = piece.find("\nid: ", at + 1)) {
                ++seen;
            }
        }
        EXPECT_EQ(seen, all);
    }
}

// What is longer than the buffer, and what follows before there was time to take it, is nobody's
// fault; what goes on after that is.
TEST_F(EventHubTest, WhoeverHadNoTimeYetIsNotLate) {
    const auto reader = hub_.follow(id_, 1, {});
    EXPECT_EQ(next(*reader), "retry: 1000\n\n");
    EXPECT_TRUE(next(*reader).starts_with("id: 1\n"));
    commit(MessageUser{MessageId("msg_long"), text_content(std::string(1'500'000, 'x')), {}, {}});
    for (int i = 0; i < 3000; ++i)
        commit(message("msg_short"));
    std::size_t told = 1;
    const auto tell = [&](std::size_t many) {
        for (const std::size_t end = told + many; told < end; ++told)
            hub_.on_commit(committed_.at(told));
        loop_.restart();
        loop_.poll();
    };
    tell(2);
    const std::string both = next(*reader);
    EXPECT_TRUE(both.starts_with("id: 2\n")) << both.substr(0, 100);
    EXPECT_TRUE(both.contains("\nid: 3\n"));
    tell(2999);
    EXPECT_TRUE(next(*reader).starts_with("event: overrun\n"));
}

}  // namespace
}  // namespace rouse::server
