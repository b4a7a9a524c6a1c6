#pragma once

// The requests that the load consists of, each with the answer it must have.

#include <string>

#include "bench/load_client.h"

namespace rouse::bench {

struct Work {
    std::string agent = "demo";
    std::string message = "Deploy main";
    std::string wait = "30s";
};

// A session that waits for the result of one tool call.
struct Waiting {
    std::string session_id;
    std::string pending_id;
};

// Every call throws Unexpected unless the answer is the one that belongs to it.
class Api {
 public:
    Api(Target target, Work work, Report& report)
        : client_(std::move(target), report), work_(std::move(work)) {}

    // A new session with a message, suspended.
    Task<Waiting> create();
    // The next message to a session, suspended again.
    Task<Waiting> message(std::string session_id);
    // The result that a session waits for, completed.
    Task<void> result(std::string pending_id);
    Task<std::uint64_t> last_seq(std::string session_id);

    // A session with a name that has nothing to do.
    Task<void> create_idle(std::string alias);
    // A letter to an idle session, which it wakes.
    Task<void> letter(std::string alias);
    // Runs that are in flight or wait for their turn.
    Task<std::uint64_t> runs();

    Task<void> read_session(std::string session_id);
    Task<void> read_health();
    // The two requests of a cycle to the ceiling, which looks at no byte of them.
    Task<void> ceiling_cycle();

 private:
    Task<Waiting> expect_suspended(Request request, std::string kind, std::string session_id);

    Client client_;
    Work work_;
};

}  // namespace rouse::bench
