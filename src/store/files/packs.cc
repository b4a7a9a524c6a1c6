#include "store/files/packs.h"

#include <algorithm>

#include "base/limits.h"
#include "domain/record.h"

namespace rouse::files {

LogPlace place_of(const Layout& layout, const SessionId& id,
                  const std::optional<PackPlace>& packed) {
    return packed ? LogPlace{layout.pack(packed->pack), packed->at} : LogPlace{layout.log(id), 0};
}

Result<std::vector<std::uint64_t>> list_packs(Fs& fs, const Layout& layout) {
    const Result<std::vector<std::string>> names = fs.list(layout.packs());
    std::vector<std::uint64_t> numbers;
    if (!names && names.error().kind == ErrorKind::not_found) return numbers;
    if (!names) return names.error();
    for (const std::string& name : *names) {
        if (const auto number = Layout::number_of_pack(name)) numbers.push_back(*number);
    }
    std::ranges::sort(numbers);
    return numbers;
}

PackText read_pack(std::string_view text) {
    constexpr std::string_view kFirst = "{\"seq\":1,";
    PackText pack;
    bool goes_on = false;  // the line before belongs to the last log
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
        const std::string_view line = text.substr(at, end - at);
        if (line.starts_with(kFirst)) {
            const Result<Record> record = parse_record(line.substr(0, line.size() - 1));
            const auto* created = record ? std::get_if<SessionCreated>(&record->body) : nullptr;
            goes_on = created != nullptr;
            if (goes_on) pack.logs.push_back({created->id, at, {}});
        } else if (line == "\n") {
            goes_on = false;  // a log was blanked
        }
        if (goes_on) {
            PackText::Log& last = pack.logs.back();
            last.text = text.substr(last.at, end - last.at);
        } else if (line != "\n") {
            pack.has_strays = true;
        }
        at = end;
    }
    return pack;
}

Result<void> blank(Fs& fs, const Layout& layout, const PackedLog& log) {
    const Result<std::unique_ptr<File>> file =
        fs.open(layout.pack(log.place.pack), OpenMode::write);
    if (!file && file.error().kind == ErrorKind::not_found) return {};
    if (!file) return file.error();
    const std::string nothing(log.bytes, '\n');
    if (Result<void> written = (*file)->write_at(log.place.at, nothing); !written) return written;
    return (*file)->close();
}

bool is_blanked(std::string_view text) {
    return text.empty() || text.starts_with('\n') || text.find("\n\n") != std::string_view::npos;
}

Result<void> remove_packs_but(Fs& fs, const Layout& layout, const std::set<std::uint64_t>& in_use) {
    const Result<std::vector<std::uint64_t>> numbers = list_packs(fs, layout);
    if (!numbers) return numbers.error();
    for (const std::uint64_t number : *numbers) {
        if (in_use.contains(number)) continue;
        const Result<void> removed = fs.remove(layout.pack(number));
        if (!removed && removed.error().kind != ErrorKind::not_found) return removed;
    }
    return {};
}

Result<PackPlace> PackWriter::append(std::string_view text) {
    if (file_ && end_ + text.size() > limits::kPackBytes) {
        if (Result<void> finished = finish(); !finished) return finished.error();
    }
    if (!file_) {
        if (Result<void> begun = begin_next(); !begun) return begun.error();
    }
    const PackPlace place{number_, end_};
    if (Result<void> written = file_->write_at(place.at, text); !written) {
        file_.reset();  // what may be half there is in nobody's way
        return written.error();
    }
    end_ += text.size();
    return place;
}

Result<void> PackWriter::finish() {
    if (!file_) return {};
    const std::unique_ptr<File> file = std::move(file_);
    return file->close();
}

// Never one that is there: after a crash nobody knows what became of the sync of its bytes.
Result<void> PackWriter::begin_next() {
    std::uint64_t next = number_ + 1;
    if (number_ == 0) {
        const Result<std::vector<std::uint64_t>> numbers = list_packs(fs_, layout_);
        if (!numbers) return numbers.error();
        if (!numbers->empty()) next = numbers->back() + 1;
    }
    Result<std::unique_ptr<File>> file = fs_.open(layout_.pack(next), OpenMode::create_new);
    if (!file) return file.error();
    file_ = *std::move(file);
    number_ = next;
    end_ = 0;
    return {};
}

}  // namespace rouse::files
