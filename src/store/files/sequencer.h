#pragma once

// Gives each commit its place: checks that the logs end where the commit expects, assigns seq, time
// and chain, and puts the finished lines into the group that the journal writes next. It runs ahead
// of the disk: what it hands out is durable only once the journal has synced the group.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "store/files/group.h"
#include "store/files/log_reader.h"
#include "store/store.h"

namespace rouse::files {

struct SequencedPart {
    SessionId log;
    Seq first = 0;
    Timestamp at{};
    Records records;           // until the table has folded them
    LogTip tip;                // behind the part
    std::size_t lines_at = 0;  // where its lines stand in the group's bytes
    std::size_t lines_bytes = 0;
};

struct SequencedCommit {
    std::vector<SequencedPart> parts;
    Store::CommitDone done;
};

// The commits of one sync group and their bytes.
struct Batch {
    GroupBuilder group;
    std::vector<SequencedCommit> commits;
    std::chrono::nanoseconds begun{};  // when the first commit came, by the monotonic clock
};

class Sequencer {
 public:
    // Where a log ends, durable and not. Found by the caller for logs that the sequencer has not
    // seen lately.
    struct End {
        LogTip tip;
        Timestamp at{};
        bool deleted = false;
    };
    using FindEnd = std::function<Result<End>(const SessionId& log)>;

    // A batch is closed before it gets longer than `batch_bytes`, unless one commit alone is.
    Sequencer(Clock& clock, std::size_t max_commit_bytes, std::size_t batch_bytes)
        : clock_(clock), max_commit_bytes_(max_commit_bytes), batch_bytes_(batch_bytes) {}

    // Adds the commit to the open batch; an error leaves everything as it was and `done` uncalled.
    Result<void> add(Commit& commit, Store::CommitDone& done, const FindEnd& find_end);

    // Adds lines of another store as they are, to a log that ends before them: a commit for each.
    // corrupt: they do not follow.
    Result<void> adopt(const SessionId& log, std::string_view lines, const FindEnd& find_end);

    bool empty() const { return batches_.front()->commits.empty(); }
    std::size_t waiting() const { return batches_.front()->commits.size(); }
    std::shared_ptr<Batch> take();  // the oldest
    // Gives back all commits and forgets every end: nothing that was handed out will be written.
    std::vector<SequencedCommit> reset();

    // Forgets where the log ends if it ends there, durable: the table knows as much. False when it
    // ends elsewhere.
    bool forget(const SessionId& log, const LogTip& durable);

 private:
    Result<End*> end_of(const SessionId& log, const FindEnd& find_end);
    Batch& batch_for(std::size_t bytes);

    Clock& clock_;
    std::size_t max_commit_bytes_;
    std::size_t batch_bytes_;
    std::unordered_map<SessionId, End> ends_;
    std::deque<std::shared_ptr<Batch>> batches_{std::make_shared<Batch>()};  // the last is open
    std::string scratch_;  // the lines of the commit that is being added
};

}  // namespace rouse::files
