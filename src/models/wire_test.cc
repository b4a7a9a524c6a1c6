// Every transcript in tests/models/wire, from a server on loopback, in pieces cut at random places,
// read as the providers' own client libraries read it.

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "rouse/models.h"
#include "testing/http_kit.h"
#include "testing/seeded_random.h"

namespace rouse {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using namespace testing;

const fs::path kWire = fs::path(ROUSE_SOURCE_DIR) / "tests/models/wire";
constexpr std::uint64_t kSeed = 20261116;
constexpr int kRounds = 8;

std::string slurp(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    EXPECT_TRUE(file) << path;
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

struct Transcript {
    std::string name;  // "anthropic/text-stream"
    json::value meta;
    json::value expected;
    std::string body;

    static Transcript load(const std::string& name) {
        const fs::path folder = kWire / name;
        const bool stream = fs::exists(folder / "response.sse");
        return {name, json::parse(slurp(folder / "response.meta.json")),
                json::parse(slurp(folder / "expected.json")),
                slurp(folder / (stream ? "response.sse" : "response.json"))};
    }
    std::string outcome() const { return json::value_to<std::string>(expected.at("outcome")); }
    bool resets() const { return meta.as_object().contains("end"); }
};

std::vector<std::string> all_names() {
    std::vector<std::string> names;
    for (const char* api : {"anthropic", "openai-chat", "openai-responses"}) {
        for (const auto& entry : fs::directory_iterator(kWire / api))
            names.push_back(std::string(api) + "/" + entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
}

// The whole answer with its body in HTTP chunks of 1 to 40 bytes.
HttpReply in_pieces(const Transcript& transcript, SeededRandom& random) {
    std::string raw =
        "HTTP/1.1 " + std::to_string(transcript.meta.at("status").to_number<int>()) + " X\r\n";
    for (const auto& [name, value] : transcript.meta.at("headers").as_object())
        raw += std::string(name) + ": " + json::value_to<std::string>(value) + "\r\n";
    raw += "transfer-encoding: chunked\r\n\r\n";
    std::string_view rest = transcript.body;
    while (!rest.empty()) {
        const std::string_view piece = rest.substr(0, 1 + random.next() % 40);
        rest.remove_prefix(piece.size());
        std::ostringstream size;
        size << std::hex << piece.size();
        raw += size.str() + "\r\n" + std::string(piece) + "\r\n";
    }
    HttpReply reply;
    if (!transcript.resets()) raw += "0\r\n\r\n";
    if (transcript.resets()) {
        reply.fault = HttpReply::Fault::reset;
        reply.fault_after = raw.size();
    }
    reply.raw = std::move(raw);
    return reply;
}

// What the answer says, in the words of expected.json.
std::string text_in(const Content& content) {
    return text_of(Message{Role::assistant, content, {}});
}

std::string thinking_in(const Content& content) {
    std::string text;
    for (const Block& block : content) {
        const auto* unknown = block.get_if<UnknownBlock>();
        if (unknown == nullptr) continue;
        const json::value object = json::parse(unknown->object.text());
        if (object.at("type") == "thinking") {
            text += json::value_to<std::string>(object.at("thinking"));
        }
        if (object.at("type") != "reasoning") continue;
        for (const json::value& part : object.at("summary").as_array())
            text += json::value_to<std::string>(part.at("text"));
    }
    return text;
}

json::array calls_in(const Content& content) {
    json::array calls;
    for (const Block& block : content) {
        const auto* use = block.get_if<ToolUseBlock>();
        if (use == nullptr) continue;
        json::object call;
        call["id"] = use->id.text;
        call["name"] = use->name;
        call["arguments"] = json::parse(use->input.text());
        calls.push_back(std::move(call));
    }
    return calls;
}

std::string stop_word(const Transcript& transcript, const json::object& result) {
    const auto is = [&](const char* key, const char* value) {
        return result.contains(key) && result.at(key) == value;
    };
    const bool calls = !result.at("calls").as_array().empty();
    if (transcript.name.starts_with("anthropic/")) {
        return json::value_to<std::string>(result.at("stop"));
    }
    if (is("stop", "length") || is("incomplete", "max_output_tokens")) return "max_tokens";
    const bool refused = !result.at("refusal").as_string().empty();
    if (is("stop", "content_filter") || refused) return "refusal";
    return calls ? "tool_use" : "end_turn";
}

void expect_same(const Transcript& transcript, const ModelResponse& answer) {
    const json::object& result = transcript.expected.at("result").as_object();
    EXPECT_EQ(answer.model, json::value_to<std::string>(result.at("model")));
    std::string text = json::value_to<std::string>(result.at("text"));
    if (result.contains("refusal")) text += json::value_to<std::string>(result.at("refusal"));
    EXPECT_EQ(text_in(answer.content), text);
    if (result.contains("thinking")) {
        EXPECT_EQ(thinking_in(answer.content), json::value_to<std::string>(result.at("thinking")));
    }
    EXPECT_EQ(answer.stop_reason, stop_word(transcript, result));
    EXPECT_EQ(answer.cut, answer.stop_reason != "tool_use");
    json::array calls = result.at("calls").as_array();
    for (json::value& call : calls) {
        // Where the libraries give up or say {}: what the model wrote, as a string.
        json::value& arguments = call.at("arguments");
        if (arguments.is_object() && arguments.as_object().contains("$unparsable")) {
            arguments = json::value(arguments.at("$unparsable"));
        } else if (answer.stop_reason == "max_tokens") {
            EXPECT_EQ(arguments, json::object());
            arguments = calls_in(answer.content).at(0).at("arguments");
            EXPECT_TRUE(arguments.is_string());
        }
    }
    EXPECT_EQ(calls_in(answer.content), calls);
    const json::object& usage = result.at("usage").as_object();
    EXPECT_EQ(answer.usage.input_tokens, usage.at("input").to_number<std::int64_t>());
    EXPECT_EQ(answer.usage.output_tokens, usage.at("output").to_number<std::int64_t>());
    EXPECT_EQ(answer.usage.cache_read_tokens, usage.at("cache_read").to_number<std::int64_t>());
    if (usage.contains("cache_write")) {
        EXPECT_EQ(answer.usage.cache_write_tokens,
                  usage.at("cache_write").to_number<std::int64_t>());
    }
}

// Which failures may work later, by what the transcript's status and note say.
bool may_work_later(const Transcript& transcript) {
    const int status = transcript.meta.at("status").to_number<int>();
    if (transcript.name.ends_with("error-429-quota")) return false;
    return status == 200 || status == 429 || status >= 500;
}

void expect_failure(const Transcript& transcript, const ModelError& error) {
    const bool later = error.kind == ErrorKind::unavailable || error.kind == ErrorKind::timeout;
    EXPECT_EQ(later, may_work_later(transcript)) << error.message;
    const int status = transcript.meta.at("status").to_number<int>();
    EXPECT_EQ(error.kind == ErrorKind::denied, status == 401 || (status == 429 && !later));
    EXPECT_EQ(error.reason == "context_too_long", transcript.name.ends_with("-context"));
    if (status == 200) return;
    // The provider's own words.
    const json::value body = json::parse(transcript.body);
    const auto words = json::value_to<std::string>(body.at("error").at("message"));
    EXPECT_TRUE(error.message.contains(words)) << error.message;
    EXPECT_TRUE(error.message.starts_with(std::to_string(status) + " ")) << error.message;
    const json::object& headers = transcript.meta.at("headers").as_object();
    if (!later) {
        EXPECT_EQ(error.retry_after, std::nullopt);
    } else if (headers.contains("retry-after-ms")) {
        EXPECT_EQ(error.retry_after, Milliseconds(240));
    } else if (headers.contains("retry-after")) {
        const auto seconds = json::value_to<std::string>(headers.at("retry-after"));
        EXPECT_EQ(error.retry_after, std::chrono::seconds(std::stoi(seconds)));
    } else {
        EXPECT_EQ(error.retry_after, std::nullopt);
    }
}

class WireTest : public HttpTest, public ::testing::WithParamInterface<std::string> {
 protected:
    std::shared_ptr<Model> model_for(const std::string& name) {
        if (name.starts_with("anthropic/")) {
            path_ = "/v1/messages";
            AnthropicOptions options;
            options.base_url = fake_.url("");
            return make_anthropic_model(options, client_);
        }
        OpenAiOptions options;
        options.base_url = fake_.url("/v1");
        const bool responses = name.starts_with("openai-responses/");
        options.api = responses ? OpenAiApi::responses : OpenAiApi::chat;
        path_ = responses ? "/v1/responses" : "/v1/chat/completions";
        return make_openai_model(options, client_);
    }
    ModelResult ask(Model& model) {
        const std::vector<Message> turn = {user_message("Hi")};
        ModelRequest request;
        request.turn = turn;
        const Model::OnText on_text = [this](std::string_view text) -> Result<void> {
            streamed_ += text;
            return {};
        };
        streamed_.clear();
        return run_on(loop_, model.generate(request, on_text));
    }

    std::string path_;
    std::string streamed_;
};

TEST_P(WireTest, IsReadAsTheProvidersOwnClientReadsIt) {
    const Transcript transcript = Transcript::load(GetParam());
    const std::shared_ptr<Model> model = model_for(GetParam());
    for (int round = 0; round < kRounds; ++round) {
        SCOPED_TRACE("seed " + std::to_string(kSeed + round));
        SeededRandom random(kSeed + static_cast<std::uint64_t>(round));
        fake_.script(path_, {in_pieces(transcript, random)});
        const json::object& meta = transcript.meta.as_object();
        ModelResult answer = ask(*model);
        if (meta.contains("then")) {
            ASSERT_FALSE(answer);
            expect_failure(transcript, answer.error());
            const auto then = json::value_to<std::string>(meta.at("then"));
            fake_.script(path_, {in_pieces(Transcript::load(then), random)});
            answer = ask(*model);
        }
        const bool failed = transcript.outcome() != "ok" ||
                            (transcript.expected.at("result").as_object().contains("status") &&
                             transcript.expected.at("result").at("status") == "failed");
        if (failed) {
            ASSERT_FALSE(answer);
            expect_failure(transcript, answer.error());
            continue;
        }
        ASSERT_TRUE(answer) << answer.error().message;
        expect_same(transcript, *answer);
        if (transcript.name.ends_with("-stream")) {
            EXPECT_EQ(streamed_, text_in(answer->content));
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Transcripts, WireTest, ::testing::ValuesIn(all_names()),
                         [](const ::testing::TestParamInfo<std::string>& test) {
                             std::string name = test.param;
                             for (char& c : name) {
                                 if (c == '/' || c == '-') c = '_';
                             }
                             return name;
                         });

TEST(WireTest, TheyAreAllHere) {
    EXPECT_EQ(all_names().size(), 64U);
}

}  // namespace
}  // namespace rouse
