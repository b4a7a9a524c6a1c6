#pragma once

// Shows a run as it happens: what the agent says on standard output, everything else on standard
// error, until the session has nothing more to do.

#include <map>
#include <ostream>
#include <set>
#include <string>

#include "cli/terminal.h"
#include "client/client.h"

namespace rouse::cli {

// How it is when there is nothing more to follow.
struct FollowEnd {
    std::string status;   // idle, waiting, interrupted_…
    std::string failure;  // why the last run failed or was cancelled; empty: it did not
};

struct FollowerOutput {
    std::ostream& answer;
    std::ostream& notes;
    Terminal terminal;
    bool json = false;  // records on `answer`, one to a line, and nothing else
};

class Follower final {
 public:
    explicit Follower(FollowerOutput output) : output_(output) {}

    // The session as it is where the stream begins.
    void begin_at(const client::SessionView& session);

    // Waits until the stream has caught up: from here on nothing that is said is missed.
    Result<void> catch_up(client::EventStream& events);

    // What is shown from here on: this run, which the record `moved` moved on, and those that go on
    // with it after an interruption. Nothing of other runs.
    void follow_run(const RunId& run, Seq moved);
    // The same for the run that will read the message at `queued`.
    void follow_next_run(Seq queued);
    bool follows(const RunId& run) const { return run == run_; }

    // Until that run is over or, as of a record at or behind `behind`, the session does not run.
    Result<FollowEnd> follow(client::EventStream& events, Seq behind);

    // For tests: one event.
    void take(const client::Event& event);

 private:
    void take_delta(const client::DeltaView& delta);
    void take_record(const client::Event& event);
    void note_start(const Record& record);
    void note_end(const RecordBody& body);
    bool is_ours(const Record& record) const;
    void show(const RecordBody& body);
    void show_message(const MessageAssistant& message);
    void show_result(const CallId& call, std::string_view text, Colour colour);
    void note(const std::string& text, Colour colour);
    void end_line();

    FollowerOutput output_;
    std::string status_;
    Seq status_seq_ = 0;
    std::string failure_;
    bool live_ = false;  // the replay is over
    RunId run_;          // that is followed; empty: not known yet
    Seq moved_ = 0;      // the last record of the command that moved it on
    bool awaits_next_ = false;
    bool over_ = false;
    RunId open_run_;                         // that records belong to which name none
    std::map<MessageId, std::string> said_;  // of messages that are not recorded yet, as shown
    MessageId speaking_;                     // whose text stands last on `answer`
    bool in_line_ = false;
    std::map<CallId, std::string> tools_;
    std::set<CallId> earlier_calls_;  // that were open when the stream began
};

}  // namespace rouse::cli
