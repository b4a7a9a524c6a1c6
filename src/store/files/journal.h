#pragma once

// The group-commit journal: segments of a fixed size, preallocated, filled with sync groups one
// after the other, and used again once the logs have what is in them.
//
// Not thread-safe but for what is said below. append() belongs to one thread; prepare_next() and
// recycle() may run on another at the same time.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "store/files/group.h"
#include "store/files/layout.h"

namespace rouse::files {

// The place behind a group: what lies before it is known.
struct JournalPosition {
    std::uint64_t epoch = 0;
    std::uint64_t group = 0;
    std::uint64_t segment = 0;  // 0: before the first segment
    std::uint64_t offset = 0;
    friend bool operator==(const JournalPosition&, const JournalPosition&) = default;
};

struct JournalOptions {
    std::uint64_t segment_bytes = 0;
    Milliseconds kept{0};          // how long full segments stay for readers of the global stream
    std::uint64_t kept_bytes = 0;  // and how much of them
};

// What replay found at a place where a group should be and is not, with later groups behind it.
struct JournalDamage {
    std::uint64_t segment = 0;
    std::uint64_t offset = 0;
    std::uint64_t lost_group = 0;
    std::string bytes;  // what stands there instead, up to the next group of that segment
};

struct TornTail {
    std::uint64_t segment = 0;
    std::uint64_t offset = 0;
    std::string bytes;  // of the group that was being written, as far as it can be told
};

struct ReplayEnd {
    JournalPosition position;                    // behind the last whole group
    std::optional<std::uint64_t> last_group_at;  // where that begins, unless it was known before
    std::vector<JournalDamage> damage;
    std::optional<TornTail> torn;
};

// The numbers of all segments that are there, the oldest first.
Result<std::vector<std::uint64_t>> list_segments(Fs& fs, const Layout& layout);

// Of the segment's first group; 0 when it has none.
Result<std::uint64_t> first_group_of(Fs& fs, const Layout& layout, std::uint64_t segment);

// False: the segment is gone or too short, and with it what was committed behind the position.
Result<bool> has_position(Fs& fs, const Layout& layout, const JournalPosition& position);

class Journal {
 public:
    using OnGroup =
        std::function<Result<void>(const JournalPosition& behind, std::string_view payload)>;

    // Reads every whole group behind `from`, in order, and finds where the journal ends. Changes
    // nothing on disk.
    static Result<ReplayEnd> replay(Fs& fs, const Layout& layout, const JournalPosition& from,
                                    const OnGroup& on_group);

    Journal(Env env, Layout layout, JournalOptions options);

    // Goes on behind `end` in a new epoch. Cuts a torn tail, keeping its bytes in damaged/. Makes
    // the first segment when there is none.
    Result<void> start(const ReplayEnd& end);

    // The group is durable when this returns. After an error the journal must not be used again.
    //   io  disk_full, too_many_files: no segment for it, and nothing was written: the journal can
    //       go on
    Result<JournalPosition> append(GroupBuilder& group);

    // Readies the segment after the current one. Any thread.
    Result<void> prepare_next();
    // True when the current segment is half full and the next one is not there yet. Any thread.
    bool wants_next() const;

    // Everything up to `covered` is in the logs for good: segments before it may be used again.
    Result<void> recycle(const JournalPosition& covered);

    // Groups behind `after`, up to what append() has finished. Any thread.
    // precondition "cursor_too_old".
    Result<void> read(std::uint64_t after_group, const OnGroup& on_group) const;

    JournalPosition position() const;
    std::uint64_t bytes_since(const JournalPosition& covered) const;

 private:
    struct Segment {
        struct Mark {
            std::uint64_t group = 0;
            std::uint64_t offset = 0;  // where it begins
        };
        std::uint64_t first_group = 0;  // 0: unknown
        Timestamp sealed_at{};
        std::vector<Mark> marks = {};  // some of its groups, for those who look for one
    };

    Result<void> make_segment(std::uint64_t number);
    Result<void> fill_segment(const std::string& temporary);
    Result<void> rotate();
    Result<void> drop_second_names(std::vector<std::uint64_t>& numbers);
    Result<void> drop_before_hole(std::vector<std::uint64_t>& numbers, const ReplayEnd& end);
    Result<void> settle_last_group(const ReplayEnd& end);
    Result<void> cut_torn_tail(const TornTail& torn);

    Env env_;
    Layout layout_;
    JournalOptions options_;
    std::uint64_t epoch_ = 0;
    std::unique_ptr<File> current_;

    std::mutex preparing_;      // one preparation at a time; taken before mutex_
    mutable std::mutex mutex_;  // for everything below
    JournalPosition position_;
    std::map<std::uint64_t, Segment> segments_;  // in use, the current one last
    std::vector<std::uint64_t> prepared_;        // on disk, behind the current one
};

}  // namespace rouse::files
