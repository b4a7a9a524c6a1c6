#pragma once

// Packs: files that hold whole logs, one behind the other, of sessions that came and went while
// there was much to do. A file for each of those costs more than all else that is written for it.
//
// A pack is written between two checkpoints, by one process. What no row of the index speaks of is
// no evidence: it is what a crash left, or a log that has moved into a file of its own.

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/fs.h"
#include "domain/codec.h"
#include "store/files/layout.h"

namespace rouse::files {

// Where a log begins, if it is not a file of its own.
struct PackPlace {
    std::uint64_t pack = 0;
    std::uint64_t at = 0;
    friend bool operator==(const PackPlace&, const PackPlace&) = default;
    static constexpr auto fields() {
        return std::tuple(required("pack", &PackPlace::pack), required("at", &PackPlace::at));
    }
};

// A log that stands in a pack, or stood there.
struct PackedLog {
    PackPlace place;
    std::uint64_t bytes = 0;
};

// The file in which a log is, and where it begins there.
struct LogPlace {
    std::string file;
    std::uint64_t at = 0;
};
LogPlace place_of(const Layout& layout, const SessionId& id,
                  const std::optional<PackPlace>& packed);

// The numbers of all packs that are there, the oldest first.
Result<std::vector<std::uint64_t>> list_packs(Fs& fs, const Layout& layout);

// The text of a pack by itself: its logs, each with its session's id as its first line has it.
struct PackText {
    struct Log {
        SessionId id;
        std::uint64_t at = 0;
        std::string_view text;
    };
    std::vector<Log> logs;
    bool has_strays = false;  // lines that belong to none of them
};
PackText read_pack(std::string_view text);

// Writes line ends over the log's bytes.
Result<void> blank(Fs& fs, const Layout& layout, const PackedLog& log);
// True also of a log that was blanked in part when the power went.
bool is_blanked(std::string_view text);

Result<void> remove_packs_but(Fs& fs, const Layout& layout, const std::set<std::uint64_t>& in_use);

class PackWriter {
 public:
    PackWriter(Fs& fs, const Layout& layout) : fs_(fs), layout_(layout) {}

    // Where the text begins.
    Result<PackPlace> append(std::string_view text);
    // What is appended next begins another pack.
    Result<void> finish();

 private:
    Result<void> begin_next();

    Fs& fs_;
    const Layout& layout_;
    std::unique_ptr<File> file_;
    std::uint64_t number_ = 0;  // 0: none yet
    std::uint64_t end_ = 0;
};

}  // namespace rouse::files
