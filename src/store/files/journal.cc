#include "store/files/journal.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"

namespace rouse::files {
namespace {

constexpr std::uint64_t kMarkEvery = 1U << 20U;

// Gives views into a segment, a megabyte at a time: most of it is never looked at twice.
class SegmentReader {
 public:
    static Result<SegmentReader> open(Fs& fs, const std::string& path) {
        SegmentReader reader;
        Result<std::unique_ptr<File>> file = fs.open(path, OpenMode::read);
        if (!file) return file.error();
        const Result<std::uint64_t> size = (*file)->size();
        if (!size) return size.error();
        reader.file_ = *std::move(file);
        reader.size_ = *size;
        return reader;
    }

    std::uint64_t size() const { return size_; }

    // Up to `length` bytes from `offset` on, fewer at the end. Good until the next call.
    Result<std::string_view> at(std::uint64_t offset, std::uint64_t length) {
        const std::uint64_t rest = size_ - std::min(offset, size_);
        length = std::min(length, rest);
        if (offset < start_ || offset + length > start_ + window_.size()) {
            Result<std::string> bytes =
                file_->read_at(offset, std::min(rest, std::max(length, kWindow)));
            if (!bytes) return bytes.error();
            window_ = *std::move(bytes);
            start_ = offset;
        }
        return std::string_view(window_).substr(offset - start_, length);
    }

 private:
    static constexpr std::uint64_t kWindow = 1U << 20U;

    std::unique_ptr<File> file_;
    std::uint64_t size_ = 0;
    std::uint64_t start_ = 0;
    std::string window_;
};

// A whole group at `offset`, whatever its number; its bytes with the header.
struct FoundGroup {
    GroupHeader header;
    std::string_view payload;
};
Result<std::optional<FoundGroup>> group_at(SegmentReader& segment, std::uint64_t offset) {
    const Result<std::string_view> head = segment.at(offset, kGroupHeaderBytes);
    if (!head) return head.error();
    const Result<GroupHeader> header = parse_group_header(*head);
    if (!header) return std::nullopt;
    const Result<std::string_view> bytes = segment.at(offset, kGroupHeaderBytes + header->length);
    if (!bytes) return bytes.error();
    if (!is_whole_group(*header, *bytes)) return std::nullopt;
    return FoundGroup{*header, bytes->substr(kGroupHeaderBytes)};
}

// The first whole group behind `offset` that was written after group `last`.
Result<std::optional<std::uint64_t>> later_group(SegmentReader& segment, std::uint64_t offset,
                                                 std::uint64_t last) {
    for (std::uint64_t at = offset; at < segment.size(); at += limits::kJournalSectorBytes) {
        const Result<std::optional<FoundGroup>> found = group_at(segment, at);
        if (!found) return found.error();
        if (*found && (*found)->header.group > last) return at;
    }
    return std::nullopt;
}

// The group that was being written when the power went, as far as its header tells.
Result<std::optional<TornTail>> torn_tail(SegmentReader& segment, std::uint64_t number,
                                          std::uint64_t offset, std::uint64_t last) {
    const Result<std::string_view> head = segment.at(offset, kGroupHeaderBytes);
    if (!head) return head.error();
    const Result<GroupHeader> header = parse_group_header(*head);
    if (!header || header->group <= last) return std::nullopt;
    const Result<std::string_view> bytes = segment.at(offset, header->disk_bytes());
    if (!bytes) return bytes.error();
    return TornTail{number, offset, std::string(*bytes)};
}

// Walks the groups of one segment after another and remembers what was wrong on the way.
class Replayer {
 public:
    Replayer(Fs& fs, const Layout& layout, const JournalPosition& from,
             const Journal::OnGroup& on_group)
        : fs_(fs), layout_(layout), on_group_(on_group), from_(from) {
        end_.position = from;
    }

    Result<ReplayEnd> run() {
        Result<std::vector<std::uint64_t>> numbers = list_segments(fs_, layout_);
        if (!numbers) return numbers.error();
        for (const std::uint64_t number : *numbers) {
            if (number < from_.segment) continue;
            Result<SegmentReader> segment = SegmentReader::open(fs_, layout_.segment(number));
            if (!segment) return segment.error();
            if (Result<void> walked = walk(number, *segment); !walked) return walked.error();
        }
        return std::move(end_);
    }

 private:
    Result<void> walk(std::uint64_t number, SegmentReader& segment) {
        std::uint64_t offset = number == from_.segment ? from_.offset : 0;
        while (offset < segment.size()) {
            const Result<std::optional<FoundGroup>> found = group_at(segment, offset);
            if (!found) return found.error();
            const std::optional<FoundGroup>& group = *found;
            if (group && group->header.group <= from_.group && !suspect_) {
                offset += group->header.disk_bytes();  // known from the checkpoint
                continue;
            }
            if (group && group->header.group > end_.position.group) {
                Result<void> taken = take(number, offset, *group);
                if (!taken) return taken;
                offset = end_.position.offset;
                continue;
            }
            // Nothing new here: the end, unless a later group follows.
            Result<std::optional<std::uint64_t>> later = suspect(number, offset, segment);
            if (!later) return later.error();
            if (!*later) return {};
            offset = **later;
        }
        return {};
    }

    Result<void> take(std::uint64_t number, std::uint64_t offset, const FoundGroup& group) {
        // Without a known start, the journal begins wherever its oldest segment does.
        const bool first_seen = from_.segment == 0 && end_.position.segment == 0;
        if (group.header.group != end_.position.group + 1 && !first_seen) {
            if (!suspect_) suspect_ = JournalDamage{number, offset, end_.position.group + 1, {}};
            end_.damage.push_back(*std::move(suspect_));
        }
        // What looked like the end was one only of its segment.
        suspect_.reset();
        end_.torn.reset();
        const JournalPosition behind{group.header.epoch, group.header.group, number,
                                     offset + group.header.disk_bytes()};
        if (Result<void> taken = on_group_(behind, group.payload); !taken) return taken;
        end_.position = behind;
        end_.last_group_at = offset;
        return {};
    }

    // Notes the first place without the next group; gives the next one that has a later group.
    Result<std::optional<std::uint64_t>> suspect(std::uint64_t number, std::uint64_t offset,
                                                 SegmentReader& segment) {
        const auto later = later_group(segment, offset, end_.position.group);
        if (!later || suspect_) return later;
        const std::uint64_t length = later->value_or(offset) - offset;
        const Result<std::string_view> bytes = segment.at(offset, length);
        if (!bytes) return bytes.error();
        suspect_ = JournalDamage{number, offset, end_.position.group + 1, std::string(*bytes)};
        Result<std::optional<TornTail>> torn =
            torn_tail(segment, number, offset, end_.position.group);
        if (!torn) return torn.error();
        end_.torn = *std::move(torn);
        return later;
    }

    Fs& fs_;
    const Layout& layout_;
    const Journal::OnGroup& on_group_;
    JournalPosition from_;
    ReplayEnd end_;
    // A place without the next group: the end of the journal until a later group shows up.
    std::optional<JournalDamage> suspect_;
};

}  // namespace

Result<std::vector<std::uint64_t>> list_segments(Fs& fs, const Layout& layout) {
    const Result<std::vector<std::string>> names = fs.list(layout.journal());
    if (!names) return names.error();
    std::vector<std::uint64_t> numbers;
    for (const std::string& name : *names) {
        if (const auto number = Layout::number_of_segment(name)) numbers.push_back(*number);
    }
    std::ranges::sort(numbers);
    return numbers;
}

Result<std::uint64_t> first_group_of(Fs& fs, const Layout& layout, std::uint64_t segment) {
    const Result<std::unique_ptr<File>> file = fs.open(layout.segment(segment), OpenMode::read);
    if (!file) return file.error();
    const Result<std::string> head = (*file)->read_at(0, kGroupHeaderBytes);
    if (!head) return head.error();
    const Result<GroupHeader> first = parse_group_header(*head);
    return first ? first->group : 0;
}

Result<bool> has_position(Fs& fs, const Layout& layout, const JournalPosition& position) {
    if (position.segment == 0) return true;
    const Result<FileStatus> segment = fs.status(layout.segment(position.segment));
    if (!segment && segment.error().kind != ErrorKind::not_found) return segment.error();
    return segment && segment->size >= position.offset;
}

Result<ReplayEnd> Journal::replay(Fs& fs, const Layout& layout, const JournalPosition& from,
                                  const OnGroup& on_group) {
    return Replayer(fs, layout, from, on_group).run();
}

Journal::Journal(Env env, Layout layout, JournalOptions options)
    : env_(env), layout_(std::move(layout)), options_(options) {}

Result<void> Journal::start(const ReplayEnd& end) {
    epoch_ = end.position.epoch + 1;
    Result<std::vector<std::uint64_t>> numbers = list_segments(env_.fs, layout_);
    if (!numbers) return numbers.error();
    if (Result<void> dropped = drop_second_names(*numbers); !dropped) return dropped;
    if (Result<void> dropped = drop_before_hole(*numbers, end); !dropped) return dropped;
    // A process that was killed may have left names that no sync has covered.
    if (Result<void> synced = env_.fs.sync_directory(layout_.journal()); !synced) return synced;
    {
        const std::lock_guard lock(mutex_);
        position_ = end.position;
        for (const std::uint64_t number : *numbers) {
            if (number > position_.segment) {
                prepared_.push_back(number);
                continue;
            }
            // Older segments are kept for readers of the global stream until recycle() takes them.
            const Result<std::uint64_t> first = first_group_of(env_.fs, layout_, number);
            if (!first) return first.error();
            segments_[number] = Segment{*first, env_.clock.now()};
        }
    }
    if (end.torn) {
        if (Result<void> cut = cut_torn_tail(*end.torn); !cut) return cut;
    }
    if (Result<void> settled = settle_last_group(end); !settled) return settled;
    Result<std::unique_ptr<File>> file =
        env_.fs.open(layout_.segment(end.position.segment), OpenMode::write);
    if (!file && file.error().kind == ErrorKind::not_found) return rotate();
    if (!file) return file.error();
    const Result<std::uint64_t> size = (*file)->size();
    if (!size) return size.error();
    if (*size < end.position.offset) return rotate();  // somebody cut it
    current_ = *std::move(file);
    return {};
}

// A crash in the middle of a recycling rename may leave a segment with both names. The old one
// goes: recycled again, it would lead to bytes that are in use under the other.
Result<void> Journal::drop_second_names(std::vector<std::uint64_t>& numbers) {
    std::map<std::uint64_t, std::uint64_t> by_first_group;
    std::vector<std::uint64_t> kept;
    for (const std::uint64_t number : numbers) {
        const Result<std::uint64_t> first = first_group_of(env_.fs, layout_, number);
        if (!first) return first.error();
        const auto [known, is_new] = by_first_group.emplace(*first, number);
        if (*first != 0 && !is_new) {
            Result<void> removed = env_.fs.remove(layout_.segment(known->second));
            if (!removed) return removed;
            std::erase(kept, std::exchange(known->second, number));
        }
        kept.push_back(number);
    }
    numbers = std::move(kept);
    return {};
}

// A crash among the removals of recycling may leave segments older than one that is gone. Nobody
// can read across the hole.
Result<void> Journal::drop_before_hole(std::vector<std::uint64_t>& numbers, const ReplayEnd& end) {
    if (!end.damage.empty()) return {};  // not ours, and no byte of it is thrown away
    std::size_t first = 0;
    for (std::size_t i = 1; i < numbers.size() && numbers[i] <= end.position.segment; ++i) {
        if (numbers[i] != numbers[i - 1] + 1) first = i;
    }
    for (std::size_t i = 0; i < first; ++i) {
        Result<void> removed = env_.fs.remove(layout_.segment(numbers[i]));
        if (!removed) return removed;
    }
    numbers.erase(numbers.begin(), numbers.begin() + static_cast<std::ptrdiff_t>(first));
    return {};
}

// Replay may have read the last group from the page cache of a machine on which a process was
// killed before its sync, or on which that sync failed. Written once more it is dirty again, so
// that a sync means what it says; earlier groups were synced before it was written.
Result<void> Journal::settle_last_group(const ReplayEnd& end) {
    if (!end.last_group_at) return {};
    const std::uint64_t at = *end.last_group_at;
    Result<std::unique_ptr<File>> file =
        env_.fs.open(layout_.segment(end.position.segment), OpenMode::write);
    if (!file) return file.error();
    const Result<std::string> bytes = (*file)->read_at(at, end.position.offset - at);
    if (!bytes) return bytes.error();
    if (Result<void> written = (*file)->write_at(at, *bytes); !written) return written;
    return (*file)->sync_data();
}

// The bytes go to a side file first, then their header is wiped, so that nothing can take them for
// a group later.
Result<void> Journal::cut_torn_tail(const TornTail& torn) {
    const std::string kept = layout_.damaged() + "/journal-" + std::to_string(torn.segment) + "-" +
                             std::to_string(torn.offset) + ".torn";
    if (Result<void> saved = env_.fs.replace_file(kept, torn.bytes); !saved) return saved;
    Result<std::unique_ptr<File>> file =
        env_.fs.open(layout_.segment(torn.segment), OpenMode::write);
    if (!file) return file.error();
    const std::string zeros(limits::kJournalSectorBytes, '\0');
    if (Result<void> wiped = (*file)->write_at(torn.offset, zeros); !wiped) return wiped;
    env_.log.warn("journal.torn_tail_cut",
                  {{"segment", torn.segment}, {"offset", torn.offset}, {"kept", kept}});
    return (*file)->sync_data();
}

Result<void> Journal::make_segment(std::uint64_t number) {
    const std::string temporary = layout_.journal() + "/next.tmp";
    Result<void> filled = fill_segment(temporary);
    if (!filled) {
        // A half-made segment would keep the space that a full disk lacks.
        if (filled.error().reason == "disk_full") (void)env_.fs.remove(temporary);
        return filled;
    }
    if (Result<void> named = env_.fs.rename(temporary, layout_.segment(number)); !named) {
        return named;
    }
    return env_.fs.sync_directory(layout_.journal());
}

Result<void> Journal::fill_segment(const std::string& temporary) {
    // A new file: after a crash this name may still lead to a segment that is in use.
    Result<std::unique_ptr<File>> file = env_.fs.make_file(temporary);
    if (!file) return file.error();
    if (Result<void> done = (*file)->allocate(options_.segment_bytes); !done) return done;
    // Written once, a block is overwritten in place: later syncs carry no metadata.
    const std::string zeros(std::min<std::uint64_t>(options_.segment_bytes, 1U << 20U), '\0');
    for (std::uint64_t at = 0; at < options_.segment_bytes; at += zeros.size()) {
        const std::size_t n = std::min<std::uint64_t>(zeros.size(), options_.segment_bytes - at);
        Result<void> written = (*file)->write_at(at, std::string_view(zeros).substr(0, n));
        if (!written) return written;
    }
    if (Result<void> synced = (*file)->sync(); !synced) return synced;
    return (*file)->close();
}

bool Journal::wants_next() const {
    const std::lock_guard lock(mutex_);
    return prepared_.empty() && position_.offset * 2 >= options_.segment_bytes;
}

Result<void> Journal::prepare_next() {
    const std::lock_guard preparing(preparing_);
    std::uint64_t number = 0;
    {
        const std::lock_guard lock(mutex_);
        if (!prepared_.empty()) return {};
        number = position_.segment + 1;
    }
    if (Result<void> made = make_segment(number); !made) return made;
    const std::lock_guard lock(mutex_);
    prepared_.push_back(number);
    return {};
}

Result<void> Journal::rotate() {
    if (Result<void> ready = prepare_next(); !ready) return ready;
    std::uint64_t number = 0;
    {
        const std::lock_guard lock(mutex_);
        number = prepared_.front();
    }
    Result<std::unique_ptr<File>> file = env_.fs.open(layout_.segment(number), OpenMode::write);
    if (!file) return file.error();
    current_ = *std::move(file);
    const std::lock_guard lock(mutex_);
    prepared_.erase(prepared_.begin());
    if (!segments_.empty()) segments_.rbegin()->second.sealed_at = env_.clock.now();
    segments_[number] = Segment{position_.group + 1, {}};
    position_.segment = number;
    position_.offset = 0;
    return {};
}

Result<JournalPosition> Journal::append(GroupBuilder& group) {
    JournalPosition at = position();
    const std::uint64_t needed = round_up_to_sector(group.size());
    if (at.offset + needed > options_.segment_bytes) {
        if (Result<void> rotated = rotate(); !rotated) return rotated.error();
        at = position();
    }
    const std::string& bytes = group.finish(epoch_, at.group + 1);
    if (Result<void> written = current_->write_and_sync(at.offset, bytes); !written) {
        return Error(ErrorKind::io, "io_error", written.error().message);
    }
    const std::lock_guard lock(mutex_);
    Segment& segment = segments_[at.segment];
    if (at.offset == 0) segment.first_group = at.group + 1;
    std::vector<Segment::Mark>& marks = segment.marks;
    if (at.offset >= kMarkEvery + (marks.empty() ? 0 : marks.back().offset)) {
        marks.push_back({at.group + 1, at.offset});
    }
    position_ = {epoch_, at.group + 1, at.segment, at.offset + bytes.size()};
    return position_;
}

JournalPosition Journal::position() const {
    const std::lock_guard lock(mutex_);
    return position_;
}

std::uint64_t Journal::bytes_since(const JournalPosition& covered) const {
    const std::lock_guard lock(mutex_);
    return (position_.segment - covered.segment) * options_.segment_bytes + position_.offset -
           covered.offset;
}

Result<void> Journal::recycle(const JournalPosition& covered) {
    const std::lock_guard preparing(preparing_);
    std::vector<std::uint64_t> old;
    bool need_next = false;
    std::uint64_t next = 0;
    {
        const std::lock_guard lock(mutex_);
        const Timestamp keep_from = env_.clock.now() - options_.kept;
        std::uint64_t newer_bytes = 0;
        for (auto segment = segments_.rbegin(); segment != segments_.rend(); ++segment) {
            if (segment->first >= covered.segment) continue;
            newer_bytes += options_.segment_bytes;
            const bool kept =
                segment->second.sealed_at >= keep_from && newer_bytes <= options_.kept_bytes;
            if (!kept) old.push_back(segment->first);
        }
        std::ranges::reverse(old);  // the oldest first: what is left after a crash has no hole
        need_next = prepared_.empty();
        next = position_.segment + 1;
    }
    const auto forget = [this](std::uint64_t number) {
        const std::lock_guard lock(mutex_);
        segments_.erase(number);
    };
    for (const std::uint64_t number : old) {
        if (!need_next) {
            if (Result<void> gone = env_.fs.remove(layout_.segment(number)); !gone) return gone;
            forget(number);
            continue;
        }
        Result<void> renamed = env_.fs.rename(layout_.segment(number), layout_.segment(next));
        if (!renamed) return renamed;
        forget(number);
        if (Result<void> synced = env_.fs.sync_directory(layout_.journal()); !synced) return synced;
        const std::lock_guard lock(mutex_);
        prepared_.push_back(next);
        need_next = false;
    }
    return {};
}

Result<void> Journal::read(std::uint64_t after_group, const OnGroup& on_group) const {
    const Error too_old(ErrorKind::precondition, "cursor_too_old",
                        "the journal no longer has what follows this cursor");
    JournalPosition from;
    std::uint64_t last = 0;
    {
        const std::lock_guard lock(mutex_);
        last = position_.group;
        if (after_group >= last) return {};
        for (const auto& [number, segment] : segments_) {
            if (segment.first_group == 0 || segment.first_group > after_group + 1) continue;
            from.segment = number;
            from.group = segment.first_group - 1;
            from.offset = 0;
            for (const Segment::Mark& mark : segment.marks) {
                if (mark.group > after_group + 1) break;
                from.group = mark.group - 1;
                from.offset = mark.offset;
            }
        }
    }
    if (from.segment == 0) return too_old;
    const Error done(ErrorKind::cancelled, "done", "");
    std::uint64_t next = after_group + 1;
    const OnGroup filter = [&](const JournalPosition& behind, std::string_view payload) {
        if (behind.group <= after_group) return Result<void>();
        // Damaged, or used again meanwhile: what is missing is not passed over.
        if (behind.group != next) return Result<void>(too_old);
        ++next;
        if (Result<void> taken = on_group(behind, payload); !taken) return taken;
        return behind.group == last ? Result<void>(done) : Result<void>();
    };
    const Result<ReplayEnd> end = replay(env_.fs, layout_, from, filter);
    if (end) return too_old;
    if (end.error() == done) return {};
    return end.error();
}

}  // namespace rouse::files
