#include "store/files/group.h"

#include <bit>
#include <charconv>
#include <cstring>

#include "base/digest.h"
#include "base/limits.h"

namespace rouse::files {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\xFFROUSEG1";

template <class Number>
void put(std::string& bytes, std::size_t at, Number value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
}

template <class Number>
Number get(std::string_view bytes, std::size_t at) {
    Number value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
}

std::uint32_t checksum(std::string_view bytes, std::uint32_t length) {
    const std::uint32_t head = crc32c(bytes.substr(8, 20));
    return crc32c(bytes.substr(kGroupHeaderBytes, length), head);
}

// Takes "<word> " or "<word>\n" off the front; empty when there is none.
std::string_view take_word(std::string_view& text, char end) {
    const std::size_t at = text.find(end);
    if (at == std::string_view::npos) return {};
    const std::string_view word = text.substr(0, at);
    text.remove_prefix(at + 1);
    return word;
}

bool take_number(std::string_view& text, char end, std::uint64_t& number) {
    const std::string_view word = take_word(text, end);
    const auto parsed = std::from_chars(word.data(), word.data() + word.size(), number);
    return !word.empty() && parsed.ec == std::errc{} && parsed.ptr == word.data() + word.size();
}

Error malformed() {
    return {ErrorKind::corrupt, "malformed_group", "a sync group's payload is malformed"};
}

}  // namespace

std::uint64_t round_up_to_sector(std::uint64_t bytes) {
    constexpr std::uint64_t kSector = limits::kJournalSectorBytes;
    return (bytes + kSector - 1) / kSector * kSector;
}

GroupBuilder::GroupBuilder() {
    clear();
}

void GroupBuilder::clear() {
    bytes_.assign(kGroupHeaderBytes, '\0');
}

void GroupBuilder::begin_commit(std::size_t parts) {
    bytes_ += "commit " + std::to_string(parts) + "\n";
}

void GroupBuilder::add_part(const SessionId& log, Seq first, std::string_view lines) {
    bytes_ += "log ";
    bytes_ += log.text();
    bytes_ += ' ';
    bytes_ += std::to_string(first);
    bytes_ += ' ';
    bytes_ += std::to_string(lines.size());
    bytes_ += '\n';
    bytes_ += lines;
}

const std::string& GroupBuilder::finish(std::uint64_t epoch, std::uint64_t group) {
    const auto length = static_cast<std::uint32_t>(bytes_.size() - kGroupHeaderBytes);
    std::memcpy(bytes_.data(), kMagic.data(), kMagic.size());
    put(bytes_, 8, epoch);
    put(bytes_, 16, group);
    put(bytes_, 24, length);
    put(bytes_, 28, checksum(bytes_, length));
    bytes_.resize(round_up_to_sector(bytes_.size()), '\0');
    return bytes_;
}

std::uint64_t GroupHeader::disk_bytes() const {
    return round_up_to_sector(kGroupHeaderBytes + length);
}

Result<GroupHeader> parse_group_header(std::string_view bytes) {
    if (bytes.size() < kGroupHeaderBytes || !bytes.starts_with(kMagic)) {
        return Error(ErrorKind::corrupt, "no_group", "no sync group begins here");
    }
    return GroupHeader{get<std::uint64_t>(bytes, 8), get<std::uint64_t>(bytes, 16),
                       get<std::uint32_t>(bytes, 24), get<std::uint32_t>(bytes, 28)};
}

bool is_whole_group(const GroupHeader& header, std::string_view bytes) {
    return bytes.size() >= kGroupHeaderBytes + header.length &&
           checksum(bytes, header.length) == header.crc;
}

Result<std::vector<JournalCommit>> parse_payload(std::string_view payload) {
    std::vector<JournalCommit> commits;
    while (!payload.empty()) {
        std::uint64_t parts = 0;
        if (take_word(payload, ' ') != "commit" || !take_number(payload, '\n', parts)) {
            return malformed();
        }
        JournalCommit& commit = commits.emplace_back();
        for (std::uint64_t i = 0; i < parts; ++i) {
            JournalPart part;
            std::uint64_t bytes = 0;
            if (take_word(payload, ' ') != "log") return malformed();
            const std::string_view id = take_word(payload, ' ');
            if (id != system_log().text() && !parse_session_id(id)) return malformed();
            part.log = SessionId(std::string(id));
            if (!take_number(payload, ' ', part.first) || !take_number(payload, '\n', bytes) ||
                bytes > payload.size()) {
                return malformed();
            }
            part.lines = payload.substr(0, bytes);
            payload.remove_prefix(bytes);
            commit.parts.push_back(std::move(part));
        }
    }
    return commits;
}

}  // namespace rouse::files
