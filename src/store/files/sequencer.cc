#include "store/files/sequencer.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <iterator>

namespace rouse::files {
namespace {

Error invalid(std::string_view reason, std::string message) {
    return {ErrorKind::invalid, reason, std::move(message)};
}

// A log begins by saying whose it is.
Result<void> check_start(const LogAppend& append) {
    if (append.log == system_log()) return {};
    const auto* created = std::get_if<SessionCreated>(&append.records.front());
    if (created != nullptr && created->id == append.log) return {};
    return Error(ErrorKind::not_found, "unknown_session",
                 "there is no session " + append.log.text());
}

Result<void> check_expected(const LogAppend& append, const Sequencer::End& end) {
    if (end.deleted) {
        return Error(ErrorKind::not_found, "session_gone",
                     "session " + append.log.text() + " was deleted");
    }
    if (append.records.empty()) {
        return invalid("empty_commit", "a commit has at least one record for each log");
    }
    if (append.expected_last && *append.expected_last != end.tip.last) {
        return Error(ErrorKind::conflict, "log_moved",
                     "log " + append.log.text() + " ends at " + std::to_string(end.tip.last) +
                         ", not at " + std::to_string(*append.expected_last));
    }
    return end.tip.last == 0 ? check_start(append) : Result<void>();
}

bool deletes_session(const Records& records) {
    return std::ranges::any_of(records, [](const RecordBody& record) {
        const auto* deleted = std::get_if<SessionDeleted>(&record);
        return deleted != nullptr && deleted->session_id.empty();
    });
}

}  // namespace

Result<Sequencer::End*> Sequencer::end_of(const SessionId& log, const FindEnd& find_end) {
    if (const auto known = ends_.find(log); known != ends_.end()) return &known->second;
    const Result<End> end = find_end(log);
    if (!end) return end.error();
    return &ends_.emplace(log, *end).first->second;
}

Result<void> Sequencer::add(Commit& commit, Store::CommitDone& done, const FindEnd& find_end) {
    if (commit.appends.empty()) return invalid("empty_commit", "a commit names at least one log");
    const Timestamp now = clock_.now();
    boost::container::small_vector<End*, 4> ends;  // as they are before the commit
    std::string& lines = scratch_;
    lines.clear();
    SequencedCommit sequenced;
    sequenced.parts.reserve(commit.appends.size());
    for (const LogAppend& append : commit.appends) {
        const auto first = std::ranges::find(commit.appends, append.log, &LogAppend::log);
        if (&*first != &append) {
            return invalid("duplicate_log", "a commit names each log once");
        }
        const Result<End*> end = end_of(append.log, find_end);
        if (!end) return end.error();
        if (Result<void> fits = check_expected(append, **end); !fits) return fits;

        SequencedPart part;
        part.tip = (*end)->tip;
        part.first = part.tip.last + 1;
        part.at = std::max(now, (*end)->at);  // a clock that went back does not take the log along
        part.lines_at = lines.size();
        for (const RecordBody& body : append.records) {
            append_line(lines, ++part.tip.last, part.at, body, part.tip.chain);
        }
        part.lines_bytes = lines.size() - part.lines_at;
        if (lines.size() > max_commit_bytes_) {
            return invalid("commit_too_large",
                           "a commit has at most " + std::to_string(max_commit_bytes_) + " bytes");
        }
        part.tip.bytes += part.lines_bytes;
        ends.push_back(*end);
        sequenced.parts.push_back(std::move(part));
    }

    Batch& batch = batch_for(lines.size());
    batch.group.begin_commit(sequenced.parts.size());
    for (std::size_t i = 0; i < sequenced.parts.size(); ++i) {
        SequencedPart& part = sequenced.parts[i];
        part.log = std::move(commit.appends[i].log);
        batch.group.add_part(part.log, part.first,
                             std::string_view(lines).substr(part.lines_at, part.lines_bytes));
        part.lines_at = batch.group.size() - part.lines_bytes;
        part.records = std::move(commit.appends[i].records);
        *ends[i] = {part.tip, part.at, deletes_session(part.records)};
    }
    sequenced.done = std::move(done);
    batch.commits.push_back(std::move(sequenced));
    return {};
}

Batch& Sequencer::batch_for(std::size_t bytes) {
    const Batch& open = *batches_.back();
    if (!open.commits.empty() && open.group.size() + bytes > batch_bytes_) {
        batches_.push_back(std::make_shared<Batch>());
    }
    Batch& batch = *batches_.back();
    if (batch.commits.empty()) batch.begun = clock_.monotonic();
    return batch;
}

Result<void> Sequencer::adopt(const SessionId& log, std::string_view lines,
                              const FindEnd& find_end) {
    const Result<End*> end = end_of(log, find_end);
    if (!end) return end.error();
    LogTip tip = (*end)->tip;
    const auto ignore = [](const Record&, std::string_view) {};
    if (Result<void> follows = read_lines(lines, tip, ignore); !follows) return follows;
    while (!lines.empty()) {
        const std::string_view line = lines.substr(0, lines.find('\n') + 1);
        lines.remove_prefix(line.size());
        SequencedPart part;
        part.log = log;
        part.tip = (*end)->tip;
        (void)read_lines(line, part.tip, [&](const Record& record, std::string_view) {
            part.first = record.seq;
            part.at = record.at;
            part.records.push_back(record.body);
        });
        Batch& batch = *batches_.back();  // the caller takes care of its length
        if (batch.commits.empty()) batch.begun = clock_.monotonic();
        batch.group.begin_commit(1);
        batch.group.add_part(log, part.first, line);
        part.lines_bytes = line.size();
        part.lines_at = batch.group.size() - line.size();
        **end = {part.tip, part.at, deletes_session(part.records)};
        SequencedCommit commit;
        commit.done = [](const Result<Committed>&) {};
        commit.parts.push_back(std::move(part));
        batch.commits.push_back(std::move(commit));
    }
    return {};
}

std::shared_ptr<Batch> Sequencer::take() {
    std::shared_ptr<Batch> oldest = std::move(batches_.front());
    batches_.pop_front();
    if (batches_.empty()) {
        batches_.push_back(std::make_shared<Batch>());
        batches_.back()->group.reserve(oldest->group.size());
        batches_.back()->commits.reserve(oldest->commits.size());
    }
    return oldest;
}

std::vector<SequencedCommit> Sequencer::reset() {
    ends_.clear();
    std::vector<SequencedCommit> all;
    while (!empty())
        std::ranges::move(take()->commits, std::back_inserter(all));
    return all;
}

bool Sequencer::forget(const SessionId& log, const LogTip& durable) {
    const auto known = ends_.find(log);
    if (known == ends_.end()) return true;
    if (known->second.tip != durable) return false;
    ends_.erase(known);
    return true;
}

}  // namespace rouse::files
