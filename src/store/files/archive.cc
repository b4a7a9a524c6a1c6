#include "store/files/archive.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "store/files/format.h"
#include "store/files/packs.h"

namespace rouse {
namespace {

using files::JournalPosition;
using files::Layout;
using files::LogTip;
using files::SessionIndex;

constexpr int kArchiveVersion = 1;

struct Opening {
    int version = 0;
    Timestamp at{};
    static constexpr auto fields() {
        return std::tuple(required("rouse_archive", &Opening::version),
                          required("at", &Opening::at));
    }
};

struct Entry {
    SessionId log;
    std::uint64_t records = 0;
    std::uint64_t bytes = 0;
    std::string chain;  // behind the last line
    static constexpr auto fields() {
        return std::tuple(required("log", &Entry::log), required("records", &Entry::records),
                          required("bytes", &Entry::bytes), required("chain", &Entry::chain));
    }
};

struct Ending {
    bool end = false;
    std::uint64_t logs = 0;
    std::uint64_t records = 0;
    static constexpr auto fields() {
        return std::tuple(required("end", &Ending::end), required("logs", &Ending::logs),
                          required("records", &Ending::records));
    }
};

// ---- writing --------------------------------------------------------------------------------

// A data directory at one moment: the index, and what the journal has behind it. A server may be at
// work there, so that both are read again until they fit.
class Picture {
 public:
    Picture(Fs& fs, const Layout& layout) : fs_(fs), layout_(layout) {}

    Result<void> take() {
        constexpr int kTries = 20;
        for (int i = 0; i < kTries; ++i) {
            const Result<bool> whole = try_to_take();
            if (!whole) return whole.error();
            if (*whole) return {};
        }
        return Error(ErrorKind::corrupt, "journal_damaged",
                     "the journal of " + layout_.root() +
                         " is damaged, or changes faster than it can be read: try again when the "
                         "server has less to do; rouse verify tells which it is");
    }

    std::set<SessionId> logs() const {
        std::set<SessionId> ids;
        index_.visit_newest_first([&](const files::IndexRow& row) {
            ids.insert(row.session.id);
            return true;
        });
        for (const auto& [id, parts] : unwritten_)
            ids.insert(id);
        return ids;
    }

    // Nothing comes behind a deletion, and until it is in the index it is in the journal; the file
    // may be gone already.
    bool is_deleted(const SessionId& id) const {
        const auto parts = unwritten_.find(id);
        if (parts == unwritten_.end() || id == system_log()) return false;
        std::string_view lines = parts->second.back().second;
        lines.remove_suffix(1);
        const Result<Record> last = parse_record(lines.substr(lines.rfind('\n') + 1));
        return last && std::holds_alternative<SessionDeleted>(last->body);
    }

    // The lines of a log as far as they are durable, proved by their chain; the text moves into
    // `lines`. corrupt: why it cannot be had.
    Result<LogTip> read(const SessionId& id, std::string& lines) const {
        lines.clear();
        const std::optional<files::IndexRow> row = index_.find(id);
        if (row && row->damaged) {
            return Error(ErrorKind::corrupt, "session_damaged", row->damaged->reason);
        }
        if (row) {
            const files::LogPlace place = files::place_of(layout_, id, row->packed);
            Result<std::unique_ptr<File>> file = fs_.open(place.file, OpenMode::read);
            if (!file) return file.error();
            Result<std::string> text = (*file)->read_at(place.at, row->bytes);
            if (!text) return text.error();
            if (row->packed && files::is_blanked(*text)) {
                return Error(ErrorKind::not_found, "log_moved", "its place in the pack is empty");
            }
            lines = *std::move(text);
        }
        LogTip tip = LogTip::start_of(id);
        const auto ignore = [](const Record&, std::string_view) {};
        if (Result<void> read = files::read_lines(lines, tip, ignore); !read) return read.error();
        if (row && tip.last != row->session.last_seq) {
            return Error(ErrorKind::corrupt, "log_too_short", "the file is shorter than it was");
        }
        const auto parts = unwritten_.find(id);
        if (parts == unwritten_.end()) return tip;
        for (const auto& [first, text] : parts->second) {
            std::string_view rest = text;
            for (Seq seq = first; seq <= tip.last && !rest.empty(); ++seq)
                rest.remove_prefix(rest.find('\n') + 1);
            if (Result<void> read = files::read_lines(rest, tip, ignore); !read) {
                return read.error();
            }
            lines += rest;
        }
        return tip;
    }

 private:
    // False: it changed under our eyes.
    Result<bool> try_to_take() {
        unwritten_.clear();
        Result<std::string> text = fs_.read_file(layout_.index());
        if (!text && text.error().kind != ErrorKind::not_found) return text.error();
        JournalPosition covered;
        index_ = SessionIndex();
        if (text) {
            Result<SessionIndex> index = SessionIndex::parse(*text, covered);
            if (!index) return index.error();
            index_ = *std::move(index);
        }
        const auto on_group = [&](const JournalPosition& at,
                                  std::string_view payload) -> Result<void> {
            if (at.group <= covered.group) return {};
            const Result<std::vector<files::JournalCommit>> commits = files::parse_payload(payload);
            if (!commits) return commits.error();
            for (const files::JournalCommit& commit : *commits) {
                for (const files::JournalPart& part : commit.parts)
                    unwritten_[part.log].emplace_back(part.first, part.lines);
            }
            return {};
        };
        const Result<files::ReplayEnd> end =
            files::Journal::replay(fs_, layout_, covered, on_group);
        if (!end && end.error().kind == ErrorKind::not_found) return false;  // recycled just now
        if (!end) return end.error();
        const Result<std::string> again = fs_.read_file(layout_.index());
        const bool same = again.has_value() == text.has_value() && (!text || *again == *text);
        return same && end->damage.empty();
    }

    Fs& fs_;
    const Layout& layout_;
    SessionIndex index_;
    // By log: the first seq and the lines of each part.
    std::map<SessionId, std::vector<std::pair<Seq, std::string>>> unwritten_;
};

// Appends to a file piece by piece.
class Writer {
 public:
    explicit Writer(std::unique_ptr<File> file) : file_(std::move(file)) {}

    Result<void> put(std::string_view bytes) {
        Result<void> written = file_->write_at(at_, bytes);
        at_ += bytes.size();
        return written;
    }
    Result<void> finish() {
        if (Result<void> synced = file_->sync(); !synced) return synced;
        return file_->close();
    }

 private:
    std::unique_ptr<File> file_;
    std::uint64_t at_ = 0;
};

// A log that is not where it was when the picture was taken. Nothing: it was deleted.
Result<std::optional<LogTip>> read_again(Fs& fs, const Layout& layout, const SessionId& id,
                                         std::string& lines) {
    Picture now(fs, layout);
    if (Result<void> taken = now.take(); !taken) return taken.error();
    if (now.is_deleted(id) || !now.logs().contains(id)) return std::optional<LogTip>();
    const Result<LogTip> tip = now.read(id, lines);
    if (!tip) return tip.error();
    return *tip;
}

Result<ArchiveReport> put_logs(Env env, const Layout& layout, const ArchiveWish& wish,
                               Writer& writer) {
    Picture picture(env.fs, layout);
    if (Result<void> taken = picture.take(); !taken) return taken.error();
    ArchiveReport report;
    std::uint64_t logs = 0;
    if (Result<void> put = writer.put(to_json(Opening{kArchiveVersion, env.clock.now()}) + "\n");
        !put) {
        return put.error();
    }
    std::set<SessionId> wanted(wish.only.begin(), wish.only.end());
    std::string lines;
    for (const SessionId& id : picture.logs()) {
        const bool system = id == system_log();
        if (system ? !wish.with_system_log : !wish.only.empty() && !wanted.contains(id)) continue;
        wanted.erase(id);
        if (picture.is_deleted(id)) {
            if (!wish.only.empty()) report.left_out.emplace_back(id, "it was deleted");
            continue;
        }
        Result<LogTip> tip = picture.read(id, lines);
        if (!tip && tip.error().kind == ErrorKind::not_found) {
            const Result<std::optional<LogTip>> now = read_again(env.fs, layout, id, lines);
            if (!now) tip = now.error();
            if (now && *now) tip = **now;
            if (now && !*now && wish.only.empty()) continue;
        }
        if (!tip) {
            report.left_out.emplace_back(id, tip.error().message);
            continue;
        }
        const Entry entry{id, tip->last, lines.size(), std::string(tip->chain.hex())};
        if (Result<void> put = writer.put(to_json(entry) + "\n"); !put) return put.error();
        if (Result<void> put = writer.put(lines); !put) return put.error();
        ++logs;
        report.sessions += system ? 0 : 1;
        report.records += tip->last;
    }
    if (!wanted.empty()) {
        return Error(ErrorKind::not_found, "unknown_session",
                     "there is no session " + wanted.begin()->text() + " in " + layout.root());
    }
    const Ending ending{true, logs, report.records};
    if (Result<void> put = writer.put(to_json(ending) + "\n"); !put) return put.error();
    return report;
}

// ---- reading --------------------------------------------------------------------------------

// Goes through an archive, one log at a time in memory.
class ArchiveReader {
 public:
    ArchiveReader(std::unique_ptr<File> file, std::string name)
        : file_(std::move(file)), name_(std::move(name)) {}

    using OnLog = std::function<Result<void>(const SessionId& log, std::string_view lines)>;
    Result<void> read(const OnLog& on_log) {
        const Result<std::string> first = line();
        if (!first) return first.error();
        const Result<Opening> opening = from_json<Opening>(*first, "the first line");
        if (!opening) return not_an_archive(opening.error().message);
        if (opening->version != kArchiveVersion) {
            return not_an_archive("it is of version " + std::to_string(opening->version) +
                                  ", and this program knows " + std::to_string(kArchiveVersion));
        }
        Ending seen;
        for (;;) {
            const Result<std::string> next = line();
            if (!next) return next.error();
            if (next->starts_with("{\"end\"")) return check_end(*next, seen);
            if (Result<void> read = read_entry(*next, seen, on_log); !read) return read;
        }
    }

 private:
    Error not_an_archive(const std::string& what) const {
        return {ErrorKind::invalid, "not_an_archive",
                name_ + " is not a whole archive, at byte " + std::to_string(at_) + ": " + what};
    }

    Result<std::string> line() {
        constexpr std::size_t kLongest = 4096;
        Result<std::string> text = file_->read_at(at_, kLongest);
        if (!text) return text;
        const std::size_t end = text->find('\n');
        if (end == std::string::npos) {
            return not_an_archive(text->empty() ? "it ends without its last line"
                                                : "this is no line of an archive");
        }
        text->resize(end);
        at_ += end + 1;
        return text;
    }

    Result<void> read_entry(const std::string& text, Ending& seen, const OnLog& on_log) {
        const Result<Entry> entry = from_json<Entry>(text, "the line");
        if (!entry) return not_an_archive(entry.error().message);
        const Result<std::uint64_t> size = file_->size();
        if (!size) return size.error();
        if (entry->bytes > *size - at_) return not_an_archive("a log is cut short");
        const Result<std::string> lines = file_->read_at(at_, entry->bytes);
        if (!lines) return lines.error();
        LogTip tip = LogTip::start_of(entry->log);
        const Result<void> read =
            files::read_lines(*lines, tip, [](const Record&, std::string_view) {});
        if (!read) return not_an_archive("in " + entry->log.text() + ": " + read.error().message);
        if (tip.last != entry->records || tip.chain.hex() != entry->chain) {
            return not_an_archive(entry->log.text() + " is not what it was");
        }
        at_ += entry->bytes;
        ++seen.logs;
        seen.records += entry->records;
        return on_log(entry->log, *lines);
    }

    Result<void> check_end(const std::string& text, const Ending& seen) const {
        const Result<Ending> ending = from_json<Ending>(text, "the last line");
        if (!ending) return not_an_archive(ending.error().message);
        if (ending->logs != seen.logs || ending->records != seen.records) {
            return not_an_archive("logs are missing: it should have " +
                                  std::to_string(ending->logs));
        }
        const Result<std::uint64_t> size = file_->size();
        if (!size) return size.error();
        if (at_ == *size) return {};
        return not_an_archive("something follows its last line; import archives one by one");
    }

    std::unique_ptr<File> file_;
    std::string name_;
    std::uint64_t at_ = 0;
};

Result<void> read_archive(Fs& fs, const std::string& path, const ArchiveReader::OnLog& on_log) {
    Result<std::unique_ptr<File>> file = fs.open(path, OpenMode::read);
    if (!file) return file.error();
    return ArchiveReader(*std::move(file), path).read(on_log);
}

class Importer {
 public:
    Importer(FileStore& store, std::string archive, Fs& fs)
        : store_(store), archive_(std::move(archive)), fs_(fs) {}

    Result<ImportReport> run() {
        const Result<void> fits = read_archive(
            fs_, archive_,
            [this](const SessionId& log, std::string_view lines) { return check(log, lines); });
        if (!fits) return fits.error();
        const Result<void> added = read_archive(
            fs_, archive_,
            [this](const SessionId& log, std::string_view lines) { return add(log, lines); });
        if (!added) return added.error();
        return report_;
    }

 private:
    // What is missing there; nothing when the log differs.
    Result<std::string_view> missing(const SessionId& log, std::string_view lines) {
        const Result<std::vector<std::string>> known = store_.read(log, 1, SIZE_MAX);
        if (!known && known.error().reason == "unknown_session") return lines;
        if (!known) return known.error();
        for (const std::string& line : *known) {
            if (!lines.starts_with(line) || lines[line.size()] != '\n') {
                return Error(ErrorKind::conflict, "session_differs",
                             log.text() + " is there already, and is another one");
            }
            lines.remove_prefix(line.size() + 1);
            if (lines.empty()) break;  // the archive is older
        }
        return lines;
    }

    Result<void> check(const SessionId& log, std::string_view lines) {
        const Result<std::string_view> rest = missing(log, lines);
        if (rest) return {};
        if (log != system_log()) {
            return Error(rest.error().kind, rest.error().reason,
                         rest.error().message +
                             "; nothing was imported. rouse export can make an archive without it");
        }
        report_.left_system_log = true;
        return {};
    }

    Result<void> add(const SessionId& log, std::string_view lines) {
        if (log == system_log() && report_.left_system_log) return {};
        const Result<std::string_view> rest = missing(log, lines);
        if (!rest) return rest.error();
        const bool is_session = log != system_log();
        if (rest->empty()) {
            report_.known += is_session ? 1 : 0;
            return {};
        }
        if (Result<void> added = store_.adopt(log, *rest); !added) return added;
        report_.sessions += is_session ? 1 : 0;
        report_.records += static_cast<std::uint64_t>(std::ranges::count(*rest, '\n'));
        return {};
    }

    FileStore& store_;
    std::string archive_;
    Fs& fs_;
    ImportReport report_;
};

}  // namespace

Result<ArchiveReport> write_archive(Env env, const std::string& directory, const std::string& file,
                                    const ArchiveWish& wish) {
    const Layout layout(directory);
    if (Result<int> known = files::check_format(env.fs, layout); !known) return known.error();
    if (env.fs.status(file)) {
        return Error(ErrorKind::conflict, "file_exists",
                     file + " is there already; nothing was written");
    }
    const std::string temporary = file + ".tmp";
    Result<std::unique_ptr<File>> made = env.fs.make_file(temporary);
    if (!made) return made.error();
    Writer writer(*std::move(made));
    Result<ArchiveReport> report = put_logs(env, layout, wish, writer);
    Result<void> done = report ? writer.finish() : report.error();
    if (done) done = env.fs.rename(temporary, file);
    if (done) done = env.fs.sync_directory(parent_directory(file));
    if (done) return report;
    (void)env.fs.remove(temporary);
    return done.error();
}

Result<ImportReport> import_archive(Env env, const std::string& file, const std::string& directory,
                                    FileStoreOptions options) {
    const Result<void> whole = read_archive(
        env.fs, file, [](const SessionId&, std::string_view) { return Result<void>(); });
    if (!whole) return whole.error();
    options.threads = FileStoreOptions::Threads::none;
    Result<std::unique_ptr<FileStore>> store = FileStore::open(env, directory, std::move(options));
    if (!store) return store.error();
    Result<ImportReport> report = Importer(**store, file, env.fs).run();
    const Result<void> closed = (*store)->close();
    if (report && !closed) return closed.error();
    return report;
}

}  // namespace rouse
