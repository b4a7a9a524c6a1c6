#include "domain/record.h"

#include <array>
#include <unordered_map>

namespace rouse {
namespace {

template <class T>
concept Known = requires { T::kKind; };

using BodyReader = bool (*)(const std::vector<JsonMember>&, RecordBody&);

template <class T>
bool read_body(const std::vector<JsonMember>& members, RecordBody& body) {
    return codec::read_fields(members, body.emplace<T>());
}

template <class Variant>
struct ReaderTable;
template <class... Bodies>
struct ReaderTable<std::variant<Bodies...>> {
    static std::unordered_map<std::string_view, BodyReader> make() {
        std::unordered_map<std::string_view, BodyReader> table;
        const auto add = [&]<class T>(std::type_identity<T>) {
            if constexpr (Known<T>) table.emplace(T::kKind, &read_body<T>);
        };
        (add(std::type_identity<Bodies>{}), ...);
        return table;
    }
};

BodyReader reader_of(std::string_view kind) {
    static const auto table = ReaderTable<RecordBody>::make();
    const auto found = table.find(kind);
    return found == table.end() ? nullptr : found->second;
}

Error malformed(std::string_view what) {
    return {ErrorKind::corrupt, "malformed_record", std::string(what)};
}

UnknownRecord keep_unknown(std::string kind, const std::vector<JsonMember>& members) {
    UnknownRecord body{std::move(kind), {}};
    for (const JsonMember& member : members) {
        body.extra.text += ",\"";
        body.extra.text += member.key;
        body.extra.text += "\":";
        body.extra.text += member.value;
    }
    return body;
}

}  // namespace

std::string_view kind_of(const RecordBody& body) {
    return std::visit(
        [](const auto& one) -> std::string_view {
            if constexpr (Known<std::remove_cvref_t<decltype(one)>>) {
                return one.kKind;
            } else {
                return one.kind;
            }
        },
        body);
}

std::string render_body(const RecordBody& body) {
    std::string out;
    append_body(out, body);
    return out;
}

void append_body(std::string& out, const RecordBody& body) {
    out += "\"kind\":";
    append_json_string(out, kind_of(body));
    std::visit(
        [&](const auto& one) {
            if constexpr (Known<std::remove_cvref_t<decltype(one)>>) {
                codec::write_members(out, one);
            } else {
                out += one.extra.text;
            }
        },
        body);
}

Result<Record> parse_record(std::string_view line) {
    Record record;
    if (Result<void> read = read_record(line, record); !read) return read.error();
    return record;
}

Result<void> read_record(std::string_view line, Record& record) {
    thread_local std::vector<JsonMember> members;
    if (Result<void> split = split_object(line, members); !split) return split.error();
    if (members.size() < 3 || members[0].key != "seq" || members[1].key != "ts" ||
        members[2].key != "kind") {
        return malformed("a record begins with seq, ts and kind");
    }
    std::string kind;
    if (!codec::read(members[0].value, record.seq) || record.seq == 0) {
        return malformed("seq is not a positive number");
    }
    if (!codec::read(members[1].value, record.at)) return malformed("ts is not a time");
    if (!codec::read(members[2].value, kind)) return malformed("kind is not a string");
    if (members.back().key == "chain") members.pop_back();
    members.erase(members.begin(), members.begin() + 3);

    const BodyReader reader = reader_of(kind);
    if (reader == nullptr) {
        record.body = keep_unknown(std::move(kind), members);
    } else if (!reader(members, record.body)) {
        return malformed("a field of " + kind + " is missing or of another type");
    }
    return {};
}

}  // namespace rouse
