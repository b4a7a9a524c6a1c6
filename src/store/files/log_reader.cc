#include "store/files/log_reader.h"

namespace rouse::files {
namespace {

template <auto read_line>
Result<void> read_lines_by(std::string_view text, LogTip& tip, const OnRecord& on_record) {
    Record record;
    while (!text.empty()) {
        const std::size_t end = text.find('\n');
        if (end == std::string_view::npos) {
            return Error(ErrorKind::corrupt, "torn_line", "the last line has no end");
        }
        const std::string_view line = text.substr(0, end);
        const Result<void> read = read_line(line, tip.last, tip.chain, record);
        if (!read) return read;
        on_record(record, line);
        tip.last = record.seq;
        tip.bytes += end + 1;
        text.remove_prefix(end + 1);
    }
    return {};
}

}  // namespace

Result<void> read_lines(std::string_view text, LogTip& tip, const OnRecord& on_record) {
    return read_lines_by<read_next_line>(text, tip, on_record);
}

Result<void> read_followed_lines(std::string_view text, LogTip& tip, const OnRecord& on_record) {
    return read_lines_by<read_followed_line>(text, tip, on_record);
}

bool is_torn_tail(std::string_view rest) {
    constexpr std::string_view kStart = "{\"seq\":";
    for (std::size_t at = rest.find(kStart); at != std::string_view::npos;
         at = rest.find(kStart, at + 1)) {
        const std::size_t end = rest.find('\n', at);
        if (end == std::string_view::npos) return true;
        if (parse_record(rest.substr(at, end - at))) return false;
    }
    return true;
}

std::vector<std::string> slice_lines(std::string_view text, Seq first_seq, Seq from,
                                     ReadLimit limit) {
    std::vector<std::string> lines;
    std::size_t bytes = 0;
    for (Seq seq = first_seq; !text.empty() && !limit.is_reached(lines.size(), bytes); ++seq) {
        const std::size_t end = text.find('\n');
        if (end == std::string_view::npos) break;
        if (seq >= from) {
            lines.emplace_back(text.substr(0, end));
            bytes += end;
        }
        text.remove_prefix(end + 1);
    }
    return lines;
}

}  // namespace rouse::files
