// What sessions keep: memory sessions, durable ones on a memory store and on files, and sessions of
// a user's own. With hooks_test, resume_errors_test and suspend_test all of S2-115.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "store/memory/memory_store.h"
#include "testing/agent_kit.h"
#include "testing/forwarding_store.h"

namespace rouse {
namespace {

using namespace testing;

class TemporaryDirectory {
 public:
    TemporaryDirectory() {
        std::string name = (std::filesystem::temp_directory_path() / "rouse_XXXXXX").string();
        path_ = ::mkdtemp(name.data());
    }
    ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
    const std::string& path() const { return path_; }

 private:
    std::string path_;
};

enum class Where : std::uint8_t { memory, memory_store, files };

class SessionsTest : public ::testing::TestWithParam<Where> {
 protected:
    SessionsTest() {
        open();
        session_ = durable() ? *sessions_->create("a title") : make_memory_session(SessionId("m"));
    }

    bool durable() const { return GetParam() != Where::memory; }
    void open() {
        if (!durable()) return;
        auto opened = GetParam() == Where::files ? DurableSessions::open(directory_.path())
                                                 : DurableSessions::open(env_, store_);
        ASSERT_TRUE(opened) << opened.error().message;
        sessions_ = *std::move(opened);
    }
    // As if another process went on: nothing is left in memory.
    void another_process() {
        if (!durable()) return;
        const SessionId id = session_->id();
        session_.reset();
        ASSERT_TRUE(sessions_->close());
        sessions_.reset();
        open();
        auto again = sessions_->get(id);
        ASSERT_TRUE(again) << again.error().message;
        session_ = *again;
    }
    Agent& make_agent(std::vector<ScriptEntry> script) {
        model_ = playing(std::move(script));
        AgentOptions options;
        options.model = model_;
        options.tools = {suspending("ask", "well?", json(R"({"n":[1,{"x":1.50}]})")).tool,
                         answering("look", "seen").tool};
        agent_ = std::make_unique<Agent>(std::move(options));
        return *agent_;
    }
    TurnResult send(AgentRequest request) { return agent_->respond_and_wait(std::move(request)); }

    TemporaryDirectory directory_;
    ManualClock clock_;
    SeededRandom random_{7};
    RealFs fs_;
    Logger log_{LogLevel::off};
    Env env_{clock_, random_, fs_, log_};
    std::shared_ptr<MemoryStore> store_ = std::make_shared<MemoryStore>(clock_);
    std::unique_ptr<DurableSessions> sessions_;
    std::shared_ptr<Session> session_;
    std::shared_ptr<WatchedModel> model_;
    std::unique_ptr<Agent> agent_;
};

std::string where_name(const ::testing::TestParamInfo<Where>& test) {
    constexpr const char* kNames[] = {"Memory", "DurableOnMemoryStore", "DurableOnFiles"};
    return kNames[static_cast<std::size_t>(test.param)];
}
INSTANTIATE_TEST_SUITE_P(Kinds, SessionsTest,
                         ::testing::Values(Where::memory, Where::memory_store, Where::files),
                         where_name);

class DurableSessionsTest : public SessionsTest {};
INSTANTIATE_TEST_SUITE_P(Kinds, DurableSessionsTest,
                         ::testing::Values(Where::memory_store, Where::files), where_name);

ScriptEntry repeating(ScriptEntry entry) {
    entry.repeat = true;
    return entry;
}

const std::vector<ScriptEntry> kStaged = {
    calls({{"c1", "ask"}, {"c2", "look"}, {"c3", "ask"}, {"c4", "ask"}}), says("done")};

// S2-14 S2-16 S2-30 S2-40 S2-47 S2-75
TEST_P(SessionsTest, ASuspensionIsKeptWholeAcrossProcessesAndPartialResumes) {
    make_agent({says("hello"), kStaged[0], kStaged[1]});
    ASSERT_TRUE(send(message("Hi", session_)));
    TurnResult first = send(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    if (durable()) {
        EXPECT_FALSE(first->suspension->resume_token.empty());
    }
    Suspension want = *first->suspension;
    want.resume_token.clear();
    EXPECT_EQ(suspension_of(*session_), want);
    another_process();
    EXPECT_EQ(suspension_of(*session_), want);
    EXPECT_EQ(outline(history_of(*session_)), "u:Hi | a:hello");

    for (const std::string id : {"c4", "c1"}) {
        TurnResult part = send(answer(session_, {result_for(id, "for " + id)}));
        ASSERT_TRUE(part) << part.error().message;
        const std::string before = snapshot(*session_);
        another_process();
        EXPECT_EQ(snapshot(*session_), before);
    }
    const std::optional<Suspension> last = suspension_of(*session_);
    ASSERT_TRUE(last);
    EXPECT_EQ(outline(*last), "pending c3 done c1=for c1 c2=seen c4=for c4");
    EXPECT_EQ(last->pending_tool_calls[0], want.pending_tool_calls[1]) << "the original payload";
    EXPECT_EQ(last->completed_tool_calls[1], want.completed_tool_calls[0]);

    TurnResult done = send(answer(session_, {result_for("c3", "3")}));
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->usage, (Usage{17, 8, 0, 0}));
    const std::string before = snapshot(*session_);
    another_process();
    EXPECT_EQ(snapshot(*session_), before) << "live and replayed are the same";
    EXPECT_FALSE(suspension_of(*session_));
    EXPECT_EQ(outline(history_of(*session_)),
              "u:Hi | a:hello | u:Go | a:ask#c1,look#c2,ask#c3,ask#c4 | "
              "u:c1=for c1,c2=seen,c3=3,c4=for c4 | a:done")
        << "one turn, however often it was resumed";
}

TEST_P(SessionsTest, AnotherModelAndSystemPromptTakeEffectOnResume) {  // S2-58 S2-59
    make_agent({calls({{"c1", "ask"}}), says("the old one")});
    agent_->set_system_prompt("old");
    ASSERT_TRUE(send(message("Go", session_)));
    const auto other = playing({calls({{"c1", "ask"}}), says("the new one")});
    agent_->set_model(other);
    agent_->set_system_prompt("new");
    TurnResult done = send(answer(session_, {result_for("c1", "1")}));
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->text(), "the new one");
    EXPECT_EQ(joined(other->systems), "new");
    EXPECT_EQ(joined(model_->systems), "old");
}

TEST_P(SessionsTest, WhatACallerDoesToItsCopiesChangesNothing) {  // S2-84 S2-85 S2-86 S2-87 S2-104
    make_agent(kStaged);
    TurnResult first = send(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    const std::string before = snapshot(*session_);
    first->suspension->pending_tool_calls.clear();
    first->suspension->completed_tool_calls[0].result = text_result("forged");
    first->suspension->turn_messages[0] = user_message("forged");
    first->output_messages.clear();
    std::optional<Suspension> loaded = suspension_of(*session_);
    loaded->pending_tool_calls[0].metadata = json("{}");
    loaded->turn_messages.clear();
    EXPECT_EQ(snapshot(*session_), before);
    AgentRequest request =
        answer(session_, {result_for("c1", "1"), result_for("c3", "3"), result_for("c4", "4")});
    TurnResult done = send(request);
    ASSERT_TRUE(done) << done.error().message;
    const std::string after = snapshot(*session_);
    done->suspension->turn_messages[1] = user_message("forged");
    request.answers.clear();
    EXPECT_EQ(snapshot(*session_), after);
}

// A memory session drops the turn; the log of a durable one keeps it, with its open calls closed.
TEST_P(SessionsTest, CancellingASuspensionLeavesNoOpenCall) {  // S2-112
    make_agent({says("hello"), kStaged[0], says("next")});
    ASSERT_TRUE(send(message("Hi", session_)));
    ASSERT_TRUE(send(message("Go", session_)));
    const Result<void> cancelled = wait_for(session_->cancel_suspension());
    ASSERT_TRUE(cancelled) << cancelled.error().message;
    EXPECT_FALSE(suspension_of(*session_));
    another_process();
    EXPECT_FALSE(suspension_of(*session_));
    const std::string left =
        durable() ? "u:Hi | a:hello | u:Go | a:ask#c1,look#c2,ask#c3,ask#c4 | "
                    "u:c1!Cancelled by user,c2=seen,c3!Cancelled by user,c4!Cancelled by user"
                  : "u:Hi | a:hello";
    EXPECT_EQ(outline(history_of(*session_)), left);
    TurnResult late = send(answer(session_, {result_for("c1", "1")}));
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().reason, "no_suspended_turn");
    TurnResult next = send(message("Again", session_));
    ASSERT_TRUE(next) << next.error().message;
    EXPECT_EQ(outline(model_->requests.back()), left + " | u:Again");
}

TEST_P(SessionsTest, AResumeWhoseModelFailsCanBeRetriedOrLeavesACleanSession) {  // 2.2, #231
    ScriptEntry failing;
    failing.error.emplace().status = 400;
    make_agent({calls({{"c1", "ask"}}), failing, says("done"), says("more")});
    ASSERT_TRUE(send(message("Go", session_)));
    const std::string before = snapshot(*session_);
    TurnResult failed = send(answer(session_, {result_for("c1", "1")}));
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().kind, ErrorKind::invalid);
    EXPECT_EQ(failed.error().usage, (Usage{10, 5, 0, 0}));
    EXPECT_EQ(outline(failed.error().items), "result:c1=1");
    if (!durable()) {
        EXPECT_EQ(snapshot(*session_), before);
        TurnResult retried = send(answer(session_, {result_for("c1", "1")}));
        ASSERT_TRUE(retried) << retried.error().message;
        EXPECT_EQ(retried->text(), "done");
        return;
    }
    // The answers are in the log, so the turn is over; the next one finds no open call.
    EXPECT_FALSE(suspension_of(*session_));
    another_process();
    EXPECT_EQ(unmatched_calls(history_of(*session_)), "");
    TurnResult next = send(message("Again", session_));
    ASSERT_TRUE(next) << next.error().message;
    EXPECT_EQ(unmatched_calls(model_->requests.back()), "");
}

TEST_P(SessionsTest, SeveralMessagesMakeOneTurn) {
    make_agent({calls({{"c1", "ask"}}), says("done")});
    TurnResult first =
        send({.session = session_, .messages = {user_message("One"), user_message("Two")}});
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(outline(first->suspension->turn_messages), "u:One | u:Two | a:ask#c1");
    another_process();
    ASSERT_TRUE(suspension_of(*session_));
    EXPECT_EQ(outline(suspension_of(*session_)->turn_messages), "u:One | u:Two | a:ask#c1");
    EXPECT_EQ(outline(history_of(*session_)), "");
    TurnResult done = send(answer(session_, {result_for("c1", "1")}));
    ASSERT_TRUE(done) << done.error().message;
    another_process();
    EXPECT_EQ(outline(history_of(*session_)), "u:One | u:Two | a:ask#c1 | u:c1=1 | a:done");
}

// Whether the exception comes out of the call or becomes its error, the session is not stuck.
TEST_P(SessionsTest, CodeOfTheUsersThatThrowsDoesNotBlockTheSession) {
    class Throwing final : public Model {
     public:
        Task<ModelResult> generate(ModelRequest, const OnText&) override {
            throw std::runtime_error("a bug in the model");
        }
    };
    const auto bug = [](HookContext&) -> HookVerdict { throw std::runtime_error("a bug"); };
    Hooks hooks;
    hooks.add(HookPoint::post_generation, bug);
    Agent throwing_model({.model = std::make_shared<Throwing>()});
    Agent throwing_hook({.model = playing({repeating(says("x"))}), .hooks = hooks});
    Agent throwing_reader({.model = playing({repeating(says("x"))})});
    make_agent({repeating(says("fine"))});
    int turns = 0;
    for (Agent* agent : {&throwing_model, &throwing_hook, &throwing_reader}) {
        AgentRequest request = message("Go", session_);
        if (agent == &throwing_reader) {
            request.on_item = [](const Item&) -> Result<void> {
                throw std::runtime_error("a bug");
            };
        }
        try {
            EXPECT_FALSE(agent->respond_and_wait(request)) << turns;
        } catch (const std::runtime_error& thrown) {
            EXPECT_TRUE(std::string_view(thrown.what()).starts_with("a bug")) << thrown.what();
        }
        TurnResult next = send(message("Next", session_));
        ASSERT_TRUE(next) << turns << ": " << next.error().message;
        ++turns;
    }
    EXPECT_EQ(unmatched_calls(history_of(*session_)), "");
}

// ---- Durable sessions as a whole -------------------------------------------------------------

TEST_P(DurableSessionsTest, AForkIsNotSuspendedAndItsModelSeesNoOpenCall) {  // S2-32 S2-65 S2-102
    make_agent({says("hello"), kStaged[0], says("done")});
    ASSERT_TRUE(send(message("Hi", session_)));
    ASSERT_TRUE(send(message("Go", session_)));
    const std::string before = snapshot(*session_);
    auto fork = sessions_->fork(session_->id());
    ASSERT_TRUE(fork) << fork.error().message;
    EXPECT_NE((*fork)->id(), session_->id());
    EXPECT_FALSE(suspension_of(**fork));
    EXPECT_EQ(unmatched_calls(history_of(**fork)), "");
    const std::vector<Message> inherited = history_of(**fork);
    EXPECT_TRUE(outline(inherited).starts_with("u:Hi | a:hello")) << outline(inherited);

    TurnResult other = send(message("In the fork", *fork));
    ASSERT_TRUE(other) << other.error().message;
    EXPECT_EQ(unmatched_calls(model_->requests.back()), "");
    EXPECT_EQ(outline(model_->requests.back()), outline(inherited) + " | u:In the fork");
    EXPECT_EQ(snapshot(*session_), before) << "the original waits on";
    TurnResult done = send(
        answer(session_, {result_for("c1", "1"), result_for("c3", "3"), result_for("c4", "4")}));
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->text(), "done");
}

TEST_P(DurableSessionsTest, AForkFromEarlierHasTheConversationUpToThere) {
    make_agent({says("one"), says("two")});
    ASSERT_TRUE(send(message("First", session_)));
    const Seq at = sessions_->list()[0].last_seq;
    ASSERT_TRUE(send(message("Second", session_)));
    auto fork = sessions_->fork(session_->id(), at);
    ASSERT_TRUE(fork) << fork.error().message;
    EXPECT_EQ(outline(history_of(**fork)), "u:First | a:one");
    make_agent({says("one"), says("three")});
    ASSERT_TRUE(send(message("Third", *fork)));
    EXPECT_EQ(outline(model_->requests.back()), "u:First | a:one | u:Third");
    for (const Seq wrong : {Seq{0}, Seq{1000}}) {
        auto refused = sessions_->fork(session_->id(), wrong);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().reason, "invalid_seq");
    }
    EXPECT_EQ(sessions_->fork(SessionId("sess_nobody")).error().kind, ErrorKind::not_found);
}

TEST(InMemorySessionsTest, AreListedForkedAndCompactedLikeThoseOnDisk) {
    auto sessions = DurableSessions::in_memory();
    ASSERT_TRUE(sessions);
    auto session = (*sessions)->create("mine");
    const Counted deploy = suspending("deploy");
    Agent agent({.model = std::make_shared<WatchedModel>(
                     std::vector{says("one"), says("two"), calls({{"c1", "deploy"}})}),
                 .tools = {deploy.tool}});
    ASSERT_TRUE(agent.respond_and_wait(message("First", *session)));
    ASSERT_TRUE(agent.respond_and_wait(message("Second", *session)));
    ASSERT_TRUE((*sessions)->compact((*session)->id(), 2, "so far"));
    ASSERT_TRUE(agent.respond_and_wait(message("Third", *session)));
    EXPECT_EQ((*sessions)->list({.suspended = true}).size(), 1U);
    ASSERT_TRUE((*sessions)->fork((*session)->id()));
    EXPECT_EQ((*sessions)->list({.suspended = false}).size(), 1U);
    EXPECT_EQ((*sessions)->compact((*session)->id(), 0, "x").error().reason, "suspended_session");
}

TEST_P(DurableSessionsTest, CompactRefusesWhileSuspended) {  // S2-25 S2-33 S2-102
    make_agent({says("hello"), kStaged[0], says("done"), says("more")});
    ASSERT_TRUE(send(message("Hi", session_)));
    ASSERT_TRUE(send(message("Go", session_)));
    const std::string before = snapshot(*session_);
    const Result<void> refused = sessions_->compact(session_->id(), 0, "a summary");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::conflict);
    EXPECT_EQ(refused.error().reason, "suspended_session");
    EXPECT_EQ(snapshot(*session_), before);
    ASSERT_TRUE(send(
        answer(session_, {result_for("c1", "1"), result_for("c3", "3"), result_for("c4", "4")})));

    const Seq whole = sessions_->list()[0].last_seq;
    const Result<void> compacted = sessions_->compact(session_->id(), 0, "a summary");
    ASSERT_TRUE(compacted) << compacted.error().message;
    const std::string shown = outline(history_of(*session_));
    EXPECT_NE(shown.find("a summary"), std::string::npos) << shown;
    EXPECT_EQ(shown.find("hello"), std::string::npos) << shown;
    auto original = sessions_->fork(session_->id(), whole);
    ASSERT_TRUE(original) << original.error().message;
    EXPECT_EQ(outline(history_of(**original)),
              "u:Hi | a:hello | u:Go | a:ask#c1,look#c2,ask#c3,ask#c4 | "
              "u:c1=1,c2=seen,c3=3,c4=4 | a:done")
        << "the log keeps everything";
    another_process();
    EXPECT_EQ(outline(history_of(*session_)), shown);
}

TEST_P(DurableSessionsTest, TheListTellsWhatIsSuspended) {  // S2-19
    make_agent(kStaged);
    auto idle = sessions_->create("idle");
    ASSERT_TRUE(idle);
    ASSERT_TRUE(send(message("Go", session_)));
    const auto ids = [this](const SessionQuery& query) {
        std::vector<std::string> found;
        for (const SessionInfo& info : sessions_->list(query))
            found.push_back(info.id.text());
        std::ranges::sort(found);
        return found;
    };
    for (int process = 1; process <= 2; ++process) {
        EXPECT_EQ(ids({.suspended = true}), std::vector{session_->id().text()});
        EXPECT_EQ(ids({.suspended = false}), std::vector{(*idle)->id().text()});
        EXPECT_EQ(ids({}).size(), 2U);
        EXPECT_EQ(ids({.limit = 1}).size(), 1U);
        another_process();
    }
    for (const SessionInfo& info : sessions_->list()) {
        EXPECT_EQ(info.title, info.suspended ? "a title" : "idle");
        EXPECT_FALSE(info.interrupted);
    }
    ASSERT_TRUE(send(
        answer(session_, {result_for("c1", "1"), result_for("c3", "3"), result_for("c4", "4")})));
    EXPECT_TRUE(ids({.suspended = true}).empty());
}

TEST_P(DurableSessionsTest, ASessionIsOneObjectHoweverOftenItIsAskedFor) {  // 2.2, #187
    auto again = sessions_->get(session_->id());
    ASSERT_TRUE(again);
    EXPECT_EQ(*again, session_);
    make_agent({says("one"), says("two")});
    ASSERT_TRUE(send(message("First", session_)));
    ASSERT_TRUE(send(message("Second", *again)));
    EXPECT_EQ(outline(history_of(*session_)), "u:First | a:one | u:Second | a:two");
}

TEST_P(DurableSessionsTest, ARemovedSessionIsGoneForItsHoldersToo) {  // 2.2: delete evicts
    make_agent({says("one"), says("two")});
    ASSERT_TRUE(send(message("First", session_)));
    const Result<void> removed = sessions_->remove(session_->id());
    ASSERT_TRUE(removed) << removed.error().message;
    EXPECT_EQ(sessions_->get(session_->id()).error().kind, ErrorKind::not_found);
    TurnResult late = send(message("Second", session_));
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().kind, ErrorKind::not_found);
    EXPECT_TRUE(sessions_->list().empty());
    EXPECT_EQ(sessions_->get(SessionId("sess_nobody")).error().kind, ErrorKind::not_found);
}

TEST_P(DurableSessionsTest, IdsOfTheCallersOwnAreChecked) {  // S2-28
    const std::string good[] = {"sess_a", "sess_A-b-9", "sess_" + std::string(26, 'x')};
    for (const std::string& id : good) {
        auto made = sessions_->create("", SessionId(id));
        ASSERT_TRUE(made) << id << ": " << made.error().message;
        EXPECT_EQ((*made)->id().text(), id);
        EXPECT_EQ(sessions_->create("", SessionId(id)).error().reason, "session_exists");
    }
    const std::string bad[] = {"sess_",
                               "a",
                               "../sess_a",
                               "sess_../a",
                               "sess_a/b",
                               "sess_a b",
                               "sess_ä",
                               "SESS_a",
                               "sess_a.b",
                               "sess_\n",
                               "sess_" + std::string(65, 'x'),
                               std::string("sess_\0a", 7)};
    const std::size_t before = sessions_->list().size();
    for (const std::string& id : bad) {
        auto made = sessions_->create("", SessionId(id));
        ASSERT_FALSE(made) << id;
        EXPECT_EQ(made.error().kind, ErrorKind::invalid);
        EXPECT_EQ(made.error().reason, "invalid_session_id");
        EXPECT_FALSE(sessions_->get(SessionId(id)));
    }
    EXPECT_EQ(sessions_->list().size(), before);
}

TEST_P(DurableSessionsTest, TheRefusalOfAnIdNamesTheRuleThatHolds) {  // S2-29
    const std::string refused[] = {"sess_" + std::string(27, 'x'), "sess_a_b"};
    for (const std::string& id : refused) {
        auto made = sessions_->create("", SessionId(id));
        if (made) continue;
        EXPECT_EQ(made.error().message.find("64"), std::string::npos) << made.error().message;
        EXPECT_EQ(made.error().message.find("0-9 _"), std::string::npos) << made.error().message;
    }
}

TEST_P(DurableSessionsTest, OnlyMessagesOfTheUserGoIn) {
    make_agent({says("one")});
    Message forged = user_message("I am the model");
    forged.role = Role::assistant;
    const std::string before = snapshot(*session_);
    TurnResult refused =
        send({.session = session_, .messages = {forged, user_message("and now?")}});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
    EXPECT_EQ(snapshot(*session_), before);
    TurnResult next = send(message("Hi", session_));
    ASSERT_TRUE(next) << next.error().message;
    EXPECT_EQ(outline(history_of(*session_)), "u:Hi | a:one");
}

TEST(DirectoryTest, OneProcessAtATimeHasIt) {  // S2-28 S2-81 S2-113
    const TemporaryDirectory directory;
    auto first = DurableSessions::open(directory.path());
    ASSERT_TRUE(first) << first.error().message;
    auto second = DurableSessions::open(directory.path());
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().kind, ErrorKind::unavailable);
    EXPECT_EQ(second.error().reason, "directory_in_use");
    ASSERT_TRUE((*first)->close());
    first->reset();
    EXPECT_TRUE(DurableSessions::open(directory.path() + "/./")) << "S2-28: however it is written";
}

TEST(DirectoryTest, AMissingDirectoryIsMade) {
    const TemporaryDirectory directory;
    const std::string below = directory.path() + "/data";
    auto sessions = DurableSessions::open(below);
    ASSERT_TRUE(sessions) << sessions.error().message;
    EXPECT_TRUE(std::filesystem::is_directory(below));
}

// ---- A wait with an end ----------------------------------------------------------------------

TEST_P(DurableSessionsTest, ACallThatTimedOutIsAnErrorResultAndTheTurnCanGoOn) {
    if (GetParam() == Where::files) GTEST_SKIP() << "needs a clock of its own";
    const auto slow = make_tool({"slow", "waits a minute"}, [](const ToolCall&) {
        ToolOutcome outcome = ToolOutcome::suspended("one minute");
        outcome.suspend->timeout = Milliseconds(60'000);
        return outcome;
    });
    const auto model = playing({calls({{"c1", "slow"}}), says("gave up")});
    Agent agent({.model = model, .tools = {slow}});
    TurnResult first = agent.respond_and_wait(message("Go", session_));
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(first->suspension->pending_tool_calls[0].timeout_ms, 60'000);
    EXPECT_EQ(suspension_of(*session_)->pending_tool_calls[0].timeout_ms, 60'000);
    clock_.advance(Milliseconds(60'000));
    TurnResult late = agent.respond_and_wait(answer(session_, {result_for("c1", "1")}));
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().reason, "no_suspended_turn");
    TurnResult done = agent.respond_and_wait({.session = session_, .go_on = true});
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done->text(), "gave up");
    EXPECT_EQ(unmatched_calls(history_of(*session_)), "");
}

// ---- Sessions of a user's own ----------------------------------------------------------------

class PlainSession final : public Session {
 public:
    const SessionId& id() const override { return id_; }
    Task<Result<std::span<const Message>>> history() override {
        co_return std::span<const Message>(messages);
    }
    Task<Result<void>> save_turn(Turn turn) override {
        ++saved;
        usage += turn.usage;
        std::ranges::copy(turn.messages, std::back_inserter(messages));
        co_return Result<void>();
    }
    std::vector<Message> messages;
    Usage usage;
    int saved = 0;

 private:
    SessionId id_{"plain"};
};

// S2-03 S2-15 S2-91 S2-116 S2-123; 2.2, #189
TEST(PlainSessionTest, SuspendsAndIsResumedByTheState) {
    const auto session = std::make_shared<PlainSession>();
    const auto model =
        playing({says("hello"), calls({{"c1", "ask"}, {"c2", "ask"}}), says("done")});
    Agent agent({.model = model, .tools = {suspending("ask").tool}});
    ASSERT_TRUE(agent.respond_and_wait(message("Hi", session)));
    TurnResult first = agent.respond_and_wait(message("Go", session));
    ASSERT_TRUE(first) << first.error().message;
    ASSERT_EQ(first->status, ResponseStatus::suspended);
    EXPECT_EQ(outline(first->suspension->turn_messages), "u:Go | a:ask#c1,ask#c2");
    EXPECT_EQ(session->saved, 1) << "nothing of a suspended turn is saved";

    const Result<Suspension> state =
        from_json<Suspension>(to_json(*first->suspension), "the suspension");
    ASSERT_TRUE(state);
    AgentRequest request = resume(*state, {result_for("c2", "2")});
    request.session = session;
    TurnResult part = agent.respond_and_wait(request);
    ASSERT_TRUE(part) << part.error().message;
    EXPECT_EQ(session->saved, 1);
    request = resume(*part->suspension, {result_for("c1", "1")});
    request.session = session;
    TurnResult done = agent.respond_and_wait(request);
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(outline(model->requests.back()),
              "u:Hi | a:hello | u:Go | a:ask#c1,ask#c2 | u:c1=1,c2=2")
        << "the earlier history is there";
    EXPECT_EQ(session->saved, 2);
    EXPECT_EQ(outline(session->messages),
              "u:Hi | a:hello | u:Go | a:ask#c1,ask#c2 | u:c1=1,c2=2 | a:done");
    EXPECT_EQ(session->usage, (Usage{24, 11, 0, 0}));
    TurnResult nothing = agent.respond_and_wait(answer(session, {result_for("c1", "1")}));
    ASSERT_FALSE(nothing);
    EXPECT_EQ(nothing.error().reason, "no_suspended_turn");
}

// A store that says no while `full` is set.
class FullStore final : public ForwardingStore {
 public:
    using ForwardingStore::ForwardingStore;
    void commit(Commit commit, CommitDone done) override {
        if (full) return done(Error(ErrorKind::io, "disk_full", "the disk is full"));
        ForwardingStore::commit(std::move(commit), std::move(done));
    }
    bool full = false;
};

// S2-35 S2-78 S2-79 S2-80 S2-107 S2-108 S2-109
TEST(FullStoreTest, AFailedCommitIsTheErrorOfTheCallAndTheSuspensionStays) {
    ManualClock clock;
    SeededRandom random{7};
    RealFs fs;
    Logger log{LogLevel::off};
    MemoryStore inner(clock);
    const auto store = std::make_shared<FullStore>(inner);
    auto sessions = DurableSessions::open(Env{clock, random, fs, log}, store);
    ASSERT_TRUE(sessions) << sessions.error().message;
    auto session = (*sessions)->create();
    ASSERT_TRUE(session) << session.error().message;
    const auto model =
        playing({says("hello"), calls({{"c1", "ask"}, {"c2", "ask"}}), says("done")});
    Agent agent({.model = model, .tools = {suspending("ask").tool}});
    const auto fails = [&](AgentRequest request) {
        const std::string before = snapshot(**session);
        store->full = true;
        const TurnResult failed = agent.respond_and_wait(std::move(request));
        store->full = false;
        ASSERT_FALSE(failed);
        EXPECT_EQ(failed.error().kind, ErrorKind::io);
        EXPECT_EQ(snapshot(**session), before);
    };
    ASSERT_TRUE(agent.respond_and_wait(message("Hi", *session)));
    fails(message("Lost", *session));
    const auto next = playing({says("hello"), calls({{"c1", "ask"}, {"c2", "ask"}}), says("done")});
    agent.set_model(next);
    TurnResult first = agent.respond_and_wait(message("Go", *session));
    ASSERT_TRUE(first) << first.error().message;
    fails(answer(*session, {result_for("c1", "1")}));
    fails(answer(*session, {result_for("c1", "1"), result_for("c2", "2")}));
    TurnResult done =
        agent.respond_and_wait(answer(*session, {result_for("c1", "1"), result_for("c2", "2")}));
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(outline(history_of(**session)),
              "u:Hi | a:hello | u:Go | a:ask#c1,ask#c2 | u:c1=1,c2=2 | a:done");
}

// A memory session whose saves fail while `broken` is set.
class BreakingSession final : public Session {
 public:
    const SessionId& id() const override { return inner->id(); }
    Task<Result<std::span<const Message>>> history() override { return inner->history(); }
    bool keeps_suspensions() const override { return true; }
    Task<Result<std::optional<Suspension>>> load_suspension() override {
        return inner->load_suspension();
    }
    Task<Result<void>> save_turn(Turn turn) override {
        if (broken) co_return full();
        co_return co_await inner->save_turn(std::move(turn));
    }
    Task<Result<Suspension>> save_suspended_turn(Suspension suspension) override {
        if (broken) co_return full();
        co_return co_await inner->save_suspended_turn(std::move(suspension));
    }
    Task<Result<void>> save_resumed_turn(Turn turn) override {
        if (broken) co_return full();
        co_return co_await inner->save_resumed_turn(std::move(turn));
    }
    static Error full() { return {ErrorKind::io, "disk_full", "the disk is full"}; }

    std::shared_ptr<Session> inner = make_memory_session(SessionId("breaking"));
    bool broken = false;
};

// S2-13 S2-35 S2-72 S2-78 S2-79 S2-80 S2-98 S2-107 S2-108 S2-109
TEST(BreakingSessionTest, AFailedSaveIsTheErrorOfTheCallAndNothingChanged) {
    const auto session = std::make_shared<BreakingSession>();
    const auto model = playing({says("hello"), says("hello"), calls({{"c1", "ask"}, {"c2", "ask"}}),
                                calls({{"c1", "ask"}, {"c2", "ask"}}), says("done"), says("done")});
    Agent agent({.model = model, .tools = {suspending("ask").tool}});
    // Fails while the session is broken, then goes through.
    const auto fails_once = [&](AgentRequest request) {
        const std::string before = snapshot(*session);
        std::vector<Item> items;
        request.on_item = [&](const Item& item) -> Result<void> {
            items.push_back(item);
            return {};
        };
        session->broken = true;
        const TurnResult failed = agent.respond_and_wait(request);
        session->broken = false;
        ASSERT_FALSE(failed);
        EXPECT_EQ(failed.error().kind, ErrorKind::io);
        EXPECT_EQ(failed.error().reason, "disk_full");
        const std::string seen = outline(items);
        EXPECT_FALSE(seen.ends_with("suspended") || seen.ends_with("completed")) << seen;
        EXPECT_EQ(snapshot(*session), before);
        const TurnResult done = agent.respond_and_wait(request);
        ASSERT_TRUE(done) << done.error().message;
        EXPECT_NE(snapshot(*session), before);
    };
    fails_once(message("Hi", session));
    fails_once(message("Go", session));
    fails_once(answer(session, {result_for("c1", "1")}));
    fails_once(answer(session, {result_for("c2", "2")}));
    EXPECT_EQ(outline(history_of(*session)),
              "u:Hi | a:hello | u:Go | a:ask#c1,ask#c2 | u:c1=1,c2=2 | a:done");
}

TEST(SessionTest, OneThatKeepsNoSuspensionsTakesAResumedTurnAsAWholeOne) {
    PlainSession session;
    EXPECT_FALSE(session.keeps_suspensions());
    EXPECT_TRUE(wait_for(session.save_resumed_turn({{user_message("x")}, {}})));
    EXPECT_EQ(session.saved, 1);
    EXPECT_EQ(wait_for(session.cancel_suspension()).error().reason, "not_suspended");
    EXPECT_FALSE(*wait_for(session.load_suspension()));
}

}  // namespace
}  // namespace rouse
