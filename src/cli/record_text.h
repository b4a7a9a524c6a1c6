#pragma once

// A record of a log in a line for people.

#include <string>

#include "base/json.h"
#include "domain/message.h"
#include "domain/record.h"

namespace rouse::cli {

struct RecordLine {
    Seq seq = 0;
    Timestamp at{};
    std::string kind;
    std::string what;  // not printable yet; empty when there is nothing to say
};

// Of a record as it is stored, or as a stream sends it. corrupt.
Result<RecordLine> to_line(const std::string& json);

// What a message says, without its tool calls.
std::string text_of(const Content& content);
// Content as a tool gives it, a JSON string or blocks.
std::string text_of(const RawJson& content);

std::string describe(const RecordBody& body);

}  // namespace rouse::cli
