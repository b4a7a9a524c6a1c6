#include "testing/crashing_fs.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <set>
#include <utility>

#include "base/check.h"
#include "testing/seeded_random.h"

namespace rouse::testing {
namespace {

constexpr std::size_t kTraceLength = 64;

Error io_error(std::string_view operation, const std::string& path, std::string_view why) {
    return {ErrorKind::io, "io_error",
            std::string(operation) + " " + path + ": " + std::string(why)};
}

Error missing(std::string_view operation, const std::string& path) {
    return {ErrorKind::not_found, "no_such_file",
            std::string(operation) + " " + path + ": No such file or directory"};
}

Error full(std::string_view operation, const std::string& path) {
    return {ErrorKind::io, "disk_full",
            std::string(operation) + " " + path + ": No space left on device"};
}

std::vector<std::string> components(std::string_view path) {
    std::vector<std::string> parts;
    while (!path.empty()) {
        const std::size_t end = std::min(path.find('/'), path.size());
        const std::string_view part = path.substr(0, end);
        ROUSE_CHECK(part != "..", "CrashingFs does not know ..");
        if (!part.empty() && part != ".") parts.emplace_back(part);
        path.remove_prefix(std::min(end + 1, path.size()));
    }
    return parts;
}

// Where a path leads.
struct Place {
    NodeId directory = kNothing;  // none for the root
    std::string name;
    NodeId node = kNothing;  // none when nothing has that name
};

enum class Space : std::uint8_t { needed, not_needed };
enum class WhenCut : std::uint8_t { nothing, all, either };  // how much of it the machine has done

struct Operation {
    std::string_view name;
    const std::string& path;
    Space space = Space::not_needed;
    WhenCut when_cut = WhenCut::either;
};

struct TraceLine {
    std::int64_t number = 0;
    std::string_view name;
    std::string path;
    std::string_view outcome;
};

}  // namespace

// The whole machine. Everything below `mutex` is guarded by it; the functions want it held.
struct CrashingFs::Machine {
    std::mutex mutex;
    Disk disk;
    FaultPlan plan;
    bool crashed = false;
    std::int64_t operations = 0;
    std::int64_t failures = 0;
    std::uint64_t generation = 0;  // of open files and locks; those of an earlier one are dead
    std::multiset<NodeId> open;    // may have lost their names and must not be swept away
    std::set<NodeId> locked;
    std::deque<TraceLine> lines;

    DirectoryNames& names_of(NodeId directory) { return disk.node(directory).names; }

    Result<void> check_power(std::string_view operation, const std::string& path) const {
        if (crashed) return io_error(operation, path, "the power is off");
        return {};
    }

    // not_found: a directory on the way is missing. io: the power is off, or it is not a directory.
    Result<Place> locate(std::string_view operation, const std::string& path) const {
        if (Result<void> power = check_power(operation, path); !power) return power.error();
        if (path.empty()) return missing(operation, path);
        Place place{kNothing, "", kRoot};
        for (const std::string& part : components(path)) {
            if (place.node == kNothing) return missing(operation, path);
            const Node& node = disk.node(place.node);
            if (!node.directory) return io_error(operation, path, "Not a directory");
            place = {place.node, part, node.names.find(part)};
        }
        return place;
    }

    // As locate, and something must be there.
    Result<Place> find(std::string_view operation, const std::string& path) const {
        Result<Place> place = locate(operation, path);
        if (place && place->node == kNothing) return missing(operation, path);
        return place;
    }

    Result<NodeId> find_directory(std::string_view operation, const std::string& path) const {
        const Result<Place> place = find(operation, path);
        if (!place) return place.error();
        if (!disk.node(place->node).directory) return io_error(operation, path, "Not a directory");
        return place->node;
    }

    // For the operation that is being performed: what a fault does depends on seed and number.
    SeededRandom fault_random() const {
        return SeededRandom(plan.seed * 1'000'003 + static_cast<std::uint64_t>(operations));
    }

    bool fails_now(Space space) const {
        if (plan.fail_at == 0 || operations < plan.fail_at) return false;
        if (operations == plan.fail_at) return true;
        return plan.sticky && (plan.fail_code == FailCode::io_error || space == Space::needed);
    }

    void note(std::string_view name, std::string path, std::string_view outcome) {
        lines.push_back({operations, name, std::move(path), outcome});
        if (lines.size() > kTraceLength) lines.pop_front();
    }

    // Counts the operation and does what the plan has for it: the effect, or the failure's.
    template <class Effect, class Failure>
    Result<void> perform(const Operation& operation, Effect effect, Failure failure) {
        ++operations;
        if (operations == plan.crash_at) {
            note(operation.name, operation.path, "cut");
            crashed = true;
            const bool done = operation.when_cut == WhenCut::all ||
                              (operation.when_cut == WhenCut::either && fault_random().coin());
            if (done) effect();
            return io_error(operation.name, operation.path, "the power went");
        }
        if (fails_now(operation.space)) {
            note(operation.name, operation.path, "failed");
            ++failures;
            failure();
            const bool is_sync = operation.when_cut == WhenCut::nothing;  // never "disk_full": fs.h
            if (plan.fail_code == FailCode::disk_full && !is_sync) {
                return full(operation.name, operation.path);
            }
            return io_error(operation.name, operation.path, "Input/output error");
        }
        note(operation.name, operation.path, "");
        effect();
        return {};
    }

    template <class Effect>
    Result<void> perform(const Operation& operation, Effect effect) {
        return perform(operation, std::move(effect), [] {});
    }

    Result<void> create_file(std::string_view operation, const std::string& path, Place& place) {
        return perform({.name = operation, .path = path, .space = Space::needed}, [&] {
            place.node = disk.add_file();
            names_of(place.directory).set(place.name, place.node);
        });
    }

    void end_process() {
        ++generation;
        open.clear();
        locked.clear();
        plan = {};
        crashed = false;
    }

    void collect_files(NodeId directory, const std::string& path,
                       std::map<std::string, std::string>& into) const {
        for (const auto& [name, id] : disk.node(directory).names.names()) {
            const Node& node = disk.node(id);
            std::string child = path;
            child.append("/").append(name);
            if (node.directory) {
                collect_files(id, child, into);
            } else {
                into[std::move(child)] = node.content.bytes();
            }
        }
    }

    // The file at the path; its name and all directories above are durable.
    NodeId make_durable_name(const std::string& path) {
        const std::vector<std::string> parts = components(path);
        ROUSE_CHECK(!parts.empty(), "the root is not a file");
        NodeId at = kRoot;
        for (std::size_t i = 0; i < parts.size(); ++i) {
            const bool file = i + 1 == parts.size();
            NodeId next = names_of(at).find(parts[i]);
            if (next == kNothing) next = file ? disk.add_file() : disk.add_directory();
            ROUSE_CHECK(disk.node(next).directory != file, "a file in place of a directory");
            names_of(at).set_durably(parts[i], next);
            at = next;
        }
        return at;
    }
};

class CrashingFs::OpenFile final : public File {
 public:
    OpenFile(std::shared_ptr<Machine> machine, NodeId node, std::string path, OpenMode mode)
        : machine_(std::move(machine)),
          node_(node),
          generation_(machine_->generation),
          path_(std::move(path)),
          mode_(mode) {
        machine_->open.insert(node_);
    }
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;
    ~OpenFile() override {
        const std::lock_guard guard(machine_->mutex);
        let_go();
    }

    Result<std::size_t> read_some_at(std::uint64_t offset, std::span<char> into) override {
        const std::lock_guard guard(machine_->mutex);
        if (Result<void> usable = check_usable("read"); !usable) return usable.error();
        const std::string& bytes = content().bytes();
        if (offset >= bytes.size()) return 0;
        std::size_t length = std::min<std::size_t>(into.size(), bytes.size() - offset);
        if (machine_->plan.short_reads) length = (length + 1) / 2;
        std::ranges::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset),
                            static_cast<std::ptrdiff_t>(length), into.begin());
        return length;
    }

    Result<std::size_t> write_some_at(std::uint64_t offset, std::string_view bytes) override {
        const std::lock_guard guard(machine_->mutex);
        if (Result<void> usable = check_writable("write"); !usable) return usable.error();
        if (bytes.empty()) return io_error("write", path_, "nothing to write");
        if (machine_->plan.short_writes) bytes = bytes.substr(0, std::max(bytes.size() / 2, 1UZ));
        FileContent& file = content();
        const bool held = offset + bytes.size() <= file.reserved();
        const Operation operation{.name = "write",
                                  .path = path_,
                                  .space = held ? Space::not_needed : Space::needed,
                                  .when_cut = WhenCut::all};
        const auto write = [&](std::string_view part) {
            if (!part.empty()) machine_->disk.write(node_, offset, part);
        };
        const Result<void> written = machine_->perform(
            operation, [&] { write(bytes); },
            [&] { write(bytes.substr(0, machine_->fault_random().below(bytes.size()))); });
        if (!written) return written.error();
        return bytes.size();
    }

    Result<std::uint64_t> size() override {
        const std::lock_guard guard(machine_->mutex);
        if (Result<void> usable = check_usable("stat"); !usable) return usable.error();
        return content().bytes().size();
    }

    Result<void> truncate(std::uint64_t size) override {
        const std::lock_guard guard(machine_->mutex);
        if (Result<void> usable = check_writable("truncate"); !usable) return usable;
        return machine_->perform({.name = "truncate", .path = path_},
                                 [&] { content().resize(size); });
    }

    Result<void> allocate(std::uint64_t size) override {
        const std::lock_guard guard(machine_->mutex);
        if (Result<void> usable = check_writable("allocate"); !usable) return usable;
        FileContent& file = content();
        const bool held = size <= file.reserved();
        return machine_->perform(
            {.name = "allocate", .path = path_, .space = held ? Space::not_needed : Space::needed},
            [&] { file.reserve(size); },
            [&] {
                if (held) return;
                const std::uint64_t part = machine_->fault_random().below(size - file.reserved());
                file.reserve(file.reserved() + part);
            });
    }

    Result<void> sync_data() override { return sync_as("fdatasync"); }
    Result<void> sync() override { return sync_as("fsync"); }

    Result<void> close() override {
        const std::lock_guard guard(machine_->mutex);
        if (Result<void> usable = check_usable("close"); !usable) return usable;
        let_go();
        return {};
    }

 private:
    // Needs the mutex, as all below.
    void let_go() {
        if (closed_ || generation_ != machine_->generation) return;
        closed_ = true;
        machine_->open.erase(machine_->open.find(node_));
    }

    Result<void> check_usable(std::string_view operation) const {
        if (generation_ != machine_->generation) {
            return io_error(operation, path_, "opened before the crash");
        }
        if (closed_) return io_error(operation, path_, "Bad file descriptor");
        return machine_->check_power(operation, path_);
    }

    Result<void> check_writable(std::string_view operation) const {
        if (Result<void> usable = check_usable(operation); !usable) return usable;
        if (mode_ == OpenMode::read) return io_error(operation, path_, "Bad file descriptor");
        return {};
    }

    Result<void> sync_as(std::string_view name) {
        const std::lock_guard guard(machine_->mutex);
        if (Result<void> usable = check_usable(name); !usable) return usable;
        return machine_->perform(
            {.name = name, .path = path_, .when_cut = WhenCut::nothing}, [&] { content().sync(); },
            [&] { content().fail_sync(); });
    }

    FileContent& content() { return machine_->disk.node(node_).content; }

    std::shared_ptr<Machine> machine_;
    NodeId node_;
    std::uint64_t generation_;
    std::string path_;
    OpenMode mode_;
    bool closed_ = false;
};

class CrashingFs::HeldLock final : public FileLock {
 public:
    HeldLock(std::shared_ptr<Machine> machine, NodeId node)
        : machine_(std::move(machine)), node_(node), generation_(machine_->generation) {
        machine_->locked.insert(node_);
        machine_->open.insert(node_);
    }
    HeldLock(const HeldLock&) = delete;
    HeldLock& operator=(const HeldLock&) = delete;
    ~HeldLock() override {
        const std::lock_guard guard(machine_->mutex);
        if (generation_ != machine_->generation) return;
        machine_->locked.erase(node_);
        machine_->open.erase(machine_->open.find(node_));
    }

 private:
    std::shared_ptr<Machine> machine_;
    NodeId node_;
    std::uint64_t generation_;
};

CrashingFs::CrashingFs(FaultPlan plan) : machine_(std::make_shared<Machine>()) {
    machine_->plan = plan;
}

CrashingFs::~CrashingFs() = default;

Result<std::unique_ptr<File>> CrashingFs::open(const std::string& path, OpenMode mode) {
    const std::lock_guard guard(machine_->mutex);
    Result<Place> place = machine_->locate("open", path);
    if (!place) return place.error();
    const bool creates = mode == OpenMode::create || mode == OpenMode::create_new;
    if (place->node == kNothing) {
        if (!creates) return missing("open", path);
        if (Result<void> made = machine_->create_file("open", path, *place); !made) {
            return made.error();
        }
    } else if (mode == OpenMode::create_new) {
        return Error(ErrorKind::conflict, "file_exists", "open " + path + ": File exists");
    } else if (machine_->disk.node(place->node).directory) {
        return io_error("open", path, "Is a directory");
    }
    return std::make_unique<OpenFile>(machine_, place->node, path, mode);
}

Result<FileStatus> CrashingFs::status(const std::string& path) {
    const std::lock_guard guard(machine_->mutex);
    const Result<Place> place = machine_->find("stat", path);
    if (!place) return place.error();
    const Node& node = machine_->disk.node(place->node);
    return FileStatus{node.content.bytes().size(), node.directory};
}

Result<std::vector<std::string>> CrashingFs::list(const std::string& directory) {
    const std::lock_guard guard(machine_->mutex);
    const Result<NodeId> node = machine_->find_directory("list", directory);
    if (!node) return node.error();
    std::vector<std::string> names;
    for (const auto& [name, child] : machine_->names_of(*node).names())
        names.push_back(name);
    return names;
}

Result<void> CrashingFs::make_directory(const std::string& path) {
    const std::lock_guard guard(machine_->mutex);
    const Result<Place> place = machine_->locate("make directory", path);
    if (!place) return place.error();
    if (place->node != kNothing) return {};
    const Operation operation{.name = "make directory", .path = path, .space = Space::needed};
    return machine_->perform(operation, [&] {
        machine_->names_of(place->directory).set(place->name, machine_->disk.add_directory());
    });
}

Result<void> CrashingFs::rename(const std::string& from, const std::string& to) {
    const std::lock_guard guard(machine_->mutex);
    const Result<Place> source = machine_->locate("rename", from);
    if (!source) return source.error();
    const Result<Place> target = machine_->locate("rename to", to);
    if (!target) return target.error();
    if (source->node == kNothing) return missing("rename", from);
    ROUSE_CHECK(!machine_->disk.node(source->node).directory,
                "CrashingFs does not rename directories");
    if (target->node == source->node) return {};
    if (target->node != kNothing && machine_->disk.node(target->node).directory) {
        return io_error("rename to", to, "Is a directory");
    }
    const Space space = target->node == kNothing ? Space::needed : Space::not_needed;
    return machine_->perform({.name = "rename to", .path = to, .space = space}, [&] {
        machine_->names_of(target->directory).set(target->name, source->node);
        machine_->names_of(source->directory).set(source->name, kNothing);
    });
}

Result<void> CrashingFs::remove(const std::string& path) {
    const std::lock_guard guard(machine_->mutex);
    const Result<Place> place = machine_->find("remove", path);
    if (!place) return place.error();
    if (machine_->disk.node(place->node).directory) {
        return io_error("remove", path, "Is a directory");
    }
    return machine_->perform({.name = "remove", .path = path}, [&] {
        machine_->names_of(place->directory).set(place->name, kNothing);
    });
}

Result<void> CrashingFs::sync_directory(const std::string& path) {
    const std::lock_guard guard(machine_->mutex);
    const Result<NodeId> directory = machine_->find_directory("fsync directory", path);
    if (!directory) return directory.error();
    DirectoryNames& names = machine_->names_of(*directory);
    return machine_->perform(
        {.name = "fsync directory", .path = path, .when_cut = WhenCut::nothing},
        [&] { names.sync(); }, [&] { names.fail_sync(); });
}

Result<void> CrashingFs::sync_file_system(const std::string& path) {
    const std::lock_guard guard(machine_->mutex);
    const Result<NodeId> directory = machine_->find_directory("syncfs", path);
    if (!directory) return directory.error();
    return machine_->perform(
        {.name = "syncfs", .path = path, .when_cut = WhenCut::nothing},
        [&] {
            machine_->disk.sync();
            machine_->disk.sweep(machine_->open);
        },
        [&] { machine_->disk.fail_sync(); });
}

Result<std::unique_ptr<FileLock>> CrashingFs::lock(const std::string& path) {
    const std::lock_guard guard(machine_->mutex);
    Result<Place> place = machine_->locate("lock", path);
    if (!place) return place.error();
    if (place->node == kNothing) {
        if (Result<void> made = machine_->create_file("lock", path, *place); !made) {
            return made.error();
        }
    }
    if (machine_->disk.node(place->node).directory) return io_error("lock", path, "Is a directory");
    if (machine_->locked.contains(place->node)) {
        return Error(ErrorKind::unavailable, "directory_in_use",
                     parent_directory(path) + " is in use by process 1; stop it first, or " +
                         "choose another directory");
    }
    return std::make_unique<HeldLock>(machine_, place->node);
}

void CrashingFs::set_plan(FaultPlan plan) {
    const std::lock_guard guard(machine_->mutex);
    machine_->plan = plan;
}

std::int64_t CrashingFs::operations() const {
    const std::lock_guard guard(machine_->mutex);
    return machine_->operations;
}

void CrashingFs::reset_operations() {
    const std::lock_guard guard(machine_->mutex);
    machine_->operations = 0;
}

std::int64_t CrashingFs::failures() const {
    const std::lock_guard guard(machine_->mutex);
    return machine_->failures;
}

bool CrashingFs::crashed() const {
    const std::lock_guard guard(machine_->mutex);
    return machine_->crashed;
}

void CrashingFs::restart(DiskModel model, std::uint64_t seed) {
    const std::lock_guard guard(machine_->mutex);
    machine_->disk.lose_power(model, seed);
    machine_->end_process();
    machine_->disk.sweep(machine_->open);
    machine_->note("restart", "", "");
}

void CrashingFs::kill_process() {
    const std::lock_guard guard(machine_->mutex);
    machine_->end_process();
    machine_->note("kill", "", "");
}

std::unique_ptr<CrashingFs> CrashingFs::copy() const {
    const std::lock_guard guard(machine_->mutex);
    auto other = std::make_unique<CrashingFs>();
    other->machine_->disk = machine_->disk;
    other->machine_->crashed = machine_->crashed;
    other->machine_->lines = machine_->lines;
    return other;
}

std::map<std::string, std::string> CrashingFs::files() const {
    const std::lock_guard guard(machine_->mutex);
    std::map<std::string, std::string> found;
    machine_->collect_files(kRoot, "", found);
    return found;
}

std::optional<std::string> CrashingFs::read_raw(const std::string& path) const {
    const std::lock_guard guard(machine_->mutex);
    NodeId at = kRoot;
    for (const std::string& part : components(path)) {
        at = machine_->names_of(at).find(part);
        if (at == kNothing) return std::nullopt;
    }
    if (machine_->disk.node(at).directory) return std::nullopt;
    return machine_->disk.node(at).content.bytes();
}

void CrashingFs::write_raw(const std::string& path, std::string_view bytes) {
    const std::lock_guard guard(machine_->mutex);
    const NodeId file = machine_->make_durable_name(path);
    machine_->disk.node(file).content = FileContent(bytes);
}

std::string CrashingFs::trace() const {
    const std::lock_guard guard(machine_->mutex);
    std::string text;
    for (const TraceLine& line : machine_->lines) {
        text += std::to_string(line.number) + " " + std::string(line.name);
        if (!line.path.empty()) text += " " + line.path;
        if (!line.outcome.empty()) text += ": " + std::string(line.outcome);
        text += '\n';
    }
    return text;
}

}  // namespace rouse::testing
