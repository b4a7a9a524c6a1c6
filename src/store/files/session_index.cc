#include "store/files/session_index.h"

#include <algorithm>

#include "base/check.h"
#include "base/digest.h"
#include "store/files/layout.h"

namespace rouse::files {
namespace {

constexpr std::string_view kRowStart = "{\"session\":{\"id\":\"";

struct Header {
    std::int64_t format = 0;
    std::uint64_t epoch = 0;
    std::uint64_t group = 0;
    std::uint64_t segment = 0;
    std::uint64_t offset = 0;
    std::uint64_t active = 0;
    std::uint64_t idle = 0;
    std::uint64_t gone = 0;
    std::uint64_t bytes = 0;                  // of the lines behind the header
    std::uint32_t crc32c = 0;                 // of those
    std::optional<std::uint32_t> check = {};  // CRC32C of the header up to here; not in old files
    static constexpr auto fields() {
        using S = Header;
        return std::tuple(required("format", &S::format), required("epoch", &S::epoch),
                          required("group", &S::group), required("segment", &S::segment),
                          required("offset", &S::offset), required("active", &S::active),
                          required("idle", &S::idle), required("gone", &S::gone),
                          required("bytes", &S::bytes), required("crc32c", &S::crc32c),
                          field("check", &S::check));
    }
};

Error not_an_index(std::string_view what) {
    return {ErrorKind::corrupt, "damaged_index", "index.ckpt: " + std::string(what)};
}

std::string header_text(Header header) {
    header.check.reset();
    std::string unchecked = to_json(header);
    unchecked.pop_back();
    header.check = crc32c(unchecked);
    return to_json(header);
}

Result<Header> parse_header(std::string_view line) {
    Result<Header> header = from_json<Header>(line, "the header");
    if (!header) return not_an_index("the header is malformed");
    if (header->format < 1 || header->format > kFormatVersion)
        return not_an_index("another format");
    const bool as_written = line == (header->check ? header_text(*header) : to_json(*header));
    if (!as_written) return not_an_index("the header's checksum does not match");
    return header;
}

void append_row(std::string& out, const IndexRow& row) {
    codec::write(out, row);
    out += '\n';
}

IndexRow parse_row(std::string_view text) {
    Result<IndexRow> row = from_json<IndexRow>(text, "an index row");
    ROUSE_CHECK(row.has_value(), "an index row with a right checksum does not parse");
    return *std::move(row);
}

// Walks sorted ids beside rows that are visited in the same order.
template <class Iterator>
class Beside {
 public:
    enum class Order : std::uint8_t { ascending, descending };
    Beside(const Iterator& begin, const Iterator& end, Order order)
        : at_(begin), end_(end), order_(order) {}

    bool contains(std::string_view id) {
        while (at_ != end_ && comes_before(at_->first.text(), id))
            ++at_;
        return at_ != end_ && at_->first.text() == id;
    }

 private:
    bool comes_before(std::string_view a, std::string_view b) const {
        return order_ == Order::ascending ? a < b : a > b;
    }

    Iterator at_;
    Iterator end_;
    Order order_;
};

}  // namespace

std::uint64_t IndexRow::good_bytes() const {
    const std::uint64_t begin = packed ? packed->at : 0;
    return damaged ? damaged->offset - begin : bytes;
}

std::string_view RowInPlace::id() const {
    return changed_ != nullptr ? std::string_view(changed_->session.id.text()) : id_;
}

std::optional<Timestamp> RowInPlace::updated_at() const {
    return changed_ != nullptr ? changed_->session.updated_at : time_in_row(text_, "updated");
}

std::optional<Timestamp> RowInPlace::deadline_at() const {
    return changed_ != nullptr ? changed_->session.run.deadline_at : time_in_row(text_, "deadline");
}

std::optional<WaitKind> RowInPlace::wait_kind() const {
    return changed_ != nullptr ? changed_->session.wait_kind : wait_in_row(text_);
}

IndexRow RowInPlace::row() const {
    return changed_ != nullptr ? *changed_ : parse_row(text_);
}

Result<SessionIndex> SessionIndex::parse(std::string text, JournalPosition& position) {
    SessionIndex index;
    const Result<JournalPosition> behind = index.adopt(std::move(text));
    if (!behind) return behind.error();
    position = *behind;
    return index;
}

// One part as it stands in the texts: where its lines are.
struct SessionIndex::Part {
    JournalPosition position;
    std::uint64_t bytes = 0;
    Lines active = {};
    Lines idle = {};
    std::vector<Tombstone> gone = {};
};

Result<SessionIndex::Part> SessionIndex::read_part(std::uint32_t begin) const {
    const std::string_view text = text_from(begin);
    const std::size_t header_end = text.find('\n');
    if (header_end == std::string_view::npos) return not_an_index("no header");
    const Result<Header> header = parse_header(text.substr(0, header_end));
    if (!header) return header.error();
    const std::string_view body = text.substr(header_end + 1, header->bytes);
    if (body.size() != header->bytes || crc32c(body) != header->crc32c) {
        return not_an_index("the checksum does not match");
    }
    Part part{{header->epoch, header->group, header->segment, header->offset},
              header_end + 1 + header->bytes};
    const std::uint64_t rows = header->active + header->idle;
    std::size_t at = header_end + 1;
    for (std::uint64_t i = 0; i < rows + header->gone; ++i) {
        const std::size_t end = text.find('\n', at);
        if (end >= part.bytes) return not_an_index("a line is missing");
        const std::string_view line = text.substr(at, end - at);
        if (i >= rows) {
            Result<Tombstone> gone = from_json<Tombstone>(line, "a deleted session");
            if (!gone) return not_an_index(gone.error().message);
            part.gone.push_back(*std::move(gone));
        } else if (!line.starts_with(kRowStart)) {
            return not_an_index("a row is malformed");
        } else {
            Lines& lines = i < header->active ? part.active : part.idle;
            lines.push_back(begin + static_cast<std::uint32_t>(at));
        }
        at = end + 1;
    }
    if (at != part.bytes) return not_an_index("there are more lines than it says");
    return part;
}

// Puts the text behind those that are there, and takes its parts.
Result<JournalPosition> SessionIndex::adopt(std::string text) {
    const std::uint64_t begin =
        texts_.empty() ? 0 : texts_.back().begin + texts_.back().text->size();
    const std::uint64_t end = begin + text.size();
    if (end > UINT32_MAX) return not_an_index("too large");
    texts_.push_back(
        {static_cast<std::uint32_t>(begin), std::make_shared<const std::string>(std::move(text))});
    JournalPosition position;
    for (std::uint64_t at = begin; at == begin || at < end;) {
        Result<Part> part = read_part(static_cast<std::uint32_t>(at));
        // One that is cut off is a crash's, or damaged: whoever opens the directory knows which.
        if (!part && at > begin) break;
        if (!part) return part.error();
        position = part->position;
        at += part->bytes;
        take(*std::move(part));
    }
    return position;
}

void SessionIndex::take(Part part) {
    if (parts_++ == 0) whole_bytes_ = part.bytes;
    file_bytes_ += part.bytes;
    put_lines(active_, part, true);
    put_lines(idle_, part, false);
    if (!deleted_.empty()) {
        for (const Lines* lines : {&part.active, &part.idle}) {
            for (const std::uint32_t line : *lines)
                revive(SessionId(std::string(id_at(line))));
        }
    }
    for (Tombstone& gone : part.gone) {
        const SessionId id = gone.id;
        deleted_.insert_or_assign(id, std::move(gone));
    }
}

// The part's rows take the place of older ones of the same sessions, whichever list has those.
void SessionIndex::put_lines(Lines& into, const Part& part, bool active) const {
    if (into.empty()) {
        into = active ? part.active : part.idle;
        return;
    }
    Lines merged;
    merged.reserve(into.size() + (active ? part.active : part.idle).size());
    auto kept = into.cbegin();
    const auto put = [&](std::uint32_t offset, bool is_here) {
        const std::string_view id = id_at(offset);
        const bool is_last = kept == into.cend() || id_at(into.back()) < id;
        const auto next = is_last ? into.cend()
                                  : std::ranges::lower_bound(
                                        kept, into.cend(), id, {},
                                        [this](std::uint32_t other) { return id_at(other); });
        merged.insert(merged.end(), kept, next);
        kept = next;
        if (kept != into.cend() && id_at(*kept) == id) ++kept;
        if (is_here) merged.push_back(offset);
    };
    auto a = part.active.begin();
    auto i = part.idle.begin();
    while (a != part.active.end() || i != part.idle.end()) {
        const bool takes_active =
            i == part.idle.end() || (a != part.active.end() && id_at(*a) < id_at(*i));
        put(takes_active ? *a++ : *i++, takes_active == active);
    }
    merged.insert(merged.end(), kept, into.cend());
    into = std::move(merged);
}

std::string_view SessionIndex::text_from(std::uint32_t offset) const {
    const auto behind = std::ranges::upper_bound(texts_, offset, {}, &Text::begin);
    const Text& text = *std::prev(behind);
    return std::string_view(*text.text).substr(offset - text.begin);
}

std::string_view SessionIndex::line_at(std::uint32_t offset) const {
    const std::string_view text = text_from(offset);
    return text.substr(0, text.find('\n'));
}

std::string_view SessionIndex::id_at(std::uint32_t offset) const {
    const std::string_view text = text_from(offset).substr(kRowStart.size());
    return text.substr(0, text.find('"'));
}

SessionIndex::Lines::const_iterator SessionIndex::first_from(const Lines& lines,
                                                             std::string_view id) const {
    return std::ranges::lower_bound(lines, id, {},
                                    [this](std::uint32_t offset) { return id_at(offset); });
}

std::optional<std::uint32_t> SessionIndex::find_line(const Lines& lines,
                                                     std::string_view id) const {
    const auto found = first_from(lines, id);
    if (found == lines.end() || id_at(*found) != id) return std::nullopt;
    return *found;
}

std::optional<IndexRow> SessionIndex::find(const SessionId& id) const {
    if (const auto changed = changed_.find(id); changed != changed_.end()) return *changed->second;
    if (deleted_.contains(id)) return std::nullopt;
    if (const auto line = find_line(active_, id.text())) return parse_row(line_at(*line));
    if (const auto line = find_line(idle_, id.text())) return parse_row(line_at(*line));
    return std::nullopt;
}

bool SessionIndex::has_line(std::string_view id) const {
    return find_line(active_, id) || find_line(idle_, id);
}

std::optional<Timestamp> SessionIndex::deleted_at(const SessionId& id) const {
    const Tombstone* gone = find_tombstone(id);
    if (gone == nullptr) return std::nullopt;
    return gone->at;
}

const Tombstone* SessionIndex::find_tombstone(const SessionId& id) const {
    const auto found = deleted_.find(id);
    return found == deleted_.end() ? nullptr : &found->second;
}

void SessionIndex::put(IndexRow row) {
    const SessionId id = row.session.id;
    changed_.insert_or_assign(id, std::make_shared<const IndexRow>(std::move(row)));
}

void SessionIndex::remove(Tombstone gone) {
    changed_.erase(gone.id);
    const SessionId id = gone.id;
    newly_deleted_.push_back(id);
    deleted_.insert_or_assign(id, std::move(gone));
}

// A row behind a tombstone is of a session that was made again when that was forgotten; unless it
// was deleted since the row was copied.
void SessionIndex::revive(const SessionId& id) {
    const auto gone = deleted_.find(id);
    if (gone == deleted_.end()) return;
    if (std::ranges::find(newly_deleted_, id) == newly_deleted_.end()) deleted_.erase(gone);
}

void SessionIndex::forget_deleted(Timestamp before) {
    std::erase_if(deleted_, [&](const auto& gone) {
        // A row in the text would come back to life.
        return gone.second.at < before && !has_line(gone.first.text());
    });
}

void SessionIndex::visit_active(const VisitInPlace& visit, const RowSieve& sieve,
                                const SessionId& from) const {
    auto changed = changed_.lower_bound(from);
    using Gone = Beside<decltype(deleted_)::const_iterator>;
    Gone gone(deleted_.lower_bound(from), deleted_.end(), Gone::Order::ascending);
    const auto visit_changed_before = [&](std::string_view id) {
        for (; changed != changed_.end() && (id.empty() || changed->first.text() < id); ++changed) {
            if (!changed->second->session.is_active()) continue;
            if (!visit(RowInPlace(*changed->second))) return false;
        }
        return true;
    };
    for (auto line = first_from(active_, from.text()); line != active_.end(); ++line) {
        const std::string_view id = id_at(*line);
        if (!visit_changed_before(id)) return;
        const bool has_changed = changed != changed_.end() && changed->first.text() == id;
        if (has_changed || gone.contains(id)) continue;
        const std::string_view text = line_at(*line);
        if (sieve(text) && !visit(RowInPlace(id, text))) return;
    }
    visit_changed_before({});
}

// Merges the three sorted parts from their ends.
void SessionIndex::visit_newest_first(const Visit& visit, const RowSieve& sieve,
                                      const SessionId& before) const {
    const bool all = before.empty();
    const auto line_before = [&](const Lines& lines) {
        return std::make_reverse_iterator(all ? lines.end() : first_from(lines, before.text()));
    };
    const auto row_before = [&](const auto& rows) {
        return std::make_reverse_iterator(all ? rows.end() : rows.lower_bound(before));
    };
    auto changed = row_before(changed_);
    auto active = line_before(active_);
    auto idle = line_before(idle_);
    using Gone = Beside<decltype(deleted_)::const_reverse_iterator>;
    Gone gone(row_before(deleted_), deleted_.rend(), Gone::Order::descending);
    for (;;) {
        const std::string_view a = active == active_.rend() ? std::string_view() : id_at(*active);
        const std::string_view i = idle == idle_.rend() ? std::string_view() : id_at(*idle);
        const std::string_view c = changed == changed_.rend()
                                       ? std::string_view()
                                       : std::string_view(changed->first.text());
        const std::string_view next = std::max({a, i, c});
        if (next.empty()) return;
        if (next == c) {
            if (!visit(*changed->second)) return;
            ++changed;
            if (next == a) ++active;
            if (next == i) ++idle;
            continue;
        }
        const std::uint32_t offset = next == a ? *active++ : *idle++;
        if (gone.contains(next)) continue;
        const std::string_view text = line_at(offset);
        if (sieve(text) && !visit(parse_row(text))) return;
    }
}

// Lines of the text are taken over as they are, unless their session changed.
std::uint64_t SessionIndex::write_rows(std::string& body, const Lines& lines, bool active) const {
    std::uint64_t rows = 0;
    auto changed = changed_.begin();
    using Gone = Beside<decltype(deleted_)::const_iterator>;
    Gone gone(deleted_.begin(), deleted_.end(), Gone::Order::ascending);
    const auto put_changed_before = [&](std::string_view id) {
        for (; changed != changed_.end() && (id.empty() || changed->first.text() < id); ++changed) {
            if (changed->second->session.is_active() != active) continue;
            append_row(body, *changed->second);
            ++rows;
        }
    };
    for (const std::uint32_t offset : lines) {
        const std::string_view id = id_at(offset);
        put_changed_before(id);
        const bool has_changed = changed != changed_.end() && changed->first.text() == id;
        if (has_changed || gone.contains(id)) continue;
        body += line_at(offset);
        body += '\n';
        ++rows;
    }
    put_changed_before({});
    return rows;
}

SessionIndex::NamesOfPacks SessionIndex::names_of_packs() const {
    NamesOfPacks names;
    for (const auto& [id, row] : changed_) {
        if (row->packed) names.changed.insert(row->packed->pack);
    }
    for (const Text& text : texts_)
        names.texts.push_back(text.text);
    return names;
}

std::set<std::uint64_t> SessionIndex::NamesOfPacks::all() const {
    std::set<std::uint64_t> packs = changed;
    for (const std::shared_ptr<const std::string>& text : texts)
        note_packs(*text, packs);
    return packs;
}

bool SessionIndex::wants_whole(bool tidily) const {
    constexpr std::uint64_t kSmall = 1U << 20U;
    constexpr std::uint64_t kLong = 3ULL << 30U;  // places in it have 32 bits
    constexpr std::size_t kMostParts = 64;
    constexpr std::uint64_t kTidy = 16;
    const std::uint64_t more = file_bytes_ - whole_bytes_;
    if (parts_ == 0 || parts_ >= kMostParts || file_bytes_ > kLong) return true;
    return tidily ? more > whole_bytes_ / kTidy : more > std::max(whole_bytes_, kSmall);
}

SessionIndex SessionIndex::copy_for(bool whole) const {
    if (whole) return *this;
    SessionIndex changes;
    changes.changed_ = changed_;
    changes.newly_deleted_ = newly_deleted_;
    for (const SessionId& id : newly_deleted_) {
        const auto gone = deleted_.find(id);
        if (gone != deleted_.end()) changes.deleted_.insert(*gone);
    }
    return changes;
}

std::string SessionIndex::to_checkpoint(const JournalPosition& position) const {
    Header header;
    header.format = kFormatVersion;
    header.epoch = position.epoch;
    header.group = position.group;
    header.segment = position.segment;
    header.offset = position.offset;

    constexpr std::size_t kRowBytes = 1024;
    std::string body;
    body.reserve(file_bytes_ + (changed_.size() + 1) * kRowBytes);
    header.active = write_rows(body, active_, true);
    header.idle = write_rows(body, idle_, false);
    for (const auto& [id, gone] : deleted_) {
        codec::write(body, gone);
        body += '\n';
        ++header.gone;
    }
    header.bytes = body.size();
    header.crc32c = crc32c(body);
    body.insert(0, header_text(header) + "\n");
    // It stays in memory until the next checkpoint.
    constexpr std::size_t kTolerated = 16;
    if (body.capacity() - body.size() > body.size() / kTolerated) body.shrink_to_fit();
    return body;
}

Result<void> SessionIndex::checkpointed(const SessionIndex& copy, std::string part) {
    const Result<JournalPosition> read = adopt(std::move(part));
    if (!read) return read.error();
    forget_changes_of(copy);
    return {};
}

void SessionIndex::checkpointed(const SessionIndex& copy, SessionIndex&& whole) {
    texts_.swap(whole.texts_);
    active_.swap(whole.active_);
    idle_.swap(whole.idle_);
    parts_ = whole.parts_;
    file_bytes_ = whole.file_bytes_;
    whole_bytes_ = whole.whole_bytes_;
    forget_changes_of(copy);
}

void SessionIndex::forget_changes_of(const SessionIndex& copy) {
    std::erase_if(changed_, [&](const auto& changed) {
        const auto written = copy.changed_.find(changed.first);
        return written != copy.changed_.end() && written->second == changed.second;
    });
    newly_deleted_.erase(
        newly_deleted_.begin(),
        newly_deleted_.begin() + static_cast<std::ptrdiff_t>(copy.newly_deleted_.size()));
}

}  // namespace rouse::files
