#include "testing/simulated_disk.h"

#include <algorithm>
#include <utility>

namespace rouse::testing {
namespace {

constexpr std::uint64_t kSectorBytes = 512;

void put(std::map<std::string, NodeId>& names, const std::string& name, NodeId node) {
    if (node == kNothing) {
        names.erase(name);
    } else {
        names[name] = node;
    }
}

}  // namespace

FileContent::FileContent(std::string_view durable_bytes)
    : durable_(durable_bytes), current_(durable_bytes), reserved_(durable_bytes.size()) {}

void FileContent::mark_dirty(std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t sector = from / kSectorBytes; sector * kSectorBytes < to; ++sector) {
        dirty_.insert(sector);
        lost_.erase(sector);
    }
}

void FileContent::write(std::uint64_t offset, std::string_view bytes, std::int64_t number) {
    LastWrite write{number, offset, {}, current_.size()};
    if (offset < current_.size()) write.before = current_.substr(offset, bytes.size());
    write.before.resize(bytes.size());

    const std::uint64_t end = offset + bytes.size();
    if (end > current_.size()) resize(end);
    std::ranges::copy(bytes, current_.begin() + static_cast<std::ptrdiff_t>(offset));
    mark_dirty(offset, end);
    if (offset <= reserved_) reserved_ = std::max(reserved_, end);
    last_write_ = std::move(write);
}

void FileContent::resize(std::uint64_t size) {
    if (size == current_.size()) return;
    if (size < current_.size()) {
        mark_dirty(size, current_.size());
        last_write_.reset();
    }
    current_.resize(size);
    size_dirty_ = true;
    sizes_.push_back(size);
    reserved_ = std::min(reserved_, size);
}

void FileContent::reserve(std::uint64_t size) {
    if (size > current_.size()) resize(size);
    reserved_ = std::max(reserved_, size);
}

// Puts a sector of the page cache into `into`, as much of it as that has room for.
void FileContent::copy_sector(std::uint64_t sector, std::string& into) const {
    const std::size_t from = sector * kSectorBytes;
    if (from >= into.size()) return;
    const std::size_t length = std::min<std::size_t>(kSectorBytes, into.size() - from);
    std::string bytes;
    if (from < current_.size()) bytes = current_.substr(from, length);
    bytes.resize(length);
    into.replace(from, length, bytes);
}

void FileContent::sync() {
    std::uint64_t covered = 0;
    if (!dirty_.empty()) {
        covered = std::min<std::uint64_t>((*dirty_.rbegin() + 1) * kSectorBytes, current_.size());
    }
    // A size that a failed sync gave up stays lost, unless bytes are written out that need it.
    durable_.resize(size_dirty_ ? current_.size()
                                : std::max<std::uint64_t>(durable_.size(), covered));
    for (const std::uint64_t sector : dirty_)
        copy_sector(sector, durable_);
    dirty_.clear();
    if (size_dirty_) {
        sizes_.clear();
    } else {
        std::erase_if(sizes_, [&](std::uint64_t size) { return size < covered; });
    }
    size_dirty_ = false;
    last_write_.reset();
}

void FileContent::fail_sync() {
    lost_.merge(dirty_);
    dirty_.clear();
    size_dirty_ = false;
    last_write_.reset();
}

void FileContent::tear_last_write(SeededRandom& random) {
    const LastWrite write = *std::exchange(last_write_, std::nullopt);
    const std::uint64_t length = write.before.size();
    std::uint64_t kept = length > 1 ? 1 + random.below(length - 1) : 0;
    if (kept > 1 && (write.offset + kept) % kSectorBytes == 0) --kept;
    current_.replace(write.offset + kept, length - kept, write.before, kept);
    // The new size may have got to the disk before the bytes: then the file ends in zeros.
    const std::uint64_t end = std::max(write.size_before, write.offset + kept);
    const bool at_the_end = current_.size() == write.offset + length;
    if (at_the_end && end < current_.size() && random.coin()) resize(end);
}

void FileContent::lose_power(DiskModel model, SeededRandom& random) {
    if (model == DiskModel::tear_last_write) sync();
    if (model == DiskModel::keep_any_subset) {
        const std::uint64_t pick = random.below(sizes_.size() + 1);
        const std::uint64_t size = pick == 0 ? durable_.size() : sizes_[pick - 1];
        durable_.resize(std::max(durable_.size(), current_.size()));
        dirty_.merge(lost_);
        for (const std::uint64_t sector : dirty_) {
            if (random.coin()) copy_sector(sector, durable_);
        }
        durable_.resize(size);
    }
    current_ = durable_;
    dirty_.clear();
    lost_.clear();
    size_dirty_ = false;
    sizes_.clear();
    reserved_ = std::min<std::uint64_t>(reserved_, current_.size());
    last_write_.reset();
}

NodeId DirectoryNames::find(const std::string& name) const {
    const auto found = current_.find(name);
    return found == current_.end() ? kNothing : found->second;
}

void DirectoryNames::set(const std::string& name, NodeId node) {
    put(current_, name, node);
    Change& change = changes_[name];
    change.dirty = true;
    change.versions.push_back(node);
}

void DirectoryNames::set_durably(const std::string& name, NodeId node) {
    put(current_, name, node);
    put(durable_, name, node);
    changes_.erase(name);
}

void DirectoryNames::sync() {
    std::erase_if(changes_, [&](const auto& changed) {
        const auto& [name, change] = changed;
        if (change.dirty) put(durable_, name, change.versions.back());
        return change.dirty;
    });
}

void DirectoryNames::fail_sync() {
    for (auto& [name, change] : changes_)
        change.dirty = false;
}

void DirectoryNames::lose_power(DiskModel model, SeededRandom& random) {
    if (model == DiskModel::tear_last_write) sync();
    if (model == DiskModel::keep_any_subset) {
        for (const auto& [name, change] : changes_) {
            const std::uint64_t pick = random.below(change.versions.size() + 1);
            if (pick > 0) put(durable_, name, change.versions[pick - 1]);
        }
    }
    current_ = durable_;
    changes_.clear();
}

std::set<NodeId> DirectoryNames::all_nodes() const {
    std::set<NodeId> all;
    for (const auto& [name, node] : durable_)
        all.insert(node);
    for (const auto& [name, node] : current_)
        all.insert(node);
    for (const auto& [name, change] : changes_) {
        all.insert(change.versions.begin(), change.versions.end());
    }
    all.erase(kNothing);
    return all;
}

NodeId Disk::add_file() {
    nodes_[++last_node_].directory = false;
    return last_node_;
}

NodeId Disk::add_directory() {
    nodes_[++last_node_].directory = true;
    return last_node_;
}

void Disk::write(NodeId file, std::uint64_t offset, std::string_view bytes) {
    node(file).content.write(offset, bytes, ++writes_);
}

void Disk::sync() {
    for (auto& [id, node] : nodes_) {
        node.content.sync();
        node.names.sync();
    }
}

void Disk::fail_sync() {
    for (auto& [id, node] : nodes_) {
        node.content.fail_sync();
        node.names.fail_sync();
    }
}

void Disk::lose_power(DiskModel model, std::uint64_t seed) {
    SeededRandom random(seed);
    if (model == DiskModel::tear_last_write) {
        const auto latest = std::ranges::max_element(
            nodes_, {}, [](const auto& node) { return node.second.content.last_write(); });
        FileContent& content = latest->second.content;
        if (content.last_write() != 0) content.tear_last_write(random);
    }
    for (auto& [id, node] : nodes_) {
        node.content.lose_power(model, random);
        node.names.lose_power(model, random);
    }
}

void Disk::sweep(const std::multiset<NodeId>& open) {
    std::set<NodeId> reached;
    std::vector<NodeId> waiting = {kRoot};
    while (!waiting.empty()) {
        const NodeId id = waiting.back();
        waiting.pop_back();
        if (!reached.insert(id).second) continue;
        for (const NodeId child : nodes_.at(id).names.all_nodes())
            waiting.push_back(child);
    }
    std::erase_if(nodes_, [&](const auto& node) {
        return !reached.contains(node.first) && !open.contains(node.first);
    });
}

}  // namespace rouse::testing
