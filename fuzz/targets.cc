#include "fuzz/targets.h"

#include <algorithm>
#include <memory>

#include "base/check.h"
#include "base/digest.h"
#include "domain/chain.h"
#include "domain/fold.h"
#include "models/anthropic_answer.h"
#include "models/openai_chat_answer.h"
#include "models/openai_responses.h"
#include "store/files/group.h"
#include "store/files/log_reader.h"
#include "store/files/session_index.h"

namespace rouse::fuzz {
namespace {

struct Provider {
    std::unique_ptr<StreamReader> stream;
    Result<ModelResponse> (*read_answer)(const RawJson& body);
};

Provider provider_of(char letter) {
    switch (letter) {
        case 'a': return {std::make_unique<AnthropicStream>(), read_anthropic_message};
        case 'c': return {std::make_unique<OpenAiChatStream>(), read_chat_completion};
        default:
            return {std::make_unique<OpenAiResponsesStream>(),
                    [](const RawJson& body) { return OpenAiResponsesApi({}).read_answer(body); }};
    }
}

Result<ModelResponse> read_stream(char letter, std::string_view bytes, std::size_t piece) {
    const Provider provider = provider_of(letter);
    Result<void> taken;
    std::string text;
    SseParser parser([&](const SseEvent& event) {
        if (taken) taken = provider.stream->take(event, text);
    });
    while (!bytes.empty()) {
        if (Result<void> fed = parser.feed(bytes.substr(0, piece)); !fed) return fed.error();
        bytes.remove_prefix(std::min(piece, bytes.size()));
    }
    if (!taken) return taken.error();
    return provider.stream->finish();
}

// What a model said goes into a log, and has to come out of it.
void check_can_be_kept(const ModelResponse& response) {
    const std::string text = to_json(response.content);
    ROUSE_CHECK(RawJson::parse(text).has_value(), "an answer is written as what is no JSON");
    const Result<Content> again = from_json<Content>(text, "an answer");
    ROUSE_CHECK(again && *again == response.content, "an answer is not read as it was written");
}

}  // namespace

// A line of a log, chain or not; and the bytes as a whole log.
void fuzz_record(std::string_view bytes) {
    const Result<Record> record = parse_record(bytes);
    if (record) {
        Chain chain = Chain::start_of(system_log());
        std::string line;
        append_line(line, record->seq, record->at, record->body, chain);
        line.pop_back();
        const Result<Record> again = parse_record(line);
        ROUSE_CHECK(again && *again == *record, "a record is not read as it was written");
        SessionState state;
        fold(state, *record);
    }
    files::LogTip tip = files::LogTip::start_of(system_log());
    const Result<void> read = files::read_lines(bytes, tip, [](const Record&, std::string_view) {});
    ROUSE_CHECK(read || tip.bytes <= bytes.size(), "a log is longer than its file");
    (void)files::is_torn_tail(bytes);
}

void fuzz_snapshot(std::string_view bytes) {
    const Result<SessionState> state = from_json<SessionState>(bytes, "snapshot");
    if (!state) return;
    const Result<SessionState> again = from_json<SessionState>(to_json(*state), "snapshot");
    ROUSE_CHECK(again && *again == *state, "a snapshot is not read as it was written");
    (void)summarize(*state);
}

// A group as it stands on disk, and the bytes as the payload of one.
void fuzz_journal(std::string_view bytes) {
    const Result<files::GroupHeader> header = files::parse_group_header(bytes);
    if (header && files::is_whole_group(*header, bytes)) {
        (void)files::parse_payload(bytes.substr(files::kGroupHeaderBytes, header->length));
    }
    const Result<std::vector<files::JournalCommit>> commits = files::parse_payload(bytes);
    if (!commits) return;
    files::GroupBuilder builder;
    for (const files::JournalCommit& commit : *commits) {
        builder.begin_commit(commit.parts.size());
        for (const files::JournalPart& part : commit.parts) {
            builder.add_part(part.log, part.first, part.lines);
        }
    }
    const std::string built = builder.finish(1, 1);
    const Result<files::GroupHeader> whole = files::parse_group_header(built);
    ROUSE_CHECK(whole && files::is_whole_group(*whole, built), "a group is not whole");
    const auto again = files::parse_payload(
        std::string_view(built).substr(files::kGroupHeaderBytes, whole->length));
    ROUSE_CHECK(again && again->size() == commits->size(), "a payload is not read as written");
}

void fuzz_index(std::string_view bytes) {
    files::JournalPosition position;
    const Result<files::SessionIndex> index =
        files::SessionIndex::parse(std::string(bytes), position);
    if (index) (void)index->find(SessionId("sess_1"));
    const Result<files::IndexRow> row = from_json<files::IndexRow>(bytes, "row");
    if (!row) return;
    const Result<files::IndexRow> again = from_json<files::IndexRow>(to_json(*row), "row");
    ROUSE_CHECK(again && *again == *row, "a row is not read as it was written");
}

void fuzz_json(std::string_view bytes) {
    const Result<RawJson> json = RawJson::parse(bytes);
    if (!json) return;
    const Result<RawJson> again = RawJson::parse(json->text());
    ROUSE_CHECK(again && again->text() == json->text(), "JSON is not read as it was kept");
    std::vector<JsonMember> members;
    if (json->text().front() == '{') {
        ROUSE_CHECK(split_object(json->text(), members).has_value(), "an object does not split");
    }
    std::vector<std::string_view> items;
    if (json->text().front() == '[') {
        ROUSE_CHECK(split_array(json->text(), items).has_value(), "an array does not split");
    }
    if (json->text().front() == '"') {
        const auto text = read_json_string(json->text());
        ROUSE_CHECK(text && read_json_string(to_json_string(*text)) == text, "a string changes");
    }
}

// A letter for the provider, then what it sends: a stream of events, cut anywhere; and the same
// bytes as an answer in one piece.
void fuzz_model(std::string_view bytes) {
    if (bytes.empty()) return;
    const char letter = bytes.front();
    bytes.remove_prefix(1);
    constexpr std::size_t kPiece = 7;
    const Result<ModelResponse> whole = read_stream(letter, bytes, bytes.size());
    const Result<ModelResponse> pieces = read_stream(letter, bytes, kPiece);
    ROUSE_CHECK(whole.has_value() == pieces.has_value(), "a stream depends on how it is cut");
    if (whole) {
        ROUSE_CHECK(whole->content == pieces->content, "an answer depends on how it is cut");
        check_can_be_kept(*whole);
    }
    const Result<RawJson> body = RawJson::parse(bytes);
    if (!body) return;
    if (const auto answer = provider_of(letter).read_answer(*body)) check_can_be_kept(*answer);
}

}  // namespace rouse::fuzz
