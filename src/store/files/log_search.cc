#include "store/files/log_search.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "store/files/log_blocks.h"

namespace rouse::files {
namespace {

constexpr std::uint64_t kNear = 64U << 10U;  // what stands so near may be read in vain

struct LineStart {
    std::uint64_t offset = 0;
    Seq seq = 1;
};

// A line begins with its number: {"seq":12,
std::optional<Seq> seq_of(std::string_view line) {
    constexpr std::string_view kStart = "{\"seq\":";
    if (!line.starts_with(kStart)) return std::nullopt;
    Seq seq = 0;
    const char* end = line.data() + line.size();
    const auto [stop, error] = std::from_chars(line.data() + kStart.size(), end, seq);
    if (error != std::errc() || stop == end || *stop != ',') return std::nullopt;
    return seq;
}

class LogSearch {
 public:
    LogSearch(File& file, const LogPlace& place, std::uint64_t bytes)
        : file_(file), place_(place), bytes_(bytes) {}

    Result<std::vector<std::string>> run(Seq from, ReadLimit limit) {
        const Result<LineStart> start = start_before(from);
        if (!start) return start.error();
        return read_on(*start, from, limit);
    }

 private:
    // The start of some line not behind `from`, and near it.
    Result<LineStart> start_before(Seq from) {
        LineStart best;
        std::uint64_t end = bytes_;
        while (end - best.offset > kNear) {
            const std::uint64_t middle = best.offset + (end - best.offset) / 2;
            const Result<std::optional<LineStart>> next = first_start_in(middle, end);
            if (!next) return next.error();
            if (*next && (*next)->seq <= from) {
                best = **next;
            } else {
                end = middle;
            }
        }
        return best;
    }

    // Nothing: no line begins there whose number can be made out.
    Result<std::optional<LineStart>> first_start_in(std::uint64_t begin, std::uint64_t end) {
        constexpr std::uint64_t kNumber = 32;
        for (std::uint64_t length = kNear / 4; begin < end; length *= 4) {
            const Result<std::string> text = read(begin, std::min(length, end - begin));
            if (!text) return text.error();
            const std::size_t newline = text->find('\n');
            begin += text->size();
            if (newline == std::string::npos) continue;
            const std::uint64_t offset = begin - text->size() + newline + 1;
            const Result<std::string> line = read(offset, std::min(kNumber, bytes_ - offset));
            if (!line) return line.error();
            const std::optional<Seq> seq = seq_of(*line);
            return seq ? std::optional(LineStart{offset, *seq}) : std::nullopt;
        }
        return std::optional<LineStart>();
    }

    Result<std::vector<std::string>> read_on(LineStart start, Seq from, ReadLimit limit) {
        std::vector<std::string> lines;
        std::string text;
        std::uint64_t length = kNear;
        std::uint64_t at = start.offset;
        std::size_t begin = 0;  // of the line that is being looked at
        std::size_t looked = 0;
        std::size_t bytes = 0;
        while (!limit.is_reached(lines.size(), bytes)) {
            const std::size_t end = text.find('\n', looked);
            if (end == std::string::npos) {
                if (at == bytes_) break;
                const Result<std::string> more = read(at, std::min(length, bytes_ - at));
                if (!more) return more.error();
                text.erase(0, begin);
                begin = 0;
                looked = text.size();
                text += *more;
                at += more->size();
                length *= 2;
                continue;
            }
            if (start.seq >= from) {
                lines.push_back(text.substr(begin, end - begin));
                bytes += end - begin;
            }
            ++start.seq;
            begin = looked = end + 1;
        }
        return lines;
    }

    Result<std::string> read(std::uint64_t offset, std::uint64_t length) {
        Result<std::string> text = file_.read_at(place_.at + offset, length);
        if (text && text->size() < length) {
            return log_too_short(place_.file, offset + text->size(), bytes_);
        }
        return text;
    }

    File& file_;
    const LogPlace& place_;
    std::uint64_t bytes_;
};

}  // namespace

Result<std::vector<std::string>> find_lines(Fs& fs, const LogPlace& place, std::uint64_t bytes,
                                            Seq from, ReadLimit limit) {
    if (bytes == 0) return std::vector<std::string>();
    const Result<std::unique_ptr<File>> file = fs.open(place.file, OpenMode::read);
    if (!file) return file.error();
    return LogSearch(**file, place, bytes).run(from, limit);
}

}  // namespace rouse::files
