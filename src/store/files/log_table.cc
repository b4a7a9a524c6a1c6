#include "store/files/log_table.h"

#include <algorithm>
#include <ranges>

#include "base/check.h"
#include "base/limits.h"
#include "domain/fold.h"
#include "store/files/log_blocks.h"

namespace rouse::files {
namespace {

Error unknown_session(const SessionId& id) {
    return {ErrorKind::not_found, "unknown_session", "there is no session " + id.text()};
}

Error session_gone(const SessionId& id) {
    return {ErrorKind::not_found, "session_gone", "session " + id.text() + " was deleted"};
}

Error session_damaged(const SessionId& id, const Damage& damage) {
    return {ErrorKind::corrupt, "session_damaged",
            "session " + id.text() + " is damaged at byte " + std::to_string(damage.offset) +
                " of " + damage.file + " (" + damage.reason +
                "); it is kept as it is and can be read up to there"};
}

std::vector<PendingId> pending_ids(const SessionSummary& session) {
    std::vector<PendingId> ids;
    ids.reserve(session.pending.size());
    for (const PendingSummary& call : session.pending)
        ids.push_back(call.pending_id);
    return ids;
}

// Takes an id out of a list of names.
void strike(std::unordered_map<std::string, std::set<SessionId>>& names, const std::string& name,
            const SessionId& id) {
    const auto found = names.find(name);
    if (found == names.end()) return;
    found->second.erase(id);
    if (found->second.empty()) names.erase(found);
}

IndexRow row_of(const SessionId& id, const OpenLog& log) {
    IndexRow row;
    row.session = summarize(*log.state);
    row.session.id = id;
    row.bytes = log.tip.bytes;
    row.chain = log.tip.chain.hex();
    return row;
}

// The system log says nothing about any session's state: its end is all there is to know.
SessionState system_state(const IndexRow& row) {
    SessionState state;
    state.last_seq = row.session.last_seq;
    state.created_at = row.session.created_at;
    state.updated_at = row.session.updated_at;
    return state;
}

}  // namespace

LogTable::LogTable(Env env, Layout layout, std::size_t cache_bytes)
    : env_(env), layout_(std::move(layout)), cache_(cache_bytes) {}

Result<LogTable::ReadLog> LogTable::read_log(const SessionId& id, const IndexRow& row) const {
    ReadLog found;
    OpenLog& log = found.log;
    log.pending_views = pending_ids(row.session);
    const Result<Chain> chain = Chain::parse(row.chain);
    ROUSE_CHECK(chain.has_value(), "an index row has no chain");
    if (id == system_log()) {
        log.state = LentState(system_state(row));
        log.tip = {row.session.last_seq, *chain, row.bytes};
        return found;
    }
    SessionState& state = log.state.change();
    log.tip = LogTip::start_of(id);
    const OnRecord take = [&](const Record& record, std::string_view line) {
        fold(state, record);
        if (!row.packed) return;
        log.tail += line;
        log.tail += '\n';
    };
    const Result<void> read =
        read_log_lines(env_.fs, place_of(layout_, id, row.packed), row.bytes, log.tip, take);
    if (!read && read.error().kind == ErrorKind::io) return read.error();
    if (!read) found.wrong = read.error().message;
    const LogTip expected{row.session.last_seq, *chain, row.bytes};
    if (read && log.tip != expected) found.wrong = "the log does not end where it ended";
    return found;
}

Result<OpenLog> LogTable::read_good_log(const SessionId& id, const IndexRow& row) {
    Result<ReadLog> read = read_log(id, row);
    if (!read) return read.error();
    if (read->wrong.empty()) return std::move(read->log);
    const LogPlace place = place_of(layout_, id, row.packed);
    const Damage damage{place.file, place.at + read->log.tip.bytes, read->wrong};
    if (Result<void> kept = set_aside(id, damage, {}); !kept) return kept.error();
    return session_damaged(id, damage);
}

Result<OpenLog*> LogTable::open(const SessionId& id, IfMissing if_missing) {
    if (index_.deleted_at(id)) return session_gone(id);
    if (const auto found = open_.find(id); found != open_.end()) return &found->second;
    const std::optional<IndexRow> row = index_.find(id);
    if (!row) {
        if (if_missing == IfMissing::refuse) return unknown_session(id);
        OpenLog log;
        log.tip = LogTip::start_of(id);
        log.has_views = replaying_;
        return &open_.emplace(id, std::move(log)).first->second;
    }
    if (row->damaged) return session_damaged(id, *row->damaged);
    StateCache::Entry* cached = cache_.find(id);
    if (cached != nullptr && !row->packed) {
        OpenLog log;
        log.state = std::move(cached->state);
        log.tip = cached->tip;
        log.pending_views = pending_ids(row->session);
        cache_.erase(id);
        return &open_.emplace(id, std::move(log)).first->second;
    }
    Result<OpenLog> log = read_good_log(id, *row);
    if (!log) return log.error();
    // It goes on in a file of its own, which is written with what is appended.
    log->was_packed = row->packed.has_value();
    tail_bytes_ += log->tail.size();
    cache_.erase(id);
    return &open_.emplace(id, *std::move(log)).first->second;
}

Result<bool> LogTable::file_is_missing(const SessionId& id) {
    if (id == system_log() || open_.contains(id) || index_.deleted_at(id)) return false;
    const std::optional<IndexRow> row = index_.find(id);
    if (!row || row->damaged || row->bytes == 0) return false;
    const LogPlace place = place_of(layout_, id, row->packed);
    const Result<FileStatus> status = env_.fs.status(place.file);
    if (!status && status.error().kind != ErrorKind::not_found) return status.error();
    if (!status || !row->packed) return !status;
    const Result<std::unique_ptr<File>> file = env_.fs.open(place.file, OpenMode::read);
    if (!file) return file.error();
    const Result<std::string> text = (*file)->read_at(place.at, row->bytes);
    if (!text) return text.error();
    return is_blanked(*text);
}

void LogTable::fold_into(OpenLog& log, const RecordView& record) {
    const auto* updated = std::get_if<SessionUpdated>(&record.body);
    if (book_ && updated != nullptr && updated->alias) {
        strike(book_->aliases, log.state->alias, log.state->id);
    }
    fold(log.state.change(), record);
    mark_changed(log);
    if (const auto* created = std::get_if<PendingCreated>(&record.body)) {
        log.pending_views.push_back(created->pending_id);
    }
    const auto* deleted = std::get_if<SessionDeleted>(&record.body);
    if (deleted == nullptr) return;
    const SessionId id = deleted->session_id.empty() ? log.state->id : deleted->session_id;
    remove(id, record.at);
}

void LogTable::mark_changed(OpenLog& log) {
    log.changed = true;
    if (log.row_is_stale) return;
    log.row_is_stale = true;
    stale_rows_.push_back(log.state->id.empty() ? system_log() : log.state->id);
}

void LogTable::adopt_new(const SessionId& id) {
    index_.revive(id);
    std::erase_if(deleted_, [&](const Deleted& deleted) { return deleted.id == id; });
}

// Its own last record and the tombstone in the system log both say so; the first one counts.
void LogTable::remove(const SessionId& id, Timestamp at) {
    if (index_.deleted_at(id)) return;
    Tombstone gone{id, at, task_of(id)};
    Deleted deleted{id, {}, {}};
    const auto [first, last] = leftovers_.equal_range(id);
    for (auto left = first; left != last; ++left)
        deleted.packed.push_back(left->second);
    leftovers_.erase(first, last);
    if (const std::optional<IndexRow> row = index_.find(id)) {
        deleted.views = pending_ids(row->session);
        if (row->packed) deleted.packed.push_back({*row->packed, row->bytes});
        if (book_) book_->forget(row->session);
    }
    if (const auto log = open_.find(id); log != open_.end()) {
        deleted.views.insert(deleted.views.end(), log->second.pending_views.begin(),
                             log->second.pending_views.end());
    }
    deleted_.push_back(std::move(deleted));
    index_.remove(std::move(gone));
    cache_.erase(id);
    std::erase_if(damaged_, [&](const auto& damaged) { return damaged.first == id; });
}

Result<std::shared_ptr<const SessionState>> LogTable::load(const SessionId& id) {
    if (index_.deleted_at(id)) return session_gone(id);
    if (const auto found = open_.find(id); found != open_.end()) {
        if (found->second.tip.last == 0) return unknown_session(id);
        return found->second.state.lend();
    }
    if (StateCache::Entry* cached = cache_.find(id)) return cached->state.lend();
    const std::optional<IndexRow> row = index_.find(id);
    if (!row) return unknown_session(id);
    if (row->damaged) return session_damaged(id, *row->damaged);
    Result<OpenLog> log = read_good_log(id, *row);
    if (!log) return log.error();
    std::shared_ptr<const SessionState> state = log->state.lend();
    cache_.put(id, {std::move(log->state), log->tip});
    return state;
}

std::optional<IndexRow> LogTable::unread(const SessionId& id) {
    if (open_.contains(id) || cache_.find(id) != nullptr) return std::nullopt;
    std::optional<IndexRow> row = index_.find(id);
    if (row && row->damaged) row.reset();
    return row;
}

std::shared_ptr<const SessionState> LogTable::keep(const SessionId& id, const IndexRow& row,
                                                   ReadLog read) {
    const std::optional<IndexRow> now = unread(id);
    const bool as_it_was = now && now->bytes == row.bytes && now->chain == row.chain;
    if (!as_it_was || !read.wrong.empty()) return nullptr;
    std::shared_ptr<const SessionState> state = read.log.state.lend();
    cache_.put(id, {std::move(read.log.state), read.log.tip});
    return state;
}

Result<Seq> LogTable::last_seq(const SessionId& id) {
    if (index_.deleted_at(id)) return session_gone(id);
    if (const auto found = open_.find(id); found != open_.end() && found->second.tip.last > 0) {
        return found->second.tip.last;
    }
    const std::optional<IndexRow> row = index_.find(id);
    if (!row) return unknown_session(id);
    if (row->damaged) return session_damaged(id, *row->damaged);
    return row->session.last_seq;
}

Result<LogTable::Extent> LogTable::extent(const SessionId& id) {
    if (index_.deleted_at(id)) return session_gone(id);
    if (const auto found = open_.find(id); found != open_.end() && found->second.tip.last > 0) {
        return Extent{{}, found->second.written(), found->second.tail, found->second.tip.last};
    }
    const std::optional<IndexRow> row = index_.find(id);
    if (!row) return unknown_session(id);
    return Extent{row->packed, row->good_bytes(), {}, row->damaged ? 0 : row->session.last_seq};
}

bool LogTable::is_packed_at(const SessionId& id, const PackPlace& place) {
    const std::optional<IndexRow> row = index_.find(id);
    return row && row->packed == place;
}

std::uint64_t LogTable::log_bytes(const SessionId& id) {
    if (index_.deleted_at(id)) return 0;
    if (const auto found = open_.find(id); found != open_.end() && found->second.tip.last > 0) {
        return found->second.tip.bytes;
    }
    const std::optional<IndexRow> row = index_.find(id);
    return row ? row->good_bytes() : 0;
}

std::string LogTable::task_of(const SessionId& id) {
    if (const Tombstone* gone = index_.find_tombstone(id)) return gone->task_id;
    if (const auto found = open_.find(id); found != open_.end())
        return found->second.state->task_id;
    const std::optional<IndexRow> row = index_.find(id);
    return row ? row->session.task_id : std::string();
}

void LogTable::refresh_row(const SessionId& id, OpenLog& log) {
    if (!std::exchange(log.row_is_stale, false) || index_.deleted_at(id)) return;
    IndexRow row = row_of(id, log);
    if (book_) book_->learn(row.session);
    if (std::exchange(log.was_packed, false)) {
        const std::optional<IndexRow> before = index_.find(id);
        if (before && before->packed) leave_in_pack(id, {*before->packed, before->bytes});
    }
    index_.put(std::move(row));
}

void LogTable::refresh_rows() {
    for (const SessionId& id : stale_rows_) {
        const auto found = open_.find(id);
        if (found != open_.end()) refresh_row(id, found->second);
    }
    stale_rows_.clear();
}

const SessionIndex& LogTable::index() {
    refresh_rows();
    return index_;
}

SessionIndex& LogTable::index_for_checkpoint() {
    refresh_rows();
    return index_;
}

void LogTable::Book::learn(const SessionSummary& session) {
    if (!session.alias.empty()) aliases[session.alias].insert(session.id);
    if (!session.external_id.empty()) external_ids[session.external_id].insert(session.id);
    if (!session.parent.empty()) parents[session.parent.text()].insert(session.id);
    if (!session.task_id.empty()) tasks[session.task_id].insert(session.id);
}

void LogTable::Book::forget(const SessionSummary& session) {
    strike(aliases, session.alias, session.id);
    strike(external_ids, session.external_id, session.id);
    strike(parents, session.parent.text(), session.id);
    strike(tasks, session.task_id, session.id);
}

const LogTable::Book& LogTable::book() {
    refresh_rows();
    if (book_) return *book_;
    book_.emplace();
    const auto learn = [&](const IndexRow& row) {
        book_->learn(row.session);
        return true;
    };
    index_.visit_newest_first(learn, RowSieve::with_any({"alias", "external", "parent", "task"}));
    return *book_;
}

void LogTable::visit_rows(const SessionFilter& filter, const SessionIndex::Visit& visit) {
    const Names* names = nullptr;
    std::string name;
    const auto look_for = [&](Names Book::* among, const std::optional<std::string>& wanted) {
        if (names != nullptr || !wanted || wanted->empty()) return;
        names = &(book().*among);
        name = *wanted;
    };
    look_for(&Book::aliases, filter.alias);
    look_for(&Book::external_ids, filter.external_id);
    if (filter.parent) look_for(&Book::parents, filter.parent->text());
    look_for(&Book::tasks, filter.task_id);
    if (names == nullptr) return index().visit_newest_first(visit, RowSieve(filter), filter.before);
    const auto found = names->find(name);
    if (found == names->end()) return;
    const std::set<SessionId>& ids = found->second;
    const auto end = filter.before.empty() ? ids.end() : ids.lower_bound(filter.before);
    for (auto id = std::make_reverse_iterator(end); id != ids.rend(); ++id) {
        const std::optional<IndexRow> row = index_.find(*id);
        if (row && !visit(*row)) return;
    }
}

Result<void> LogTable::set_aside(const SessionId& id, Damage damage, std::string_view unappended) {
    env_.log.error("session.damaged", {{"session", id.text()},
                                       {"file", damage.file},
                                       {"offset", damage.offset},
                                       {"reason", damage.reason}});
    IndexRow row = index_.find(id).value_or(IndexRow{});
    if (const auto found = open_.find(id); found != open_.end()) {
        refresh_rows();
        if (Result<void> written = write_tail(id, found->second); !written) return written;
        row = index_.find(id).value_or(IndexRow{});
        tail_bytes_ -= found->second.tail.size();
        open_.erase(found);
    }
    if (row.packed && damage.file != layout_.pack(row.packed->pack)) {
        leave_in_pack(id, {*row.packed, row.bytes});
        row.packed.reset();
    }
    const std::string kept = layout_.damaged() + "/" + id.text();
    if (!unappended.empty()) {
        Result<void> saved = env_.fs.replace_file(kept + ".unappended.jsonl", unappended);
        if (!saved) return saved;
    }
    row.session.id = id;
    if (row.chain.empty()) row.chain = Chain::start_of(id).hex();
    row.damaged = damage;
    index_.put(std::move(row));
    cache_.erase(id);
    Result<void> reported = env_.fs.replace_file(kept + ".json", to_json(damage) + "\n");
    damaged_.emplace_back(id, std::move(damage));
    return reported;
}

Result<void> LogTable::write_tail(const SessionId& id, const OpenLog& log) {
    if (log.tail.empty()) return {};
    Result<std::unique_ptr<File>> file = env_.fs.open(layout_.log(id), OpenMode::create);
    if (!file) return file.error();
    if (Result<void> cut = (*file)->truncate(log.written()); !cut) return cut;
    if (Result<void> written = (*file)->write_at(log.written(), log.tail); !written) {
        return written;
    }
    return (*file)->close();
}

void LogTable::adopt_log(const SessionId& id, OpenLog log) {
    if (const auto known = open_.find(id); known != open_.end()) {
        tail_bytes_ -= known->second.tail.size();
    }
    tail_bytes_ += log.tail.size();
    OpenLog& open = open_.insert_or_assign(id, std::move(log)).first->second;
    mark_changed(open);
    refresh_rows();
}

Result<void> LogTable::read_damage_reports() {
    const Result<std::vector<std::string>> names = env_.fs.list(layout_.damaged());
    if (!names) return names.error();
    for (const std::string& name : *names) {
        if (!name.ends_with(".json")) continue;
        const std::optional<IndexRow> row = index_.find(SessionId(name.substr(0, name.size() - 5)));
        if (row && row->damaged) damaged_.emplace_back(row->session.id, *row->damaged);
    }
    return {};
}

void LogTable::append_tail(OpenLog& log, std::string_view lines) {
    log.tail += lines;
    tail_bytes_ += lines.size();
}

void LogTable::drop_tail(OpenLog& log, std::size_t bytes) {
    log.tail.erase(0, bytes);
    tail_bytes_ -= bytes;
}

void LogTable::came_to_rest(const SessionId& id, OpenLog& log) {
    if (!std::exchange(log.in_line, true)) rested_.emplace_back(id, log.tip.last);
}

std::vector<SessionId> LogTable::take_rested(std::size_t most) {
    std::vector<SessionId> taken;
    for (std::size_t looks = rested_.size(); looks > 0 && taken.size() < most; --looks) {
        auto [id, last] = std::move(rested_.front());
        rested_.pop_front();
        const auto found = open_.find(id);
        if (found == open_.end() || !std::exchange(found->second.in_line, false)) continue;
        OpenLog& log = found->second;
        if (!log.changed || log.state->deleted || !log.has_ended()) continue;
        if (log.tip.last == last) {
            taken.push_back(std::move(id));
        } else {
            came_to_rest(id, log);
        }
    }
    return taken;
}

void LogTable::shorten_line() {
    for (auto& [id, log] : open_)
        log.in_line = false;
    std::erase_if(rested_, [this](const auto& rested) {
        const auto log = open_.find(rested.first);
        return log == open_.end() || std::exchange(log->second.in_line, true);
    });
}

void LogTable::retire(const SessionId& id) {
    const auto found = open_.find(id);
    if (found == open_.end()) return;
    refresh_row(id, found->second);
    const OpenLog& log = found->second;
    // Whoever comes back to what has ended may read it again, if it is short: remembering all of
    // them would make every other session work in memory that is out of the CPU's caches.
    const bool quick = log.has_ended() && log.tip.bytes <= limits::kShortLog;
    const bool is_there = !index_.deleted_at(id) && log.tip.last > 0 && id != system_log();
    if (is_there && !quick) cache_.put(id, {std::move(found->second.state), log.tip});
    tail_bytes_ -= found->second.tail.size();  // of a deleted one
    open_.erase(found);
}

void LogTable::retire_packed(const SessionId& id, const PackPlace& place) {
    const auto found = open_.find(id);
    if (found == open_.end() || index_.deleted_at(id)) return;
    IndexRow row = row_of(id, found->second);
    row.packed = place;
    if (book_) book_->learn(row.session);
    index_.put(std::move(row));
    tail_bytes_ -= found->second.tail.size();
    open_.erase(found);
}

std::vector<LogTable::Deleted> LogTable::take_deleted() {
    return std::exchange(deleted_, {});
}

void LogTable::return_deleted(std::vector<Deleted> deleted) {
    deleted_.insert(deleted_.end(), std::make_move_iterator(deleted.begin()),
                    std::make_move_iterator(deleted.end()));
}

void LogTable::leave_in_pack(const SessionId& id, const PackedLog& copy) {
    auto deleted = deleted_.end();
    if (index_.deleted_at(id)) deleted = std::ranges::find(deleted_, id, &Deleted::id);
    if (deleted != deleted_.end()) {
        deleted->packed.push_back(copy);
    } else {
        leftovers_.emplace(id, copy);
    }
}

}  // namespace rouse::files
