// FileStore's readers: states, lines, lists. They see what is durable, and nothing else.

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/digest.h"
#include "store/files/file_store.h"
#include "store/files/log_search.h"

namespace rouse {

using files::JournalPosition;
using files::LogTable;

namespace {

// system.json
struct SystemFile {
    Seq last_seq = 0;
    std::string line;          // SHA-256 of that record's line: which log this belongs to
    std::uint32_t crc32c = 0;  // of the state's text
    RawJson state;
    static constexpr auto fields() {
        using S = SystemFile;
        return std::tuple(required("last_seq", &S::last_seq), required("line", &S::line),
                          required("crc32c", &S::crc32c), required("state", &S::state));
    }
};

}  // namespace

bool FileStore::loads_slowly(const SessionId& log) {
    const auto lock = lock_table();
    const std::optional<files::IndexRow> row = table_.unread(log);
    return row && row->bytes >= limits::kLongLog;
}

Result<std::shared_ptr<const SessionState>> FileStore::load(const SessionId& log) {
    std::optional<files::IndexRow> row;
    {
        const auto lock = lock_table();
        row = table_.unread(log);
        if (!row || row->bytes < limits::kLongLog) return table_.load(log);
    }
    // Everybody else goes on while a long log is read.
    Result<LogTable::ReadLog> read = table_.read_log(log, *row);
    const auto lock = lock_table();
    std::shared_ptr<const SessionState> state;
    if (read) state = table_.keep(log, *row, *std::move(read));
    if (!state) return table_.load(log);
    return state;
}

Result<Seq> FileStore::last_seq(const SessionId& log) {
    const auto lock = lock_table();
    return table_.last_seq(log);
}

std::uint64_t FileStore::log_bytes(const SessionId& log) {
    const auto lock = lock_table();
    return table_.log_bytes(log);
}

std::string FileStore::task_of(const SessionId& log) {
    const auto lock = lock_table();
    return table_.task_of(log);
}

Result<std::vector<std::string>> FileStore::read(const SessionId& log, Seq from, ReadLimit limit) {
    Result<LogTable::Extent> extent = LogTable::Extent{};
    {
        const auto lock = lock_table();
        extent = table_.extent(log);
    }
    if (!extent) return extent.error();
    const auto in_tail = static_cast<Seq>(std::ranges::count(extent->tail, '\n'));
    const Seq first_in_tail = extent->last + 1 - std::min(in_tail, extent->last);
    if (extent->last > 0 && from >= first_in_tail) {
        return files::slice_lines(extent->tail, first_in_tail, from, limit);
    }
    // The file only grows, so what is known to be written can be read without the lock.
    Result<std::vector<std::string>> lines = files::find_lines(
        env_.fs, files::place_of(layout_, log, extent->packed), extent->written, from, limit);
    bool has_moved = false;
    if (extent->packed) {
        const auto lock = lock_table();
        has_moved = !table_.is_packed_at(log, *extent->packed);
    }
    if (has_moved) return read(log, from, limit);
    if (!lines) return lines;
    const std::size_t bytes = total_bytes(*lines);
    if (limit.is_reached(lines->size(), bytes)) return lines;
    const ReadLimit rest(limit.items - lines->size(), limit.bytes - bytes);
    std::ranges::move(files::slice_lines(extent->tail, first_in_tail, first_in_tail, rest),
                      std::back_inserter(*lines));
    return lines;
}

std::vector<SessionSummary> FileStore::list(const SessionFilter& filter) {
    std::vector<SessionSummary> found;
    const auto take = [&](const files::IndexRow& row) {
        if (row.session.id == system_log() || !matches(filter, row.session)) return true;
        if (found.size() < filter.limit) found.push_back(row.session);
        return found.size() < filter.limit;
    };
    const auto lock = lock_table();
    table_.visit_rows(filter, take);
    return found;
}

std::vector<OpenPending> FileStore::pending(const PendingFilter& filter) {
    std::vector<OpenPending> found;
    const auto add = [&](const files::IndexRow& row) {
        const auto first = static_cast<std::ptrdiff_t>(found.size());
        for (const PendingSummary& call : row.session.pending) {
            if (matches(filter, row.session, call)) found.push_back({row.session.id, call});
        }
        std::ranges::sort(
            found.begin() + first, found.end(), {},
            [](const OpenPending& one) -> const PendingId& { return one.call.pending_id; });
        return found.size() < filter.limit;
    };
    const auto lock = lock_table();
    if (filter.session) {
        if (const auto row = table_.index().find(*filter.session)) add(*row);
    } else {
        const Result<SessionId> after = session_of(filter.after);
        table_.index().visit_active([&](const files::RowInPlace& row) { return add(row.row()); },
                                    files::RowSieve(filter),
                                    after ? std::max(*after, filter.from) : filter.from);
    }
    if (found.size() > filter.limit) found.resize(filter.limit);
    return found;
}

// Only rows that come to be among the first ones are parsed.
std::vector<SessionSummary> FileStore::waits(const WaitFilter& filter) {
    std::vector<SessionSummary> first;  // a heap: the last of them in front
    const auto comes_before = [](const SessionSummary& a, const SessionSummary& b) {
        return wait_position(a) < wait_position(b);
    };
    const auto keep_first = [&](const files::RowInPlace& row) {
        if (!row.wait_kind()) return true;
        const std::pair place(row.deadline_at().value_or(Timestamp::max()), row.id());
        const auto is_behind = [&](const WaitPosition& other) {
            return place > std::pair(other.deadline, std::string_view(other.id.text()));
        };
        if (filter.after && !is_behind(*filter.after)) return true;
        const bool full = first.size() >= filter.limit;
        if (full && (first.empty() || is_behind(wait_position(first.front())))) return true;
        SessionSummary session = row.row().session;
        if (!matches(filter, session)) return true;
        if (full) {
            std::ranges::pop_heap(first, comes_before);
            first.pop_back();
        }
        first.push_back(std::move(session));
        std::ranges::push_heap(first, comes_before);
        return true;
    };
    const auto lock = lock_table();
    table_.index().visit_active(keep_first, files::RowSieve(filter));
    std::ranges::sort_heap(first, comes_before);
    return first;
}

std::map<WaitKind, WaitCount> FileStore::count_waits() {
    std::map<WaitKind, WaitCount> counts;
    const auto count = [&](const files::RowInPlace& row) {
        const std::optional<WaitKind> kind = row.wait_kind();
        if (!kind) return true;
        WaitCount& so_far = counts[*kind];
        ++so_far.waits;
        so_far.oldest = std::min(so_far.oldest, row.updated_at().value_or(Timestamp::max()));
        return true;
    };
    const auto lock = lock_table();
    table_.index().visit_active(count);
    return counts;
}

void FileStore::visit_active(const std::function<void(const SessionSummary&)>& visit) {
    const auto lock = lock_table();
    table_.index().visit_active([&](const files::RowInPlace& row) {
        visit(row.row().session);
        return true;
    });
}

Result<std::vector<CommittedLines>> FileStore::read_commits(Cursor after, ReadLimit limit) {
    // What is in the journal and not in the table yet is told by and by, and nobody could say whose
    // sessions those are.
    JournalPosition end;
    {
        const auto lock = lock_table();
        end = applied_;
    }
    if (after.epoch > end.epoch || after.group > end.group) {
        return Error(ErrorKind::precondition, "cursor_ahead",
                     "the journal ends before this cursor");
    }
    std::vector<CommittedLines> found;
    std::size_t bytes = 0;
    const Error enough(ErrorKind::cancelled, "enough", "");
    const auto on_group = [&](const JournalPosition& at, std::string_view payload) -> Result<void> {
        if (at.group > end.group) return enough;
        Result<std::vector<files::JournalCommit>> commits = files::parse_payload(payload);
        if (!commits) return commits.error();
        std::uint32_t index = 0;
        for (const files::JournalCommit& commit : *commits) {
            CommittedLines lines{{at.epoch, at.group, index++}, {}};
            if (lines.cursor.group == after.group && lines.cursor.index <= after.index) continue;
            if (limit.is_reached(found.size(), bytes)) return enough;
            for (const files::JournalPart& part : commit.parts) {
                lines.parts.push_back(
                    {part.log, files::slice_lines(part.lines, part.first, part.first,
                                                  std::numeric_limits<std::size_t>::max())});
            }
            bytes += total_bytes(lines);
            found.push_back(std::move(lines));
        }
        return {};
    };
    // The cursor's own group is read again: commits behind it may share that group.
    const std::uint64_t after_group = after.group == 0 ? 0 : after.group - 1;
    const Result<void> read = journal_.read(after_group, on_group);
    if (!read && read.error() != enough) return read.error();
    return found;
}

std::optional<SystemView> FileStore::system_view() {
    const Result<std::string> text = env_.fs.read_file(layout_.snapshot(system_log()));
    if (!text) return std::nullopt;
    Result<SystemFile> file = from_json<SystemFile>(*text, "system.json");
    if (!file || crc32c(file->state.text()) != file->crc32c) return std::nullopt;
    const Result<std::vector<std::string>> line = read(system_log(), file->last_seq, 1);
    const bool ours = line && line->size() == 1 && sha256_hex(line->front()) == file->line;
    if (!ours) return std::nullopt;
    return SystemView{file->last_seq, std::move(file->state)};
}

Result<void> FileStore::save_system_view(const SystemView& view) {
    if (full_) return disk_full();
    const Result<std::vector<std::string>> line = read(system_log(), view.last_seq, 1);
    if (!line) return line.error();
    if (line->empty()) {
        return Error(ErrorKind::precondition, "view_ahead", "the system log ends before its view");
    }
    SystemFile file;
    file.last_seq = view.last_seq;
    file.line = sha256_hex(line->front());
    file.crc32c = crc32c(view.state.text());
    file.state = view.state;
    return env_.fs.replace_file(layout_.snapshot(system_log()), to_json(file));
}

StoreHealth FileStore::health() {
    StoreHealth health;
    const auto lock = lock_table();
    health.full = full_;
    health.accepting = !failure_ && !full_;
    if (full_) health.problem = "the disk is full";
    if (failure_) health.problem = failure_->message;
    health.damaged = table_.damaged();
    return health;
}

}  // namespace rouse
