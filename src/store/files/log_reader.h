#pragma once

// Reads a session's log line by line under its chain of hashes.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "domain/chain.h"
#include "domain/state.h"
#include "store/store.h"

namespace rouse::files {

// Where a log stands: what the next line must follow.
struct LogTip {
    Seq last = 0;
    Chain chain;
    std::uint64_t bytes = 0;

    static LogTip start_of(const SessionId& log) { return {0, Chain::start_of(log), 0}; }
    friend bool operator==(const LogTip&, const LogTip&) = default;
};

using OnRecord = std::function<void(const Record& record, std::string_view line)>;

// Takes whole lines off `text` while they follow from `tip`, which moves along. corrupt: the first
// line that does not; `tip` then stands before it.
Result<void> read_lines(std::string_view text, LogTip& tip, const OnRecord& on_record);
// The same of lines that follow_lines() has passed.
Result<void> read_followed_lines(std::string_view text, LogTip& tip, const OnRecord& on_record);

// Is what stands behind the good part of a log an append that was cut short? It is not if a whole
// record can still be made out in it: then something was lost in between.
bool is_torn_tail(std::string_view rest);

// The text of lines from `from` on, up to the limit, found by counting newlines.
std::vector<std::string> slice_lines(std::string_view text, Seq first_seq, Seq from,
                                     ReadLimit limit);

}  // namespace rouse::files
