// FileStore's housekeeping: what is durable in the journal goes into the logs, views and index, and
// the journal's segments become free again.

#include <algorithm>
#include <span>

#include "store/files/file_store.h"
#include "store/files/views.h"

namespace rouse {
namespace {

using files::JournalPosition;
using files::OpenLog;
using files::SessionIndex;

constexpr std::chrono::milliseconds kTick{250};
constexpr std::chrono::minutes kPendingIndexEvery{1};
constexpr std::chrono::minutes kPacksTidiedEvery{1};
constexpr int kTicksOfRest = 4;
constexpr int kTicksOfLoad = 2;
constexpr std::uint64_t kBurst = 16;  // so much of what makes a checkpoint due

// So many logs are copied and noted at a time: nobody waits long for the table, and the memory of
// the copies is used again while it is in the CPU's cache.
constexpr std::size_t kPortion = 32;

// Calls `each` with one portion of `ids` after the other, until it fails.
template <class Each>
Result<void> in_portions(const std::vector<SessionId>& ids, const Each& each) {
    for (std::size_t at = 0; at < ids.size(); at += kPortion) {
        const std::span rest = std::span(ids).subspan(at);
        if (Result<void> done = each(rest.first(std::min(kPortion, rest.size()))); !done) {
            return done;
        }
    }
    return {};
}

std::vector<PendingId> no_longer_open(const OpenLog& log) {
    std::vector<PendingId> gone;
    for (const PendingId& id : log.pending_views) {
        const PendingCall* call = log.state->find_pending(id);
        if (call == nullptr || !is_open(call->status)) gone.push_back(id);
    }
    return gone;
}

}  // namespace

// What one log needs written: a copy, so that the files can be written without the lock.
struct FileStore::LogWrite {
    SessionId id;
    std::uint64_t at = 0;
    std::string tail;
    Seq last = 0;                                    // behind the tail
    std::shared_ptr<const SessionState> state = {};  // none: the log alone
    std::vector<PendingId> gone = {};
    bool has_views = false;
    bool came_and_went = false;  // without views then, and in a pack if it is short
    std::optional<files::PackPlace> packed = {};

    bool is_for_pack() const {
        return came_and_went && at == 0 && !tail.empty() && tail.size() <= limits::kShortLog;
    }
};

void FileStore::run_house() {
    using Steady = std::chrono::steady_clock;
    Steady::time_point tick = Steady::now() + kTick;
    std::unique_lock lock(house_wait_);
    while (!stop_house_) {
        house_work_.wait_until(lock, tick, [this] { return stop_house_ || house_called_; });
        house_called_ = false;
        lock.unlock();
        const bool ticks = Steady::now() >= tick;
        keep_house(ticks ? Call::by_clock : Call::by_work);
        if (ticks) tick = Steady::now() + kTick;
        lock.lock();
    }
}

void FileStore::keep_house(Call call) {
    {
        const auto lock = lock_table();
        if (failure_) return;
    }
    if (full_ || journal_.wants_next()) prepare_segment();
    if (const Due due = checkpoint_due(call); due != Due::no) {
        (void)checkpoint(due == Due::yes ? Tidy::no : Tidy::yes);
        if (due == Due::yes) return;
        {
            // What a burst of work left behind, so that its memory can be given back.
            const auto lock = lock_table();
            table_.forget_states();
            rested_ = applied_;
        }
        if (options_.on_rest) options_.on_rest();
        return;
    }
    if (!write_down_rested()) return;
    const bool alone = options_.threads == FileStoreOptions::Threads::none;
    if ((alone || call == Call::by_clock) && !write_down_resting()) return;
    std::size_t tails = 0;
    {
        const auto lock = lock_table();
        if (failure_) return;
        tails = table_.tail_bytes();
    }
    // Short tails wait for the clock: people read these files.
    if (tails >= options_.tail_bytes) {
        (void)flush_logs(Flush::all);
    } else if (call == Call::by_clock && tails > 0) {
        (void)flush_logs(Flush::but_short_lives);
    }
}

// A checkpoint closes most logs, so that under load there are few of them for a moment.
bool FileStore::has_much_to_do() {
    return table_.open_logs().size() > options_.open_logs || ticks_of_load_left_ > 0;
}

FileStore::Due FileStore::checkpoint_due(Call call) {
    const auto lock = lock_table();
    if (failure_) return Due::no;
    if (call == Call::by_clock) {
        const bool calm = table_.open_logs().size() <= options_.open_logs;
        ticks_of_load_left_ = calm ? std::max(0, ticks_of_load_left_ - 1) : kTicksOfLoad;
        const bool rests = std::exchange(seen_applied_, applied_) == applied_;
        ticks_of_rest_ = rests ? ticks_of_rest_ + 1 : 0;
        // What a burst of work left open costs memory now, and time if the process is killed.
        const bool after_burst =
            journal_.bytes_since(rested_) >= options_.checkpoint_bytes / kBurst;
        if (ticks_of_rest_ >= kTicksOfRest && after_burst) return Due::at_rest;
    }
    return journal_.bytes_since(covered_) >= options_.checkpoint_bytes ? Due::yes : Due::no;
}

void FileStore::prepare_segment() {
    const Result<void> ready = journal_.prepare_next();
    if (!ready) return note_failure(ready.error());
    if (!full_) return;
    // There is room again when there is enough for the reserve too.
    Result<std::unique_ptr<File>> reserve = env_.fs.open(layout_.reserve(), OpenMode::create);
    if (!reserve || !(*reserve)->allocate(options_.reserve_bytes)) return;
    full_ = false;
    env_.log.info("store.has_room", {{"directory", layout_.root()}});
}

void FileStore::note_failure(const Error& error) {
    if (error.reason == "too_many_files") {
        env_.log.error("store.too_many_files", {{"error", error.message}});
        return;  // the next tick tries again
    }
    if (error.reason != "disk_full") return fail(error);
    if (full_.exchange(true)) return;
    // The reserve is what logs and the index are written from until somebody makes room.
    (void)env_.fs.remove(layout_.reserve());
    env_.log.error("store.full", {{"directory", layout_.root()}, {"error", error.message}});
}

// The log's file, ending where the write begins.
Result<std::unique_ptr<File>> FileStore::open_log(const LogWrite& write) {
    const std::string path = layout_.log(write.id);
    if (write.at == 0) {
        Result<std::unique_ptr<File>> made = env_.fs.open(path, OpenMode::create_new);
        if (made || made.error().kind != ErrorKind::conflict) return made;
    }
    Result<std::unique_ptr<File>> file = env_.fs.open(path, OpenMode::create);
    if (!file) return file;
    const Result<void> cut = cut_log(write.id, **file, write.at, write.tail);
    if (!cut) return cut.error();
    return file;
}

Result<void> FileStore::write_log(const LogWrite& write) {
    if (write.tail.empty()) return {};
    const Result<std::unique_ptr<File>> file = open_log(write);
    if (!file) return file.error();
    if (Result<void> written = (*file)->write_at(write.at, write.tail); !written) return written;
    return (*file)->close();
}

// Makes the file end at `end`. Behind that may stand an append of ours that was not noted, which is
// a part of `known`, or somebody else's bytes, which are kept before they go.
Result<void> FileStore::cut_log(const SessionId& id, File& file, std::uint64_t end,
                                std::string_view known) {
    const Result<std::uint64_t> size = file.size();
    if (!size) return size.error();
    if (*size == end) return {};
    const std::string path = layout_.log(id);
    if (*size < end) {
        return Error(ErrorKind::corrupt, "log_too_short",
                     path + " lost bytes while the store was open");
    }
    const Result<std::string> rest = file.read_at(end, *size - end);
    if (!rest) return rest.error();
    if (!known.starts_with(*rest)) {
        const std::string kept =
            layout_.damaged() + "/" + id.text() + "-" + std::to_string(end) + ".foreign";
        if (Result<void> saved = env_.fs.replace_file(kept, *rest); !saved) return saved;
        env_.log.warn("log.foreign_bytes_cut", {{"file", path}, {"kept", kept}});
    }
    return file.truncate(end);
}

Result<void> FileStore::flush_logs(Flush which) {
    const std::lock_guard house(house_mutex_);
    std::vector<SessionId> ids;
    {
        const auto lock = lock_table();
        if (failure_) return *failure_;
        // While there is much to do, what came and went goes to a pack by and by.
        const bool may_wait = which == Flush::but_short_lives && has_much_to_do();
        for (const auto& [id, log] : table_.open_logs()) {
            const bool waits = may_wait && log.has_ended() && !log.has_views &&
                               log.written() == 0 && log.tail.size() <= limits::kShortLog;
            if (log.changed && !log.tail.empty() && !waits) ids.push_back(id);
        }
    }
    Result<void> written = in_portions(ids, [&](std::span<const SessionId> portion) {
        std::vector<LogWrite> writes;
        {
            const auto lock = lock_table();
            for (const SessionId& id : portion) {
                const auto found = table_.open_logs().find(id);
                if (found == table_.open_logs().end() || found->second.state->deleted) continue;
                writes.push_back(plan_log(id, found->second));
            }
        }
        for (const LogWrite& write : writes) {
            if (Result<void> done = write_log(write); !done) return done;
        }
        const auto lock = lock_table();
        for (const LogWrite& write : writes) {
            const auto log = table_.open_logs().find(write.id);
            if (log != table_.open_logs().end()) table_.drop_tail(log->second, write.tail.size());
        }
        tail_bytes_ = table_.tail_bytes();
        return Result<void>();
    });
    if (!written) note_failure(written.error());
    return written;
}

FileStore::LogWrite FileStore::plan_log(const SessionId& id, const OpenLog& log) {
    return {id, log.written(), log.tail, log.tip.last};
}

FileStore::LogWrite FileStore::plan_views(const SessionId& id, OpenLog& log) {
    LogWrite write = plan_log(id, log);
    write.state = log.state.lend();
    write.gone = no_longer_open(log);
    write.has_views = std::exchange(log.has_views, true);
    return write;
}

Result<void> FileStore::write_log_and_views(const LogWrite& write) {
    if (Result<void> done = write_log(write); !done) return done;
    if (!write.state || write.id == system_log()) return {};
    const files::Before before = write.has_views ? files::Before::views : files::Before::nothing;
    Result<void> done = files::write_views(env_.fs, layout_, *write.state, before);
    if (!done || !write.has_views) return done;
    return files::remove_old_views(env_.fs, layout_, *write.state, write.gone);
}

// The short ones of those whose sessions came and went, one behind the other.
Result<void> FileStore::write_packed(std::vector<LogWrite>& writes) {
    std::string together;
    for (const LogWrite& write : writes) {
        if (write.is_for_pack()) together += write.tail;
    }
    if (together.empty()) return {};
    Result<files::PackPlace> place = packs_.append(together);
    if (!place) return place.error();
    for (LogWrite& write : writes) {
        if (!write.is_for_pack()) continue;
        write.packed = *place;
        place->at += write.tail.size();
    }
    return {};
}

void FileStore::note_written(const std::vector<LogWrite>& writes) {
    for (const LogWrite& write : writes) {
        const auto found = table_.open_logs().find(write.id);
        if (found == table_.open_logs().end()) continue;
        OpenLog& log = found->second;
        if (write.packed) {
            // If it goes on meanwhile, it gets a file of its own with what it still has in memory.
            const bool is_over = log.tip.last == write.last && !log.state->deleted;
            if (is_over && sequencer_.forget(write.id, log.tip)) {
                table_.retire_packed(write.id, *write.packed);
            } else {
                table_.leave_in_pack(write.id, {*write.packed, write.tail.size()});
            }
            continue;
        }
        table_.drop_tail(log, write.tail.size());
        std::erase_if(log.pending_views, [&](const PendingId& view) {
            return std::ranges::find(write.gone, view) != write.gone.end();
        });
        log.changed = log.tip.last != write.last;
    }
}

// Writes down what these logs are now, a portion at a time, and lets go of those that nobody is
// about to append to.
Result<void> FileStore::write_down(const std::vector<SessionId>& ids, Views views) {
    return in_portions(ids, [&](std::span<const SessionId> portion) {
        std::vector<LogWrite> writes;
        {
            const auto lock = lock_table();
            if (failure_) return Result<void>(*failure_);
            for (const SessionId& id : portion) {
                const auto found = table_.open_logs().find(id);
                if (found == table_.open_logs().end() || !found->second.changed) continue;
                OpenLog& log = found->second;
                // One that was deleted since it was chosen: an index that knows it still needs its
                // log.
                const bool came_and_went =
                    views == Views::where_some_are && log.has_ended() && !log.has_views;
                const bool no_views = log.state->deleted || came_and_went;
                writes.push_back(no_views ? plan_log(id, log) : plan_views(id, log));
                writes.back().came_and_went = came_and_went && !log.state->deleted;
            }
        }
        for (const LogWrite& write : writes) {
            if (write.is_for_pack()) continue;
            if (Result<void> done = write_log_and_views(write); !done) return done;
        }
        if (Result<void> done = write_packed(writes); !done) return done;
        const std::lock_guard sequencing(sequencing_);
        const auto lock = lock_table();
        note_written(writes);
        for (const LogWrite& write : writes)
            retire_if_idle(write.id);
        open_logs_ = table_.open_logs().size();
        tail_bytes_ = table_.tail_bytes();
        return Result<void>();
    });
}

// What nobody is about to append to is not open any more.
void FileStore::retire_if_idle(const SessionId& id) {
    const auto found = table_.open_logs().find(id);
    if (found == table_.open_logs().end()) return;
    const OpenLog& log = found->second;
    const bool idle = !log.changed || (log.state->deleted && log.tail.empty());
    if (idle && sequencer_.forget(id, log.tip)) table_.retire(id);
}

void FileStore::retire_idle() {
    std::vector<SessionId> open;
    open.reserve(table_.open_logs().size());
    for (const auto& [id, log] : table_.open_logs())
        open.push_back(id);
    for (const SessionId& id : open) {
        // Of one that is deleted nothing is needed: the journal says so until its file is gone.
        OpenLog& log = table_.open_logs().at(id);
        if (log.state->deleted) table_.drop_tail(log, log.tail.size());
        retire_if_idle(id);
    }
    table_.shorten_line();
    open_logs_ = table_.open_logs().size();
    tail_bytes_ = table_.tail_bytes();
}

// Both ahead of a checkpoint, so that what it has to write is bounded and what is in memory too. A
// crash finds these files as it finds those of a checkpoint that was cut short: what the index on
// disk does not cover is cut, and the journal refills it.
//
// First those whose runs have ended, the oldest first, all the time: nothing more is expected of
// them. So many of them leave no time for views, nor for files of their own: one that never had any
// is its log alone, in a pack if it is short.
Result<void> FileStore::write_down_rested() {
    const std::lock_guard house(house_mutex_);
    for (;;) {
        std::vector<SessionId> rested;
        {
            const auto lock = lock_table();
            if (failure_) return *failure_;
            const std::size_t open = table_.open_logs().size();
            if (open <= options_.open_logs) return {};
            rested = table_.take_rested(std::min(kPortion, open - options_.open_logs));
        }
        if (rested.empty()) return {};
        if (Result<void> done = write_down(rested, Views::where_some_are); !done) {
            note_failure(done.error());
            return done;
        }
        // However many there are: what else there is to do comes in between.
        if (journal_.wants_next() || checkpoint_due(Call::by_work) != Due::no) {
            call_house();
            return {};
        }
    }
}

// Before a checkpoint under load, and not in it: its copy of the index must say where each log is.
Result<void> FileStore::write_down_came_and_went() {
    std::vector<SessionId> ended;
    {
        const auto lock = lock_table();
        if (failure_) return *failure_;
        if (!has_much_to_do()) return {};
        for (const auto& [id, log] : table_.open_logs()) {
            const bool came_and_went = log.changed && log.has_ended() && !log.has_views;
            if (came_and_went && !log.state->deleted && id != system_log()) ended.push_back(id);
        }
    }
    return write_down(ended, Views::where_some_are);
}

// Where those are not enough, also what waits or works and has not moved since the last tick.
Result<void> FileStore::write_down_resting() {
    const std::lock_guard house(house_mutex_);
    std::vector<SessionId> resting;
    {
        const std::lock_guard sequencing(sequencing_);
        const auto lock = lock_table();
        if (failure_) return *failure_;
        if (table_.open_logs().size() <= options_.open_logs) return {};
        retire_idle();
        for (auto& [id, log] : table_.open_logs()) {
            const bool rests = std::exchange(log.seen_last, log.tip.last) == log.tip.last;
            if (rests && log.changed && !log.state->deleted && id != system_log()) {
                resting.push_back(id);
            }
        }
    }
    Result<void> done = write_down(resting, Views::all);
    if (!done) note_failure(done.error());
    return done;
}

Result<void> FileStore::checkpoint(Tidy tidy) {
    const std::lock_guard house(house_mutex_);
    Result<void> written = tidy == Tidy::no ? write_down_came_and_went() : Result<void>();
    if (written) written = write_checkpoint(tidy);
    if (!written) note_failure(written.error());
    return written;
}

// One more part behind those of the index. What a write that failed leaves there makes the file
// longer than it should be, unless it can be cut, and the next checkpoint writes it as a whole.
Result<void> FileStore::append_to_index(std::uint64_t at, std::string_view part) {
    const Result<std::unique_ptr<File>> file = env_.fs.open(layout_.index(), OpenMode::write);
    if (!file) return file.error();
    if (Result<void> written = (*file)->write_at(at, part); !written) {
        (void)(*file)->truncate(at);
        return written;
    }
    if (Result<void> synced = (*file)->sync_data(); !synced) return synced;
    return (*file)->close();
}

Result<void> FileStore::write_checkpoint(Tidy tidy) {
    const Result<FileStatus> on_disk = env_.fs.status(layout_.index());
    std::vector<SessionId> changed;
    std::vector<files::LogTable::Deleted> deleted;
    files::LogTable::Leftovers leftovers;
    SessionIndex index;
    bool whole = false;
    std::uint64_t index_end = 0;
    JournalPosition position;
    {
        const auto lock = lock_table();
        if (failure_) return *failure_;
        position = applied_;
        for (auto& [id, log] : table_.open_logs()) {
            if (log.changed && !log.state->deleted) changed.push_back(id);
        }
        deleted = table_.take_deleted();
        SessionIndex& rows = table_.index_for_checkpoint();
        rows.forget_deleted(env_.clock.now() - limits::kTombstone);
        index_end = rows.file_bytes();
        // What another process wrote may be in the page cache alone, if its sync failed.
        const bool as_written = index_is_ours_ && on_disk && on_disk->size == index_end;
        whole = !as_written || rows.wants_whole(tidy == Tidy::yes) ||
                (tidy == Tidy::yes && table_.has_leftovers());
        // As long as an earlier part may count again, what it names must be there.
        if (whole) leftovers = table_.take_leftovers();
        index = rows.copy_for(whole);
    }

    // What is committed meanwhile may be written too: beyond the index, it proves nothing.
    const auto write_files = [&]() -> Result<void> {
        if (Result<void> done = write_down(changed, Views::all); !done) return done;
        for (const files::LogTable::Deleted& one : deleted) {
            Result<void> done = files::remove_views(env_.fs, layout_, one.id, one.views);
            if (!done) return done;
            done = env_.fs.remove(layout_.log(one.id));
            if (!done && done.error().kind != ErrorKind::not_found) return done;
            for (const files::PackedLog& log : one.packed) {
                if (done = files::blank(env_.fs, layout_, log); !done) return done;
            }
        }
        return packs_.finish();
    };
    Result<void> done = write_files();
    if (done) {
        done = file_system_->sync();
        // Even a full disk is final here: what was written may be gone from memory and disk alike.
        if (!done && done.error().reason != "too_many_files") fail(done.error());
    }
    std::string text = index.to_checkpoint(position);
    if (done) {
        done =
            whole ? env_.fs.replace_file(layout_.index(), text) : append_to_index(index_end, text);
    }
    if (!done) {
        const auto lock = lock_table();
        table_.return_deleted(std::move(deleted));
        table_.return_leftovers(std::move(leftovers));
        return done;
    }

    {
        SessionIndex fresh;
        std::string part;
        if (whole) {
            JournalPosition same;
            Result<SessionIndex> parsed = SessionIndex::parse(std::move(text), same);
            if (!parsed) return parsed.error();
            fresh = *std::move(parsed);
        } else {
            part = std::move(text);
        }
        const std::lock_guard sequencing(sequencing_);
        const auto lock = lock_table();
        SessionIndex& rows = table_.index_for_checkpoint();
        if (whole) {
            rows.checkpointed(index, std::move(fresh));
        } else if (done = rows.checkpointed(index, std::move(part)); !done) {
            return done;
        }
        retire_idle();
        index_is_ours_ = true;
        covered_ = position;
    }
    done = tidy_packs(leftovers, tidy);
    {
        const auto lock = lock_table();
        table_.return_leftovers(std::move(leftovers));
    }
    if (!done) return done;
    if (Result<void> recycled = journal_.recycle(position); !recycled) return recycled;
    if (env_.clock.now() - pending_index_at_ < kPendingIndexEvery) return {};
    return write_pending_index();
}

// What the index on disk does not name any more. Takes what is done off the list.
Result<void> FileStore::tidy_packs(files::LogTable::Leftovers& leftovers, Tidy tidy) {
    while (!leftovers.empty()) {
        const files::PackedLog& copy = leftovers.begin()->second;
        if (Result<void> done = files::blank(env_.fs, layout_, copy); !done) return done;
        leftovers.erase(leftovers.begin());
    }
    if (tidy == Tidy::no && env_.clock.now() - packs_tidied_at_ < kPacksTidiedEvery) return {};
    packs_tidied_at_ = env_.clock.now();
    SessionIndex::NamesOfPacks names;
    {
        const auto lock = lock_table();
        names = table_.index().names_of_packs();
    }
    return files::remove_packs_but(env_.fs, layout_, names.all());
}

Result<void> FileStore::rewrite() {
    constexpr std::size_t kAtOnce = 1000;
    SessionFilter filter;
    filter.limit = kAtOnce;
    for (;;) {
        const std::vector<SessionSummary> page = list(filter);
        if (page.empty()) return {};
        filter.before = page.back().id;
        for (const SessionSummary& session : page) {
            if (Result<void> done = rewrite(session.id); !done) return done;
        }
        if (Result<void> done = checkpoint(); !done) return done;
    }
}

Result<void> FileStore::rewrite(const SessionId& id) {
    const auto lock = lock_table();
    const Result<OpenLog*> log = table_.open(id, files::LogTable::IfMissing::refuse);
    if (!log) return log.error().kind == ErrorKind::corrupt ? Result<void>() : log.error();
    table_.mark_changed(**log);
    Result<std::unique_ptr<File>> file = env_.fs.open(layout_.log(id), OpenMode::write);
    const bool all_in_tail = (*log)->written() == 0;
    if (!file && file.error().kind == ErrorKind::not_found && all_in_tail) return {};
    if (!file) return file.error();
    return cut_log(id, **file, (*log)->written(), (*log)->tail);
}

Result<void> FileStore::write_pending_index() {
    pending_index_at_ = env_.clock.now();
    // A page at a time, so that nobody waits long for the table.
    constexpr std::size_t kPage = 500;
    std::vector<OpenPending> all;
    for (PendingFilter filter;; filter.after = all.back().call.pending_id) {
        filter.limit = kPage;
        std::vector<OpenPending> page = pending(filter);
        const bool is_last = page.size() < kPage;
        std::ranges::move(page, std::back_inserter(all));
        if (is_last) break;
    }
    return env_.fs.replace_view(layout_.pending_index(), files::pending_index_text(all));
}

}  // namespace rouse
