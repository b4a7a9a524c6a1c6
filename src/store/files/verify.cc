#include "store/files/verify.h"

#include <algorithm>
#include <map>
#include <set>

#include "domain/audit.h"
#include "store/files/file_store.h"
#include "store/files/format.h"
#include "store/files/packs.h"
#include "store/files/views.h"

namespace rouse {
namespace {

using files::IndexRow;
using files::JournalPosition;
using files::Layout;
using files::LogTip;
using files::SessionIndex;

class Verifier {
 public:
    Verifier(Fs& fs, Layout layout) : fs_(fs), layout_(std::move(layout)) {}

    Result<VerifyReport> run() {
        read_index();
        if (Result<void> read = read_journal(); !read) return read.error();
        if (Result<void> listed = list_logs(); !listed) return listed.error();
        for (const SessionId& id : ids_)
            check_log(id);
        check_leftover_views();
        return std::move(report_);
    }

 private:
    void find(FindingKind kind, const std::string& file, std::uint64_t line, std::uint64_t offset,
              std::string what) {
        report_.findings.push_back({kind, file, line, offset, std::move(what)});
    }

    void read_index() {
        const Result<std::string> text = fs_.read_file(layout_.index());
        if (!text) {
            if (text.error().kind != ErrorKind::not_found) {
                find(FindingKind::damage, layout_.index(), 0, 0, text.error().message);
            }
            return;
        }
        Result<SessionIndex> index = SessionIndex::parse(*text, checkpoint_);
        if (!index) {
            return find(FindingKind::stale, layout_.index(), 0, 0, index.error().message);
        }
        index_ = *std::move(index);
        has_index_ = true;
        if (index_.file_bytes() < text->size()) {
            find(FindingKind::stale, layout_.index(), 0, index_.file_bytes(),
                 "its last part is not whole: cut by a crash, or damaged; the next start or "
                 "--repair "
                 "writes it anew");
        }
        index_.visit_newest_first([&](const IndexRow& row) {
            ids_.insert(row.session.id);
            return true;
        });
    }

    Result<void> read_journal() {
        const Result<bool> there = files::has_position(fs_, layout_, checkpoint_);
        if (!there) return there.error();
        if (!*there) {
            find(FindingKind::damage, layout_.segment(checkpoint_.segment), 0, 0,
                 "the file is missing or cut; what was committed behind the last checkpoint is "
                 "lost");
        }
        const auto on_group = [&](const JournalPosition& at,
                                  std::string_view payload) -> Result<void> {
            ++report_.journal_groups;
            if (at.group <= checkpoint_.group) return {};
            const Result<std::vector<files::JournalCommit>> commits = files::parse_payload(payload);
            if (!commits) {
                find(FindingKind::damage, layout_.segment(at.segment), 0, at.offset,
                     commits.error().message);
                return {};
            }
            for (const files::JournalCommit& commit : *commits) {
                for (const files::JournalPart& part : commit.parts) {
                    unwritten_[part.log].emplace_back(part.first, part.lines);
                    ids_.insert(part.log);
                    if (part.log == system_log()) note_tombstones(part);
                }
            }
            return {};
        };
        const Result<files::ReplayEnd> end =
            files::Journal::replay(fs_, layout_, JournalPosition{}, on_group);
        if (!end) return end.error();
        for (const files::JournalDamage& damage : end->damage) {
            const bool covered = damage.lost_group <= checkpoint_.group;
            find(covered ? FindingKind::note : FindingKind::damage, layout_.segment(damage.segment),
                 0, damage.offset,
                 "sync group " + std::to_string(damage.lost_group) + " is damaged" +
                     (covered ? "; the logs have what was in it" : ""));
        }
        if (end->torn) {
            find(FindingKind::note, layout_.segment(end->torn->segment), 0, end->torn->offset,
                 "a sync group was cut short; the next opening cuts it off");
        }
        return {};
    }

    void note_tombstones(const files::JournalPart& part) {
        for (const std::string& line :
             files::slice_lines(part.lines, part.first, part.first, SIZE_MAX)) {
            const Result<Record> record = parse_record(line);
            const auto* gone = record ? std::get_if<SessionDeleted>(&record->body) : nullptr;
            if (gone != nullptr) tombstones_.insert(gone->session_id);
        }
    }

    Result<void> list_logs() {
        const Result<std::vector<std::string>> names = fs_.list(layout_.sessions());
        if (!names) return names.error();
        for (const std::string& name : *names) {
            if (const std::optional<SessionId> id = Layout::session_of_log(name)) ids_.insert(*id);
        }
        return has_index_ ? Result<void>() : list_packed();
    }

    // Of an index that is lost: what it would have said.
    Result<void> list_packed() {
        const Result<std::vector<std::uint64_t>> packs = files::list_packs(fs_, layout_);
        if (!packs) return packs.error();
        for (const std::uint64_t number : *packs) {
            const Result<std::string> text = fs_.read_file(layout_.pack(number));
            if (!text) return text.error();
            const files::PackText pack = files::read_pack(*text);
            if (pack.has_strays) {
                find(FindingKind::damage, layout_.pack(number), 0, 0,
                     "it has lines that belong to no log");
            }
            for (const files::PackText::Log& log : pack.logs) {
                ids_.insert(log.id);
                packed_[log.id] = {{number, log.at}, log.text.size()};
            }
        }
        return {};
    }

    // Counts lines for people while the chain is followed.
    struct Walk {
        std::string path;
        LogTip tip;
        LogAudit audit;
        std::map<Seq, SessionState> wanted;  // states to keep for the views, by their seq
    };

    Result<void> walk(std::string_view text, Walk& log) {
        return files::read_lines(text, log.tip, [&](const Record& record, std::string_view) {
            ++report_.records;
            if (const std::optional<std::string> problem = log.audit.check(record)) {
                find(FindingKind::damage, log.path, record.seq, log.tip.bytes, *problem);
            }
            const auto wanted = log.wanted.find(record.seq);
            if (wanted != log.wanted.end()) wanted->second = log.audit.state();
        });
    }

    void check_log(const SessionId& id) {
        if (id != system_log()) ++report_.sessions;
        const std::optional<IndexRow> row = index_.find(id);
        const bool gone = index_.deleted_at(id).has_value();
        const bool touched = unwritten_.contains(id);
        Walk log{layout_.log(id), LogTip::start_of(id), LogAudit(id), {}};
        const std::optional<SessionState> snapshot = read_snapshot(id, touched);
        if (snapshot) log.wanted.emplace(snapshot->last_seq, SessionState{});
        if (row) log.wanted.emplace(row->session.last_seq, SessionState{});
        // All that the deletion of a damaged session leaves.
        if (row && tombstones_.contains(id) && !journal_deletes(id)) {
            return find(FindingKind::note, log.path, 0, 0,
                        "damaged, and deleted; the next opening takes note of it");
        }
        if (row && row->damaged) {
            find(FindingKind::damage, row->damaged->file, 0, row->damaged->offset,
                 "set aside: " + row->damaged->reason);
            return;
        }
        Result<std::string> text = read_text(id, row, log.path);
        if (!text && text.error().kind != ErrorKind::not_found) {
            return find(FindingKind::damage, log.path, 0, 0, text.error().message);
        }
        const std::string whole = text ? *std::move(text) : std::string();
        if (gone && !touched) {
            return find(FindingKind::stale, log.path, 0, 0, "the session was deleted");
        }
        if (whole.empty() && row && journal_deletes(id)) {
            return find(FindingKind::note, log.path, 0, 0,
                        "the session was deleted; the next opening takes note of it");
        }
        if (!check_file(whole, row, touched, log) || !check_unwritten(id, log)) return;
        if (id == system_log() || log.audit.state().deleted) return;
        if (row && log.tip.last >= row->session.last_seq) check_row(*row, log);
        check_views(id, snapshot, touched, log);
    }

    // As much as there is of it: its file, or its part of a pack. A blanked one is gone.
    Result<std::string> read_text(const SessionId& id, const std::optional<IndexRow>& row,
                                  std::string& path) {
        std::optional<files::PackedLog> packed;
        if (row && row->packed) packed = files::PackedLog{*row->packed, row->bytes};
        if (!has_index_ && packed_.contains(id)) {
            const Result<FileStatus> own = fs_.status(path);
            if (!own || own->size < packed_.at(id).bytes) packed = packed_.at(id);
        }
        if (!packed) return fs_.read_file(path);
        path = layout_.pack(packed->place.pack);
        const Result<std::unique_ptr<File>> file = fs_.open(path, OpenMode::read);
        if (!file) return file.error();
        Result<std::string> text = (*file)->read_at(packed->place.at, packed->bytes);
        if (text && files::is_blanked(*text)) text->clear();
        return text;
    }

    // A checkpoint that was cut may have removed the file before the index knew.
    bool journal_deletes(const SessionId& id) const {
        const auto parts = unwritten_.find(id);
        if (parts == unwritten_.end()) return false;
        const auto& [first, text] = parts->second.back();
        const std::vector<std::string> lines = files::slice_lines(text, first, first, SIZE_MAX);
        const Result<Record> last = parse_record(lines.empty() ? "" : lines.back());
        return last && std::holds_alternative<SessionDeleted>(last->body);
    }

    // The file as far as it counts. False: there is no use in looking further.
    bool check_file(const std::string& whole, const std::optional<IndexRow>& row, bool touched,
                    Walk& log) {
        const std::uint64_t known = row ? row->bytes : (has_index_ ? 0 : whole.size());
        if (whole.size() < known) {
            find(FindingKind::damage, log.path, 0, whole.size(),
                 "the file has " + std::to_string(whole.size()) + " bytes of " +
                     std::to_string(known));
            return false;
        }
        const Result<void> read = walk(std::string_view(whole).substr(0, known), log);
        if (!read) {
            const std::string_view rest = std::string_view(whole).substr(log.tip.bytes);
            const bool torn = !row && files::is_torn_tail(rest);
            find(torn ? FindingKind::stale : FindingKind::damage, log.path, log.tip.last + 1,
                 log.tip.bytes, torn ? "the last line was cut short" : read.error().message);
            return torn;
        }
        if (whole.size() > known) {
            find(touched ? FindingKind::note : FindingKind::stale, log.path, log.tip.last + 1,
                 known,
                 std::to_string(whole.size() - known) +
                     " bytes follow the end that the checkpoint knows");
        }
        return true;
    }

    bool check_unwritten(const SessionId& id, Walk& log) {
        for (const auto& [first, text] : unwritten_[id]) {
            std::string_view lines = text;
            for (Seq seq = first; seq <= log.tip.last && !lines.empty(); ++seq) {
                lines.remove_prefix(lines.find('\n') + 1);
            }
            const Result<void> read = walk(lines, log);
            if (read) continue;
            find(FindingKind::damage, log.path, log.tip.last + 1, log.tip.bytes,
                 "what the journal has does not follow: " + read.error().message);
            return false;
        }
        return true;
    }

    void check_row(const IndexRow& row, const Walk& log) {
        const SessionState& then = log.wanted.at(row.session.last_seq);
        if (summarize(then) == row.session) return;
        find(FindingKind::stale, layout_.index(), 0, 0,
             "the row of " + row.session.id.text() + " is not what its log says");
    }

    std::optional<SessionState> read_snapshot(const SessionId& id, bool touched) {
        if (id == system_log()) return std::nullopt;
        const std::string path = layout_.snapshot(id);
        const Result<std::string> text = fs_.read_file(path);
        if (!text) return std::nullopt;
        const std::string_view line = std::string_view(*text).substr(0, text->find('\n'));
        Result<SessionState> state = from_json<SessionState>(line, "the snapshot");
        if (state) return *std::move(state);
        find(touched ? FindingKind::note : FindingKind::stale, path, 0, 0, state.error().message);
        return std::nullopt;
    }

    // What a view must say when nothing was committed since; after a crash it may lag or be torn.
    void check_view(const std::string& path, const std::string& expected, FindingKind kind) {
        views_.insert(path);
        const Result<std::string> text = fs_.read_file(path);
        if (!text || *text != expected) find(kind, path, 0, 0, "the file is not what its log says");
    }

    // A session that came and went while there was much to do is its log alone.
    bool may_lack_snapshot(const SessionId& id, const SessionState& state) const {
        const Result<FileStatus> snapshot = fs_.status(layout_.snapshot(id));
        return !state.run_is_open() && !snapshot && snapshot.error().kind == ErrorKind::not_found;
    }

    void check_views(const SessionId& id, const std::optional<SessionState>& snapshot, bool touched,
                     const Walk& log) {
        const SessionState& state = log.audit.state();
        const FindingKind kind = touched ? FindingKind::note : FindingKind::stale;
        if (snapshot && snapshot->last_seq > log.tip.last) {
            find(FindingKind::stale, layout_.snapshot(id), 0, 0,
                 "the snapshot is ahead of the log");
        } else if (snapshot && *snapshot != log.wanted.at(snapshot->last_seq)) {
            find(kind, layout_.snapshot(id), 0, 0, "the snapshot is not what its log says");
        } else if (!touched && !may_lack_snapshot(id, state)) {
            check_view(layout_.snapshot(id), files::snapshot_text(state), kind);
        }
        if (files::has_open_token(state)) {
            check_view(layout_.tokens(id), files::tokens_text(state), kind);
        }
        for (const PendingCall& call : state.pending) {
            if (!is_open(call.status)) continue;
            check_view(layout_.pending(call.pending_id), files::pending_text(state, call), kind);
        }
        if (touched) touched_.insert(id);
    }

    // Views of calls that are long settled. After a crash they may still be there.
    void check_leftover_views() {
        const Result<std::vector<std::string>> names = fs_.list(layout_.pending());
        if (!names) return;
        for (const std::string& name : *names) {
            const std::string path = layout_.pending() + "/" + name;
            if (path == layout_.pending_index() || views_.contains(path)) continue;
            const std::string_view stem = std::string_view(name).substr(0, name.find('.'));
            const Result<SessionId> session = session_of(PendingId(std::string(stem)));
            const bool expected =
                session && (touched_.contains(*session) || unwritten_.contains(*session) ||
                            tombstones_.contains(*session));
            find(expected ? FindingKind::note : FindingKind::stale, path, 0, 0,
                 "no such call is open");
        }
    }

    Fs& fs_;
    Layout layout_;
    SessionIndex index_;
    bool has_index_ = false;
    JournalPosition checkpoint_;
    std::set<SessionId> ids_;
    std::map<SessionId, files::PackedLog> packed_;  // of a directory without an index
    // Behind the checkpoint, by log: the first seq and the lines of each part.
    std::map<SessionId, std::vector<std::pair<Seq, std::string>>> unwritten_;
    std::set<SessionId> tombstones_;  // behind the checkpoint
    std::set<SessionId> touched_;
    std::set<std::string> views_;
    VerifyReport report_;
};

Result<void> remove_pending_views(Fs& fs, const Layout& layout) {
    const Result<std::vector<std::string>> names = fs.list(layout.pending());
    if (!names) return names.error();
    for (const std::string& name : *names) {
        Result<void> removed = fs.remove(layout.pending() + "/" + name);
        if (!removed) return removed;
    }
    return {};
}

// Opening applies the journal and heals what a crash left; the rest can be computed from the logs.
// The index is never thrown away first: it alone knows that a log once was longer.
Result<void> repair(Env env, const std::string& directory) {
    FileStoreOptions options;
    options.threads = FileStoreOptions::Threads::none;
    Result<std::unique_ptr<FileStore>> store = FileStore::open(env, directory, options);
    if (!store) return store.error();
    Result<void> done = remove_pending_views(env.fs, Layout(directory));
    if (done) done = (*store)->rewrite();
    const Result<void> closed = (*store)->close();
    return done ? closed : done;
}

}  // namespace

bool VerifyReport::clean() const {
    return std::ranges::all_of(findings,
                               [](const Finding& f) { return f.kind == FindingKind::note; });
}

Result<VerifyReport> verify(Env env, const std::string& directory, VerifyMode mode) {
    const Layout layout(directory);
    if (Result<int> known = files::check_format(env.fs, layout); !known) return known.error();
    std::vector<std::string> repaired;
    if (mode == VerifyMode::repair) {
        const Result<VerifyReport> before = verify(env, directory, VerifyMode::look);
        if (!before) return before;
        if (Result<void> done = repair(env, directory); !done) return done.error();
        for (const Finding& finding : before->findings) {
            if (finding.kind == FindingKind::damage) continue;
            repaired.push_back(finding.file + ": " + finding.what);
        }
    }
    const Result<std::unique_ptr<FileLock>> lock = env.fs.lock(layout.lock());
    if (!lock) return lock.error();
    Result<VerifyReport> report = Verifier(env.fs, layout).run();
    if (report) report->repaired = std::move(repaired);
    return report;
}

}  // namespace rouse
