// Opening a data directory: what the last checkpoint says, what the journal has beyond it, and what
// a crash may have left half done.

#include <algorithm>
#include <limits>
#include <map>

#include "domain/fold.h"
#include "store/files/file_store.h"
#include "store/files/format.h"
#include "store/files/packs.h"

namespace rouse {
namespace {

using files::IndexRow;
using files::JournalPart;
using files::JournalPosition;
using files::Layout;
using files::LogTable;
using files::LogTip;
using files::OpenLog;
using files::SessionIndex;

Result<void> make_directories(Fs& fs, const Layout& layout) {
    for (const std::string& path : {layout.sessions(), layout.packs(), layout.pending(),
                                    layout.journal(), layout.damaged()}) {
        if (Result<void> made = fs.make_directory(path); !made) return made;
    }
    return fs.sync_directory(layout.root());
}

// The format is written last: whatever has none is not a data directory yet.
Result<void> make_or_check(Fs& fs, const Layout& layout) {
    const Result<int> known = files::check_format(fs, layout);
    const bool is_new = !known && known.error().reason == "not_a_data_directory";
    if (!known && !is_new) return known.error();
    if (Result<void> made = make_directories(fs, layout); !made) return made;
    return is_new || *known < files::kFormatVersion ? files::write_format(fs, layout)
                                                    : Result<void>();
}

}  // namespace

class FileStore::Opener {
 public:
    explicit Opener(FileStore& store)
        : store_(store), env_(store.env_), layout_(store.layout_), table_(store.table_) {}

    Result<void> run() {
        if (Result<void> done = read_index(); !done) return done;
        Result<files::ReplayEnd> end = files::Journal::replay(
            env_.fs, layout_, store_.covered_,
            [this](const JournalPosition&, std::string_view payload) { return replay(payload); });
        if (!end) return end.error();
        if (Result<void> done = set_missing_aside(); !done) return done;
        if (Result<void> done = set_suspects_aside(); !done) return done;
        if (Result<void> done = cut_logs(); !done) return done;
        for (const files::JournalDamage& damage : end->damage) {
            if (Result<void> done = keep_damaged_group(damage); !done) return done;
        }
        if (Result<void> done = store_.journal_.start(*end); !done) return done;
        store_.rested_ = store_.covered_;
        store_.applied_ = end->position;
        store_.applied_.segment = store_.journal_.position().segment;
        store_.applied_.offset = store_.journal_.position().offset;
        if (Result<void> done = make_reserve(); !done) return done;
        table_.finish_replay();
        if (!rebuilt_ && !part_cut_ && !journal_missing_) return {};
        const Result<void> written = store_.checkpoint();
        const bool can_wait = !rebuilt_ && store_.full_;  // until there is room
        return can_wait ? Result<void>() : written;
    }

 private:
    Result<void> read_index() {
        Result<std::string> text = env_.fs.read_file(layout_.index());
        if (text) {
            const std::uint64_t bytes = text->size();
            JournalPosition covered;
            Result<SessionIndex> index = SessionIndex::parse(*std::move(text), covered);
            if (index) {
                const Result<void> reached = check_journal_reaches(covered);
                if (!reached) index = reached.error();
            }
            if (index) {
                if (index->file_bytes() < bytes) {
                    env_.log.warn("index.part_cut", {{"offset", index->file_bytes()}});
                    part_cut_ = true;
                }
                const Result<bool> there = files::has_position(env_.fs, layout_, covered);
                if (!there) return there.error();
                if (!*there) {
                    journal_missing_ = true;
                    env_.log.error("journal.missing", {{"file", layout_.segment(covered.segment)}});
                }
                store_.covered_ = covered;
                table_.adopt(*std::move(index));
                return table_.read_damage_reports();
            }
            env_.log.error("index.damaged", {{"error", index.error().message}});
            const std::string aside = layout_.damaged() + "/index.ckpt";
            if (Result<void> kept = env_.fs.rename(layout_.index(), aside); !kept) return kept;
        } else if (text.error().kind != ErrorKind::not_found) {
            return text.error();
        }
        return rebuild_index();
    }

    // A part that is not whole was being written when the power went: the one before it counts, and
    // the journal has all that came behind that. If it has not, somebody relied on that part.
    Result<void> check_journal_reaches(const JournalPosition& covered) {
        const Result<std::vector<std::uint64_t>> segments = files::list_segments(env_.fs, layout_);
        if (!segments) return segments.error();
        if (segments->empty() || segments->front() <= std::max<std::uint64_t>(covered.segment, 1)) {
            return {};
        }
        // Segments in which nothing was written since are no evidence: it is the journal whose end
        // is missing then, not the index's.
        bool goes_on = covered.segment == 0;
        for (const std::uint64_t number : *segments) {
            const Result<std::uint64_t> first = files::first_group_of(env_.fs, layout_, number);
            if (!first) return first.error();
            goes_on = goes_on || *first > covered.group;
        }
        if (!goes_on) return {};
        return Error(ErrorKind::corrupt, "damaged_index",
                     "index.ckpt: the end is damaged or missing; the journal begins behind what is "
                     "left of it");
    }

    // Without an index every log is read from its start. Slow, and only after a loss: a new
    // directory gets its first index before the first commit, because bytes of a log prove nothing
    // without one.
    Result<void> rebuild_index() {
        rebuilt_ = true;
        const Result<std::vector<std::string>> names = env_.fs.list(layout_.sessions());
        if (!names) return names.error();
        if (Result<void> done = rebuild_log(system_log()); !done) return done;
        if (Result<void> done = rebuild_packs(); !done) return done;
        for (const std::string& name : *names) {
            const std::optional<SessionId> id = Layout::session_of_log(name);
            if (!id || table_.is_deleted(*id)) continue;
            if (Result<void> done = rebuild_log(*id); !done) return done;
        }
        return {};
    }

    Result<void> rebuild_packs() {
        const Result<std::vector<std::uint64_t>> packs = files::list_packs(env_.fs, layout_);
        if (!packs) return packs.error();
        for (const std::uint64_t number : *packs) {
            const Result<std::string> text = env_.fs.read_file(layout_.pack(number));
            if (!text) return text.error();
            const files::PackText pack = files::read_pack(*text);
            bool is_whole = !pack.has_strays;
            for (const files::PackText::Log& log : pack.logs)
                is_whole = rebuild_packed(number, log) && is_whole;
            if (is_whole) continue;
            const std::string kept =
                layout_.damaged() + "/pack-" + std::to_string(number) + ".jsonl";
            if (Result<void> saved = env_.fs.replace_file(kept, *text); !saved) return saved;
            env_.log.error("pack.damaged", {{"file", layout_.pack(number)}, {"kept", kept}});
        }
        return {};
    }

    // False: the log does not follow to its end. It may be one that the journal still has.
    bool rebuild_packed(std::uint64_t number, const files::PackText::Log& packed) {
        OpenLog log;
        SessionState& state = log.state.change();
        log.tip = LogTip::start_of(packed.id);
        const Result<void> read =
            files::read_lines(packed.text, log.tip,
                              [&](const Record& record, std::string_view) { fold(state, record); });
        const LogTip tip = log.tip;
        if (table_.is_deleted(packed.id) || !goes_further(packed.id, tip)) return read.has_value();
        log.tail = packed.text.substr(0, tip.bytes);
        table_.adopt_log(packed.id, std::move(log));
        suspects_.erase(packed.id);
        const std::string report = report_of(packed.id);
        const Damage here{layout_.pack(number), packed.at + tip.bytes, ""};
        const Result<Damage> known = from_json<Damage>(report, "the report of damage");
        const bool was_set_aside =
            known && known->file == here.file && known->offset == here.offset;
        if (!read) suspects_[packed.id] = {tip.last, read.error().message};
        if (was_set_aside) suspects_[packed.id] = {tip.last, known->reason};
        return read.has_value();
    }

    bool goes_further(const SessionId& id, const LogTip& tip) {
        const Result<Seq> known = table_.last_seq(id);
        return known ? *known < tip.last : known.error().reason == "unknown_session";
    }

    // The first line of what was reported of the session, if anything.
    std::string report_of(const SessionId& id) {
        const Result<std::string> report =
            env_.fs.read_file(layout_.damaged() + "/" + id.text() + ".json");
        return report ? report->substr(0, report->find('\n')) : std::string();
    }

    // What is left of a log in a damaged pack, unless the journal had the rest.
    Result<void> set_suspects_aside() {
        for (const auto& [id, suspect] : suspects_) {
            const auto log = table_.open_logs().find(id);
            if (log == table_.open_logs().end() || log->second.tip.last != suspect.last) continue;
            const Damage damage{layout_.log(id), log->second.tip.bytes, suspect.reason};
            if (Result<void> done = table_.set_aside(id, damage, {}); !done) return done;
        }
        return {};
    }

    Result<void> rebuild_log(const SessionId& id) {
        const std::string path = layout_.log(id);
        const Result<std::string> text = env_.fs.read_file(path);
        if (!text && text.error().kind == ErrorKind::not_found) return {};
        if (!text) return text.error();
        OpenLog log;
        SessionState& state = log.state.change();
        log.tip = LogTip::start_of(id);
        std::vector<std::pair<SessionId, Timestamp>> tombstones;
        const Result<void> read =
            files::read_lines(*text, log.tip, [&](const Record& record, std::string_view) {
                fold(state, record);
                const auto* gone = std::get_if<SessionDeleted>(&record.body);
                const bool counts = record.at >= env_.clock.now() - limits::kTombstone;
                if (gone != nullptr && !gone->session_id.empty() && counts) {
                    tombstones.emplace_back(gone->session_id, record.at);
                }
            });
        const std::string_view rest = std::string_view(*text).substr(log.tip.bytes);
        const bool torn = !read && files::is_torn_tail(rest);
        if (torn) {
            if (Result<void> cut = cut_torn_line(id, path, log.tip.bytes, rest); !cut) return cut;
        }
        if (log.tip.last == 0 && (read || torn)) return {};  // made, and never written to
        const std::uint64_t good_bytes = log.tip.bytes;
        if (table_.open_logs().contains(id)) {
            // A pack has it, too, and counts if the move to this file was cut short.
            if (!goes_further(id, log.tip)) {
                return read || torn ? Result<void>() : keep_rest(id, good_bytes, rest);
            }
            suspects_.erase(id);
        }
        table_.adopt_log(id, std::move(log));
        for (const auto& [session, at] : tombstones)
            table_.adopt_tombstone(session, at);
        if (!read && !torn) {
            return table_.set_aside(id, {path, good_bytes, read.error().message}, {});
        }
        return set_aside_again(id, good_bytes);
    }

    // Records of it may be missing though its log is whole as far as it goes: an earlier process
    // said so. A log that ends elsewhere is another life's, made again after it was deleted.
    Result<void> set_aside_again(const SessionId& id, std::uint64_t good_bytes) {
        const Result<std::string> report =
            env_.fs.read_file(layout_.damaged() + "/" + id.text() + ".json");
        if (!report && report.error().kind == ErrorKind::not_found) return {};
        if (!report) return report.error();
        const std::string_view line = std::string_view(*report).substr(0, report->find('\n'));
        const Result<Damage> damage = from_json<Damage>(line, "the report of damage");
        if (damage && damage->offset != good_bytes) return {};
        return table_.set_aside(
            id, damage ? *damage : Damage{layout_.log(id), good_bytes, damage.error().message}, {});
    }

    Result<void> keep_rest(const SessionId& id, std::uint64_t at, std::string_view rest) {
        const std::string kept =
            layout_.damaged() + "/" + id.text() + "-" + std::to_string(at) + ".torn";
        if (Result<void> saved = env_.fs.replace_file(kept, rest); !saved) return saved;
        env_.log.warn("log.torn_tail_cut",
                      {{"file", layout_.log(id)}, {"offset", at}, {"kept", kept}});
        return {};
    }

    Result<void> cut_torn_line(const SessionId& id, const std::string& path, std::uint64_t at,
                               std::string_view rest) {
        if (Result<void> kept = keep_rest(id, at, rest); !kept) return kept;
        Result<std::unique_ptr<File>> file = env_.fs.open(path, OpenMode::write);
        if (!file) return file.error();
        if (Result<void> cut = (*file)->truncate(at); !cut) return cut;
        return (*file)->sync();
    }

    Result<void> replay(std::string_view payload) {
        const Result<std::vector<files::JournalCommit>> commits = files::parse_payload(payload);
        if (!commits) return commits.error();
        for (const files::JournalCommit& commit : *commits) {
            for (const JournalPart& part : commit.parts) {
                if (Result<void> done = replay(part); !done) return done;
            }
        }
        return {};
    }

    Result<void> replay(const JournalPart& part) {
        // Behind an index that knows it as deleted, its first record is of another life.
        if (part.first == 1 && !rebuilt_ && table_.is_deleted(part.log)) table_.adopt_new(part.log);
        const Result<bool> missing = table_.file_is_missing(part.log);
        if (!missing) return missing.error();
        if (*missing) return replay_missing(part);
        Result<OpenLog*> open = table_.open(part.log, LogTable::IfMissing::create);
        if (!open) return replay_refused(part, open.error());
        OpenLog& log = **open;
        std::string_view lines = part.lines;
        for (Seq seq = part.first; seq <= log.tip.last && !lines.empty(); ++seq) {
            lines.remove_prefix(lines.find('\n') + 1);  // the log has this one already
        }
        LogTip tip = log.tip;
        const Result<void> read = files::read_lines(
            lines, tip,
            [&](const Record& record, std::string_view) { table_.fold_into(log, record); });
        if (read) {
            log.tip = tip;
            table_.append_tail(log, lines);
            return {};
        }
        // A group is missing in between: what follows it cannot be appended, and is kept.
        const Damage damage{layout_.log(part.log), log.tip.bytes, read.error().message};
        unappended_[part.log] = lines;
        return table_.set_aside(part.log, damage, lines);
    }

    // A checkpoint removes the files of a deleted session before its index says that it is gone.
    // Cut in between, the journal still has the deletion; without one the log is lost.
    Result<void> replay_missing(const JournalPart& part) {
        missing_[part.log] += part.lines;
        const std::vector<std::string> lines = files::slice_lines(
            part.lines, part.first, part.first, std::numeric_limits<std::size_t>::max());
        if (lines.empty()) return {};
        const Result<Record> last = parse_record(lines.back());
        if (!last) return last.error();
        const bool deleted = std::holds_alternative<SessionDeleted>(last->body);
        if (deleted) table_.adopt_tombstone(part.log, last->at);
        return {};
    }

    Result<void> set_missing_aside() {
        for (const auto& [id, lines] : missing_) {
            if (table_.index().deleted_at(id)) continue;
            const std::optional<IndexRow> row = table_.index().find(id);
            const files::LogPlace place =
                files::place_of(layout_, id, row ? row->packed : std::nullopt);
            const Damage damage{place.file, place.at, "the log is missing"};
            unappended_[id] = lines;
            if (Result<void> done = table_.set_aside(id, damage, lines); !done) return done;
        }
        return {};
    }

    Result<void> replay_refused(const JournalPart& part, const Error& error) {
        if (error.reason == "session_gone") return {};
        if (error.reason != "session_damaged") return error;
        std::string& kept = unappended_[part.log];
        kept += part.lines;
        return env_.fs.replace_file(layout_.damaged() + "/" + part.log.text() + ".unappended.jsonl",
                                    kept);
    }

    // Bytes beyond what the checkpoint covers prove nothing: they go, and the journal refills them.
    Result<void> cut_logs() {
        for (const auto& [id, log] : table_.open_logs()) {
            const std::string path = layout_.log(id);
            const Result<FileStatus> status = env_.fs.status(path);
            if (!status && status.error().kind == ErrorKind::not_found) continue;
            if (!status) return status.error();
            if (log.written() == 0) {
                // Made since the checkpoint. A new file has a new name to sync, whatever became of
                // the sync of this one.
                if (Result<void> removed = env_.fs.remove(path); !removed) return removed;
                continue;
            }
            if (status->size <= log.written()) continue;
            Result<std::unique_ptr<File>> file = env_.fs.open(path, OpenMode::write);
            if (!file) return file.error();
            if (Result<void> cut = (*file)->truncate(log.written()); !cut) return cut;
        }
        return {};
    }

    Result<void> keep_damaged_group(const files::JournalDamage& damage) {
        const std::string kept = layout_.damaged() + "/journal-" + std::to_string(damage.segment) +
                                 "-" + std::to_string(damage.offset) + ".bad";
        env_.log.error("journal.damaged", {{"file", layout_.segment(damage.segment)},
                                           {"offset", damage.offset},
                                           {"lost_group", damage.lost_group},
                                           {"kept", kept}});
        return env_.fs.replace_file(kept, damage.bytes);
    }

    Result<void> make_reserve() {
        const Result<FileStatus> status = env_.fs.status(layout_.reserve());
        if (status && status->size >= store_.options_.reserve_bytes) return {};
        Result<std::unique_ptr<File>> file = env_.fs.open(layout_.reserve(), OpenMode::create);
        if (!file) return file.error();
        const Result<void> made = (*file)->allocate(store_.options_.reserve_bytes);
        if (!made) store_.note_failure(made.error());
        return {};
    }

    FileStore& store_;
    Env env_;
    const Layout& layout_;
    LogTable& table_;
    bool rebuilt_ = false;
    bool part_cut_ = false;
    bool journal_missing_ = false;
    // Logs that were rebuilt from a pack up to where they do not follow.
    struct Suspect {
        Seq last = 0;
        std::string reason;
    };
    std::map<SessionId, Suspect> suspects_;
    std::map<SessionId, std::string> unappended_;
    std::map<SessionId, std::string> missing_;  // what the journal has for logs without a file
};

Result<std::unique_ptr<FileStore>> FileStore::open(Env env, const std::string& directory,
                                                   FileStoreOptions options) {
    Layout layout(directory);
    if (Result<void> made = env.fs.make_directory(directory); !made) return made.error();
    if (Result<void> synced = env.fs.sync_directory(parent_directory(directory)); !synced) {
        return synced.error();
    }
    Result<std::unique_ptr<FileLock>> lock = env.fs.lock(layout.lock());
    if (!lock) return lock.error();
    Result<std::unique_ptr<FileSystem>> file_system = env.fs.file_system(directory);
    if (!file_system) return file_system.error();
    if (Result<void> right = make_or_check(env.fs, layout); !right) return right.error();
    std::unique_ptr<FileStore> store(
        new FileStore(env, std::move(layout), std::move(options), *std::move(lock)));
    store->file_system_ = *std::move(file_system);
    if (Result<void> opened = Opener(*store).run(); !opened) {
        store->fail(opened.error());  // so that closing it writes nothing
        return opened.error();
    }
    store->start_threads();
    return store;
}

}  // namespace rouse
