#pragma once

// The chain of hashes through a log: each line carries
//   first 32 hex digits of SHA-256(previous chain ‖ this line up to ,"chain")
// and the one before the first is that of the session id. Any edit, loss or flipped bit below the
// head is found.

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"
#include "domain/ids.h"
#include "domain/record.h"

namespace rouse {

class Chain {
 public:
    Chain() = default;
    static Chain start_of(const SessionId& log);
    static Result<Chain> parse(std::string_view hex);

    Chain next(std::string_view line_up_to_chain) const;
    std::string_view hex() const { return {hex_.data(), hex_.size()}; }
    friend bool operator==(const Chain&, const Chain&) = default;

 private:
    std::array<char, 32> hex_{};
};

// Appends the finished line with its newline to `out` and moves the chain on.
void append_line(std::string& out, Seq seq, Timestamp at, const RecordBody& body, Chain& chain);

// Reads a line (without its newline) into `record` and checks that it is the one that follows
// `last` under `chain`, which then moves on. corrupt, with what is wrong; `chain` then stays.
Result<void> read_next_line(std::string_view line, Seq last, Chain& chain, Record& record);
// The same of a line that follow_lines() has passed.
Result<void> read_followed_line(std::string_view line, Seq last, Chain& chain, Record& record);
// How many bytes of whole lines at the beginning of `text` follow `chain`, each with its newline.
// It moves on to the last of them.
std::size_t follow_lines(std::string_view text, Chain& chain);
// What the last whole line of `text` says; nothing if it does not end with a chain.
std::optional<Chain> chain_behind(std::string_view text);

}  // namespace rouse
