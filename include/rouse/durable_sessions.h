#pragma once

// Sessions that outlive the process, in a directory. Each step of a turn is on disk before the
// outside can see it; after a crash, opening the directory puts right what was left, and a
// suspended session waits on as if nothing had happened.
//
//   auto sessions = rouse::DurableSessions::open("data");
//   auto session = (*sessions)->create();
//   agent.respond_and_wait({.session = *session, .messages = {rouse::user_message("Deploy
//   main")}});
//   // kill -9, start again:
//   session = (*sessions)->get(id);
//   agent.respond_and_wait({.session = *session, .answers = {{call_id,
//   rouse::text_result("done")}}});

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "rouse/result.h"
#include "rouse/session.h"

namespace rouse {

class Store;
struct Env;

struct SessionInfo {
    SessionId id;
    std::string title;
    Timestamp created_at{};
    Timestamp updated_at{};
    std::uint64_t last_seq = 0;
    bool suspended = false;
    bool interrupted = false;  // a crash left a turn: send go_on
};

struct SessionQuery {
    std::optional<bool> suspended = {};
    std::size_t limit = 1000;
};

// Thread-safe. One process at a time has the directory; within it, a session is one object however
// often it is asked for.
class DurableSessions {
 public:
    // Makes the directory when it is missing, not those above it.
    //   unavailable  directory_in_use: names the process that has it
    //   io, corrupt
    static Result<std::unique_ptr<DurableSessions>> open(const std::string& directory);
    // The same without a disk, for tests and for programs that need lists and forks but no past.
    static Result<std::unique_ptr<DurableSessions>> in_memory();
    // On a store and a world of the caller's.
    static Result<std::unique_ptr<DurableSessions>> open(Env env, std::shared_ptr<Store> store);
    ~DurableSessions();

    // An id of your own is sess_ and up to 26 letters, digits or dashes.
    //   invalid  invalid_session_id      conflict  session_exists
    Result<std::shared_ptr<Session>> create(const std::string& title = {}, SessionId id = {});
    // not_found  unknown_session, session_gone      corrupt  session_damaged
    Result<std::shared_ptr<Session>> get(const SessionId& id);
    std::vector<SessionInfo> list(const SessionQuery& query = {});  // newest first

    // A session of its own with the conversation up to `at_seq` (or all of it). It waits for
    // nothing: calls that were open are closed with an error.
    Result<std::shared_ptr<Session>> fork(const SessionId& id, std::optional<Seq> at_seq = {});
    // The model sees `summary` for all but the last `keep_last` messages; the log keeps everything.
    //   conflict  suspended_session
    Result<void> compact(const SessionId& id, std::size_t keep_last, const std::string& summary);
    Result<void> remove(const SessionId& id);

    // Finishes what was begun and lets go of the directory.
    Result<void> close();

    class Shared;

 private:
    explicit DurableSessions(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
    std::shared_ptr<Shared> shared_;
};

}  // namespace rouse
