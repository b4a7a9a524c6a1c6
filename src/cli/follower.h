#pragma once

// Shows a run as it happens: what the agent says on standard output, everything else on standard
// error, until the session has nothing more to do.

#include <map>
#include <ostream>
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

    // Calls of a turn that began earlier.
    void know(const std::vector<client::PendingView>& calls);

    // Waits until the stream has caught up: from here on nothing that is said is missed.
    Result<void> catch_up(client::EventStream& events);

    // Until the session does not run, as of a record at or behind `behind`.
    Result<FollowEnd> follow(client::EventStream& events, Seq behind);

    // For tests: one event.
    void take(const client::Event& event);

 private:
    void take_record(const client::Event& event);
    void show_message(const MessageAssistant& message);
    void show_result(const CallId& call, std::string_view text, Colour colour);
    void note(const std::string& text, Colour colour);
    void end_line();

    FollowerOutput output_;
    std::string status_;
    Seq status_seq_ = 0;
    std::string failure_;
    bool live_ = false;      // the replay is over
    bool complete_ = false;  // we have heard all that is being said, from its first word
    std::string said_;       // of the message that is being said, as shown so far
    bool in_line_ = false;
    std::map<CallId, std::string> tools_;
};

}  // namespace rouse::cli
