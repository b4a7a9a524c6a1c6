// What goes out to providers, over which connections, and who hears the answer.

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <filesystem>
#include <fstream>
#include <thread>

#include "rouse/agent.h"
#include "rouse/models.h"
#include "testing/agent_kit.h"
#include "testing/http_kit.h"

namespace rouse {
namespace {

namespace asio = boost::asio;
using namespace testing;
using Fault = HttpReply::Fault;

constexpr std::string_view kMessage =
    R"({"id":"m","type":"message","role":"assistant","model":"claude","content":[{"type":"text",)"
    R"("text":"Hello"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}})";
constexpr std::string_view kHalf =
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"claude\","
    "\"content\":[],\"usage\":{}}}\n\nevent: content_block_start\ndata: "
    "{\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\","
    "\"text\":\"\"}}\n\nevent: content_block_delta\ndata: {\"type\":\"content_block_delta\","
    "\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hel\"}}\n\n";

// A conversation with a bit of everything.
std::vector<Message> conversation() {
    std::vector<Message> said;
    said.push_back(user_message("Look"));
    said.back().content.emplace_back(
        ImageBlock{json(R"({"type":"base64","media_type":"image/png","data":"aGk="})"), {}});
    Message calls{Role::assistant, text_content("On it"), {}};
    calls.content.emplace_back(ToolUseBlock{CallId{"c1"}, "look", json(R"({"n":1.0})"), {}});
    calls.content.emplace_back(ToolUseBlock{CallId{"c2"}, "look", json("\"{n\""), {}});
    said.push_back(std::move(calls));
    Message results;
    results.content.emplace_back(ToolResultBlock{CallId{"c1"}, json("\"seen\""), false, {}});
    results.content.emplace_back(
        ToolResultBlock{CallId{"c2"}, json(R"([{"type":"text","text":"bad"}])"), true, {}});
    results.content.emplace_back(TextBlock{"Well?", {}});
    said.push_back(std::move(results));
    return said;
}

class HttpModelTest : public HttpTest {
 protected:
    ~HttpModelTest() override {
        if (!ca_file_.empty()) std::filesystem::remove(ca_file_);
    }
    template <class Options>
    Options options(std::string_view base = "") const {
        Options made;
        made.model = "m";
        made.base_url = fake_.url(base);
        made.api_key = Secret("k-123");
        made.temperature = 0.5;
        made.max_tokens = 99;
        made.request = json(R"({"top_p":0.9,"max_tokens":98})");
        made.stream = false;
        return made;
    }
    ModelResult ask(Model& model, const std::vector<Message>& turn = {user_message("Hi")}) {
        ModelRequest request;
        request.system = "Be terse";
        request.turn = turn;
        const ToolSpec spec{"look", "Looks", json(R"({"type":"object"})")};
        const std::vector<const ToolSpec*> tools = {&spec};
        request.tools = tools;
        return run_on(loop_, model.generate(request, on_text_));
    }
    static HttpReply half_and_stall() {
        std::string body(kHalf);
        const std::size_t most = body.size() + 500;  // its head is shorter than that
        body.append(5000, '\n');
        HttpReply reply = HttpReply::failing(Fault::stall, most, std::move(body));
        reply.headers = {{"Content-Type", "text/event-stream"}};
        return reply;
    }
    std::string sent() const { return fake_.requests().back().body; }
    std::string write_ca(const std::string& pem) {
        ca_file_ = std::filesystem::temp_directory_path() /
                   ("rouse_models_" + std::to_string(::getpid()) + ".pem");
        std::ofstream(ca_file_) << pem;
        return ca_file_;
    }

    std::string heard_;
    Model::OnText on_text_ = [this](std::string_view text) -> Result<void> {
        heard_ += text;
        return {};
    };
    std::string ca_file_;
};

TEST_F(HttpModelTest, AnthropicGetsBlocks) {
    fake_.script("/v1/messages", {HttpReply::json(std::string(kMessage))});
    AnthropicOptions made = options<AnthropicOptions>("/");
    made.betas = {"a-1", "b-2"};
    const ModelResult answer = ask(*make_anthropic_model(made, client_), conversation());
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(
        sent(),
        R"({"model":"m","max_tokens":98,"system":"Be terse","messages":[{"role":"user","content":[)"
        R"({"type":"text","text":"Look"},{"type":"image","source":{"type":"base64","media_type":)"
        R"("image/png","data":"aGk="}}]},{"role":"assistant","content":[{"type":"text","text":)"
        R"("On it"},{"type":"tool_use","id":"c1","name":"look","input":{"n":1.0}},{"type":)"
        R"("tool_use","id":"c2","name":"look","input":{"INVALID_JSON":"{n"}}]},{"role":"user",)"
        R"("content":[{"type":"tool_result","tool_use_id":"c1","content":"seen"},{"type":)"
        R"("tool_result","tool_use_id":"c2","content":[{"type":"text","text":"bad"}],"is_error":)"
        R"(true},{"type":"text","text":"Well?"}]}],"tools":[{"name":"look","description":"Looks",)"
        R"("input_schema":{"type":"object"}}],"temperature":0.5,"top_p":0.9})");
    const HttpFakeRequest request = fake_.requests().back();
    EXPECT_EQ(request.header("x-api-key"), "k-123");
    EXPECT_EQ(request.header("anthropic-version"), "2026-10-21");
    EXPECT_EQ(request.header("anthropic-beta"), "a-1,b-2");
}

TEST_F(HttpModelTest, ChatCompletionsGetsMessages) {
    fake_.script("/v1/chat/completions",
                 {HttpReply::json(R"({"model":"m","choices":[{"index":0,"message":{"content":)"
                                  R"("Hello"},"finish_reason":"stop"}]})")});
    const auto model = make_openai_model(options<OpenAiOptions>("/v1"), client_);
    const ModelResult answer = ask(*model, conversation());
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(
        sent(),
        R"({"model":"m","messages":[{"role":"system","content":"Be terse"},{"role":"user",)"
        R"("content":[{"type":"text","text":"Look"},{"type":"image_url","image_url":{"url":)"
        R"("data:image/png;base64,aGk="}}]},{"role":"assistant","content":"On it","tool_calls":[)"
        R"({"id":"c1","type":"function","function":{"name":"look","arguments":"{\"n\":1.0}"}},)"
        R"({"id":"c2","type":"function","function":{"name":"look","arguments":"{n"}}]},{"role":)"
        R"("tool","tool_call_id":"c1","content":"seen"},{"role":"tool","tool_call_id":"c2",)"
        R"("content":"Error: bad"},{"role":"user","content":"Well?"}],"tools":[{"type":"function",)"
        R"("function":{"name":"look","description":"Looks","parameters":{"type":"object"}}}],)"
        R"("max_completion_tokens":99,"temperature":0.5,"top_p":0.9,"max_tokens":98})");
    EXPECT_EQ(fake_.requests().back().header("authorization"), "Bearer k-123");
}

TEST_F(HttpModelTest, ResponsesGetsItems) {
    fake_.script("/v1/responses",
                 {HttpReply::json(R"({"status":"completed","model":"m","output":[]})")});
    OpenAiOptions made = options<OpenAiOptions>("/v1");
    made.api = OpenAiApi::responses;
    std::vector<Message> said = conversation();
    said[1].content.insert(said[1].content.begin(),
                           Block(UnknownBlock{json(R"({"type":"reasoning","id":"r1"})")}));
    const ModelResult answer = ask(*make_openai_model(made, client_), said);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(
        sent(),
        R"({"model":"m","instructions":"Be terse","input":[{"type":"message","role":"user",)"
        R"("content":[{"type":"input_text","text":"Look"},{"type":"input_image","detail":"auto",)"
        R"("image_url":"data:image/png;base64,aGk="}]},{"type":"reasoning","id":"r1"},{"type":)"
        R"("message","role":"assistant","content":"On it"},{"type":"function_call","call_id":"c1",)"
        R"("name":"look","arguments":"{\"n\":1.0}"},{"type":"function_call","call_id":"c2",)"
        R"("name":"look","arguments":"{n"},{"type":"function_call_output","call_id":"c1","output":)"
        R"("seen"},{"type":"function_call_output","call_id":"c2","output":"Error: bad"},{"type":)"
        R"("message","role":"user","content":[{"type":"input_text","text":"Well?"}]}],"tools":[)"
        R"({"type":"function","name":"look","description":"Looks","parameters":{"type":"object"},)"
        R"("strict":false}],"store":false,"include":["reasoning.encrypted_content"],)"
        R"("max_output_tokens":99,"temperature":0.5,"top_p":0.9,"max_tokens":98})");
}

TEST_F(HttpModelTest, ConnectionsAreKept) {
    fake_.script("/v1/messages", {HttpReply::json(std::string(kMessage))});
    const auto model = make_anthropic_model(options<AnthropicOptions>(), client_);
    for (int i = 0; i < 3; ++i)
        ASSERT_TRUE(ask(*model));
    EXPECT_EQ(fake_.connections(), 1);
}

TEST_F(HttpModelTest, ACertificateOfOnesOwnIsTrustedWhenNamedAndHttp2IsOffered) {
    HttpFake safe({.tls = true});
    safe.script("/v1/messages", {HttpReply::json(std::string(kMessage))});
    AnthropicOptions made = options<AnthropicOptions>();
    made.base_url = safe.url("");
    const ModelResult refused = ask(*make_anthropic_model(made, client_));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().reason, "model_unavailable");
    made.ca_file = write_ca(safe.certificate());
    const ModelResult answer = ask(*make_anthropic_model(made, client_));
    ASSERT_TRUE(answer) << answer.error().message;
    const std::vector<std::string> offered = safe.offered();
    EXPECT_NE(std::ranges::find(offered, "h2"), offered.end());
}

TEST_F(HttpModelTest, AListenerThatFailsEndsTheAnswerAtOnce) {
    fake_.script("/v1/messages", {half_and_stall()});
    on_text_ = [](std::string_view) -> Result<void> {
        return Error(ErrorKind::conflict, "enough", "that will do");
    };
    AnthropicOptions made = options<AnthropicOptions>();
    made.idle_timeout = Milliseconds(200);  // the next byte, at which it is noticed, never comes
    const ModelResult answer = ask(*make_anthropic_model(made, client_));
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().reason, "enough");
    fake_.wait_for_leavers(1);
}

TEST_F(HttpModelTest, CancellingEndsTheAnswerAtOnce) {
    fake_.script("/v1/messages", {half_and_stall()});
    asio::cancellation_signal signal;
    on_text_ = [&](std::string_view) -> Result<void> {
        asio::post(loop_, [&] { signal.emit(asio::cancellation_type::terminal); });
        return {};
    };
    const auto model = make_anthropic_model(options<AnthropicOptions>(), client_);
    const std::vector<Message> turn = {user_message("Hi")};
    ModelRequest request;
    request.turn = turn;
    std::optional<ModelResult> result;
    auto done = [&](const std::exception_ptr&, ModelResult answer) { result = std::move(answer); };
    asio::co_spawn(loop_, model->generate(request, on_text_),
                   asio::bind_cancellation_slot(signal.slot(), done));
    loop_.restart();
    loop_.run();
    ASSERT_TRUE(result && !*result);
    EXPECT_EQ(result->error().kind, ErrorKind::cancelled);
    fake_.wait_for_leavers(1);
}

TEST_F(HttpModelTest, AnAnswerHasATimeAltogetherAndOneForItsNextByte) {
    AnthropicOptions made = options<AnthropicOptions>();
    for (Milliseconds AnthropicOptions::* limit :
         {&AnthropicOptions::request_timeout, &AnthropicOptions::idle_timeout}) {
        fake_.script("/v1/messages", {half_and_stall()});
        AnthropicOptions hasty = made;
        hasty.*limit = Milliseconds(100);
        const ModelResult answer = ask(*make_anthropic_model(hasty, client_));
        ASSERT_FALSE(answer);
        EXPECT_EQ(answer.error().reason, "model_timeout") << answer.error().message;
    }
    fake_.wait_for_leavers(2);
}

// A program without a loop of its own: the network has a thread, the listener has the caller's.
TEST_F(HttpModelTest, AModelWithANetworkOfItsOwnIsHeardOnTheCallersThread) {
    HttpReply reply =
        HttpReply::text(std::string(kHalf) +
                        "data: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
                        "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":"
                        "\"end_turn\"}}\n\ndata: {\"type\":\"message_stop\"}\n\n");
    reply.headers = {{"Content-Type", "text/event-stream"}};
    fake_.script("/v1/messages", {reply});
    Agent agent({.model = make_anthropic_model(options<AnthropicOptions>())});
    const std::thread::id here = std::this_thread::get_id();
    int heard = 0;
    for (int i = 0; i < 3; ++i) {
        AgentRequest request = message("Hi");
        request.on_item = [&](const Item& item) -> Result<void> {
            EXPECT_EQ(std::this_thread::get_id(), here);
            heard += std::holds_alternative<TextDelta>(item) ? 1 : 0;
            return {};
        };
        const TurnResult done = agent.respond_and_wait(std::move(request));
        ASSERT_TRUE(done) << done.error().message;
        EXPECT_EQ(done->text(), "Hel");
    }
    EXPECT_EQ(heard, 3);
}

TEST_F(HttpModelTest, AKeyThatAProviderGivesBackIsNotShown) {
    fake_.script(
        "/v1/messages",
        {HttpReply::json(R"({"error":{"type":"x","message":"bad key k-123, k-123"}})", 401)});
    const ModelResult answer = ask(*make_anthropic_model(options<AnthropicOptions>(), client_));
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().message, "401 x: bad key ***, ***");
}

}  // namespace
}  // namespace rouse
