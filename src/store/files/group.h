#pragma once

// A sync group: the commits that one fdatasync makes durable, as bytes in the journal.
//
//   offset  0  8 bytes  FF 'R' 'O' 'U' 'S' 'E' 'G' '1'   (FF never occurs in the text of records)
//           8  u64      epoch        all numbers little-endian
//          16  u64      group
//          24  u32      length of the payload
//          28  u32      CRC32C of bytes 8 to 27 and the payload
//          32           payload, then zeros up to the next multiple of 512
//
// The payload is text: for each commit a line "commit <parts>", and for each part a line
// "log <id> <first seq> <bytes>" with that many bytes of finished log lines behind it.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "domain/ids.h"

namespace rouse::files {

struct JournalPart {
    SessionId log;
    Seq first = 0;
    std::string_view lines;  // each with its newline
};

struct JournalCommit {
    std::vector<JournalPart> parts;
};

inline constexpr std::size_t kGroupHeaderBytes = 32;

// Collects commits; finish() gives the bytes to write at a sector boundary.
class GroupBuilder {
 public:
    GroupBuilder();
    void reserve(std::size_t bytes) { bytes_.reserve(bytes); }
    void begin_commit(std::size_t parts);
    void add_part(const SessionId& log, Seq first, std::string_view lines);
    bool empty() const { return bytes_.size() == kGroupHeaderBytes; }
    std::size_t size() const { return bytes_.size(); }
    std::string_view bytes() const { return bytes_; }
    const std::string& finish(std::uint64_t epoch, std::uint64_t group);
    void clear();

 private:
    std::string bytes_;
};

struct GroupHeader {
    std::uint64_t epoch = 0;
    std::uint64_t group = 0;
    std::uint32_t length = 0;
    std::uint32_t crc = 0;

    // With the padding: where the next group begins.
    std::uint64_t disk_bytes() const;
};

// corrupt: no header at the front of `bytes`.
Result<GroupHeader> parse_group_header(std::string_view bytes);
// True when `bytes`, which start at the header, hold the whole group and its checksum is right.
bool is_whole_group(const GroupHeader& header, std::string_view bytes);
// The views point into `payload`. corrupt.
Result<std::vector<JournalCommit>> parse_payload(std::string_view payload);

std::uint64_t round_up_to_sector(std::uint64_t bytes);

}  // namespace rouse::files
