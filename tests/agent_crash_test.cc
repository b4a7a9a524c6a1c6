// A process that is killed at each commit of a turn: started again, it ends with the conversation
// that one which was never killed has (design §1, §6; P1…P3).

#include <gtest/gtest.h>

#include <map>

#include "base/env.h"
#include "domain/audit.h"
#include "domain/transcript.h"
#include "rouse/durable_sessions.h"
#include "store/memory/memory_store.h"
#include "testing/agent_kit.h"
#include "testing/dying_store.h"
#include "testing/manual_clock.h"
#include "testing/seeded_random.h"

namespace rouse {
namespace {

using namespace testing;
using Death = DyingStore::Death;

const SessionId kSession("sess_crash");
constexpr ToolAnnotations kAgain{.idempotent = true};

struct Story {
    std::string name;
    std::vector<ScriptEntry> script;
    bool parallel = true;
    std::map<std::string, Answer> answers;  // for whatever waits, by call id
};

std::vector<Story> stories() {
    std::vector<Story> all;
    all.push_back({"a plain answer", {says("hello")}, true, {}});
    all.push_back({"one tool", {calls({{"a", "look"}}), says("it is {{result}}")}, true, {}});
    all.push_back({"a suspension",
                   {calls({{"a", "deploy"}}), says("live: {{result}}")},
                   true,
                   {{"a", text_result("v1")}}});
    all.push_back({"siblings of a suspension",
                   {calls({{"a", "look"}, {"b", "deploy"}, {"c", "write"}}), says("done")},
                   true,
                   {{"b", text_result("v2")}}});
    all.push_back({"in order, stopped at the suspender",
                   {calls({{"a", "write"}, {"b", "deploy"}, {"c", "write"}}),
                    calls({{"d", "deploy"}}), says("done")},
                   false,
                   {{"b", text_result("v3")}, {"d", text_result("v4")}}});
    all.push_back({"two waits answered one by one",
                   {calls({{"a", "deploy"}, {"b", "deploy"}}), says("both: {{result}}")},
                   true,
                   {{"a", text_result("one")}, {"b", error_result("two failed")}}});
    all.push_back({"an approval with another input and a denial",
                   {calls({{"a", "danger"}, {"b", "danger"}}), says("settled")},
                   true,
                   {{"a", Approval::with_input(RawJson::trusted(R"({"sure":true})"))},
                    {"b", Approval::no("not today")}}});
    all.push_back({"an error of a tool", {calls({{"a", "broken"}}), says("sorry")}, true, {}});
    return all;
}

// A machine: the disk stays, processes come and go.
class Machine {
 public:
    explicit Machine(const Story& story) : story_(story) {}

    // One process: does what there is to do until the session is idle, or it dies.
    void live(std::size_t dies_at, Death death) {
        const auto store = std::make_shared<DyingStore>(disk_, dies_at, death);
        commits_ = 0;
        Agent agent({.model = std::make_shared<WatchedModel>(story_.script),
                     .tools = tools(),
                     .parallel_tool_calls = story_.parallel});
        auto sessions = DurableSessions::open(env_, store);
        if (sessions) work(agent, **sessions, *store);
        commits_ = store->commits();
    }

    // As JSON, for people to read.
    std::string conversation() {
        const auto records = read_records(disk_, kSession);
        EXPECT_TRUE(records);
        Transcript transcript;
        LogAudit audit(kSession);
        for (const Record& record : *records) {
            transcript.fold(record);
            EXPECT_EQ(audit.check(record), std::nullopt) << story_.name;
        }
        const std::vector<Message> messages = build_context(transcript, error_result("OPEN"));
        EXPECT_EQ(unmatched_calls(messages), "") << story_.name;
        EXPECT_EQ(to_json(messages).find("OPEN"), std::string::npos) << story_.name;
        return to_json(messages);
    }
    bool is_idle() {
        const auto state = disk_.load(kSession);
        return state && (*state)->run && (*state)->run->outcome == RunOutcome::completed;
    }
    std::size_t commits() const { return commits_; }

 private:
    std::vector<std::shared_ptr<Tool>> tools() {
        ToolSpec deploy{"deploy", "takes long", {}, kAgain};
        ToolSpec broken{"broken", "fails", {}, kAgain};
        ToolSpec danger{"danger", "asks first", {}, {.idempotent = true, .approval = true}};
        return {
            answering("look", "blue", {.read_only = true}).tool,
            answering("write", "written", kAgain).tool,
            make_tool(deploy, [](const ToolCall&) { return ToolOutcome::suspended("deploying"); }),
            make_tool(broken,
                      [](const ToolCall&) -> ToolOutcome {
                          throw std::runtime_error("broken for good");
                      }),
            make_tool(danger, [](const ToolCall& call) {
                return ToolOutcome::text("ran with " + call.input.text());
            })};
    }

    void work(Agent& agent, DurableSessions& sessions, const DyingStore& store) {
        Result<std::shared_ptr<Session>> session = sessions.get(kSession);
        if (!session) session = sessions.create("", kSession);
        // Bounded: a process that makes no progress is a bug.
        for (int steps = 0; session && !is_idle() && !store.died(); ++steps) {
            ASSERT_LT(steps, 20) << story_.name;
            const TurnResult done = agent.respond_and_wait(next(*session));
            ASSERT_TRUE(done || store.died()) << story_.name << ": " << done.error().message;
        }
    }

    AgentRequest next(const std::shared_ptr<Session>& session) {
        const auto state = disk_.load(kSession);
        if (!(*state)->run) return message("go", session);
        for (const PendingCall& call : (*state)->pending) {
            if (!is_open(call.status) || !(*state)->is_parked()) continue;
            return answer(session, {{call.call_id, story_.answers.at(call.call_id.text)}});
        }
        return {.session = session, .go_on = true};
    }

    const Story& story_;
    ManualClock clock_;
    SeededRandom random_{11};
    RealFs fs_;
    Logger log_{LogLevel::off};
    Env env_{clock_, random_, fs_, log_};
    MemoryStore disk_{clock_};
    std::size_t commits_ = 0;
};

constexpr std::size_t kNever = 1'000'000;

TEST(AgentCrashTest, KilledAtEachCommitTheTurnEndsTheSame) {
    std::size_t cases = 0;
    for (const Story& story : stories()) {
        Machine calm(story);
        calm.live(kNever, Death::before_commit);
        ASSERT_TRUE(calm.is_idle()) << story.name;
        const std::string expected = calm.conversation();
        for (const Death death : {Death::before_commit, Death::after_commit}) {
            for (std::size_t at = 1; at <= calm.commits(); ++at) {
                Machine machine(story);
                machine.live(at, death);
                machine.live(kNever, death);
                EXPECT_TRUE(machine.is_idle()) << story.name << ", killed at commit " << at;
                EXPECT_EQ(machine.conversation(), expected)
                    << story.name << ", killed at commit " << at;
                ++cases;
            }
        }
    }
    std::printf("%zu deaths\n", cases);
}

// And the process that recovers is killed too.
TEST(AgentCrashTest, KilledAtEachCommitTwiceTheTurnEndsTheSame) {
    std::size_t cases = 0;
    for (const Story& story : stories()) {
        Machine calm(story);
        calm.live(kNever, Death::before_commit);
        const std::string expected = calm.conversation();
        for (std::size_t first = 1; first <= calm.commits(); ++first) {
            for (std::size_t second = 1; second <= calm.commits(); ++second) {
                Machine machine(story);
                machine.live(first, Death::after_commit);
                machine.live(second, Death::before_commit);
                machine.live(kNever, Death::before_commit);
                EXPECT_EQ(machine.conversation(), expected)
                    << story.name << ", killed at commits " << first << " and " << second;
                ++cases;
            }
        }
    }
    std::printf("%zu deaths\n", cases);
}

}  // namespace
}  // namespace rouse
