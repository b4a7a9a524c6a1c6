#pragma once

// What a simulated machine knows of its files: how they are on the disk and how a running program
// sees them through the page cache, with enough in between to say what a power cut may leave.
// CrashingFs puts paths, faults and open files around it.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "testing/seeded_random.h"

namespace rouse::testing {

// What a power cut leaves of that which no sync has covered.
enum class DiskModel : std::uint8_t {
    lose_unsynced,  // nothing
    // Each sector of 512 bytes as synced or as written last; each size and each name as synced or
    // as at any moment since; all independently of each other.
    keep_any_subset,
    // Everything, but of the last write that no sync has covered only the bytes up to some point.
    tear_last_write,
};

// The bytes of a file, on the disk (`durable`) and in the page cache (`current`). The two differ in
// sectors that are dirty or lost and in no others; bytes behind the end count as zeros.
class FileContent {
 public:
    FileContent() = default;
    explicit FileContent(std::string_view durable_bytes);

    const std::string& bytes() const { return current_; }
    // The `number` of the latest write, or 0 when a sync has covered it.
    std::int64_t last_write() const { return last_write_ ? last_write_->number : 0; }
    // Bytes from the start that have blocks, so that a full disk cannot stop a write into them.
    std::uint64_t reserved() const { return reserved_; }

    void write(std::uint64_t offset, std::string_view bytes, std::int64_t number);
    void resize(std::uint64_t size);
    void reserve(std::uint64_t size);
    void sync();
    // As on Linux: what was dirty counts as clean from now on, and is not on the disk.
    void fail_sync();
    // Takes back a part of the latest write, of which there must be one.
    void tear_last_write(SeededRandom& random);
    void lose_power(DiskModel model, SeededRandom& random);

 private:
    // What the latest write changed, so that a part of it can be taken back.
    struct LastWrite {
        std::int64_t number = 0;
        std::uint64_t offset = 0;
        std::string before;  // as long as the write; zeros where the file ended
        std::uint64_t size_before = 0;
    };

    void mark_dirty(std::uint64_t from, std::uint64_t to);
    void copy_sector(std::uint64_t sector, std::string& into) const;

    std::string durable_;
    std::string current_;
    std::set<std::uint64_t> dirty_;     // sectors that the next sync writes
    std::set<std::uint64_t> lost_;      // sectors that a failed sync gave up
    bool size_dirty_ = false;           // the next sync writes the size
    std::vector<std::uint64_t> sizes_;  // which the file has had since its size was durable
    std::uint64_t reserved_ = 0;
    std::optional<LastWrite> last_write_;
};

using NodeId = std::uint64_t;
inline constexpr NodeId kNothing = 0;  // no such name
inline constexpr NodeId kRoot = 1;

// The names in a directory.
class DirectoryNames {
 public:
    NodeId find(const std::string& name) const;
    const std::map<std::string, NodeId>& names() const { return current_; }

    void set(const std::string& name, NodeId node);  // kNothing removes
    void set_durably(const std::string& name, NodeId node);
    void sync();
    void fail_sync();
    void lose_power(DiskModel model, SeededRandom& random);

    // Every node that has a name here, or might have one after a power cut.
    std::set<NodeId> all_nodes() const;

 private:
    // The versions that a name has had since it was durable; the last one is the current.
    struct Change {
        bool dirty = true;  // the next sync writes it; not so after a failed one
        std::vector<NodeId> versions;
    };

    std::map<std::string, NodeId> durable_;
    std::map<std::string, NodeId> current_;
    std::map<std::string, Change> changes_;
};

// A file or a directory, whatever its names are.
struct Node {
    bool directory = false;
    FileContent content;
    DirectoryNames names;
};

// A tree of nodes. Copying it makes another disk.
class Disk {
 public:
    Disk() { nodes_[kRoot].directory = true; }

    Node& node(NodeId id) { return nodes_.at(id); }
    const Node& node(NodeId id) const { return nodes_.at(id); }
    NodeId add_file();
    NodeId add_directory();
    void write(NodeId file, std::uint64_t offset, std::string_view bytes);

    void sync();
    void fail_sync();
    void lose_power(DiskModel model, std::uint64_t seed);
    // Forgets what no name leads to in any version, and is not in `open` either.
    void sweep(const std::multiset<NodeId>& open);

 private:
    std::map<NodeId, Node> nodes_;
    NodeId last_node_ = kRoot;
    std::int64_t writes_ = 0;
};

}  // namespace rouse::testing
