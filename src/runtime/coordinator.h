#pragma once

// Everything that can be asked of sessions. A command is planned by a pure rule on the latest
// state, committed, answered, and only then carried out: the answer is true whatever crashes next.
//
// All of it runs on one loop, by one thread.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "agent/recovery_manager.h"
#include "domain/run_rules.h"
#include "domain/session_rules.h"
#include "domain/wait_rules.h"
#include "runtime/call_notes.h"
#include "runtime/request_note.h"
#include "runtime/run_driver.h"
#include "runtime/session_companions.h"
#include "runtime/sweeper.h"
#include "runtime/system_log.h"

namespace rouse {

enum class ResumePolicy : std::uint8_t { off, active, all };
template <>
inline constexpr std::string_view kEnumNames<ResumePolicy>[] = {"off", "active", "all"};

struct Reply {
    std::int32_t status = 200;
    std::string body;  // a JSON object
    std::string location = {};
    SessionId session = {};
    RunId run = {};       // that the caller may wait for
    Seq seq = 0;          // of the last record of the change
    bool queued = false;  // a message that the run does not read, but a later one
};

class Coordinator final {
 public:
    struct Parts {
        Env env;
        std::shared_ptr<Store> store;
        BootId boot;
        Registry& registry;
        SystemLog& system;
        SessionCompanions& companions;
        RunDriver& driver;
        Sweeper& sweeper;
        CallNotes& notes;
        // One request is under way and nothing else: nobody minds when this loop waits for the
        // disk.
        std::function<bool()> is_alone;
        // A report that the log does not get.
        std::function<void(const SessionId&, const PendingId&, const Progress&)> on_progress;
    };
    explicit Coordinator(Parts parts);

    using Note = std::optional<RequestNote>;

    // ---- sessions. `created` has no id yet.
    Task<Result<Reply>> create(SessionCreated created, Content message, Note note);
    // Its metadata is a merge patch on what the session has.
    Task<Result<Reply>> update(SessionId id, SessionUpdated update, Note note);
    // A damaged one too.
    Task<Result<Reply>> remove(SessionId id);
    Task<Result<Reply>> fork(SessionId id, std::optional<Seq> at_seq, std::string title, Note note);
    Task<Result<Reply>> compact(SessionId id, std::size_t keep_last, std::string summary,
                                Note note);

    // ---- runs
    struct MessageOptions {
        OnWaiting on_waiting = OnWaiting::supersede;
        OnRunning on_running = OnRunning::queue;
    };
    Task<Result<Reply>> message(SessionId id, Content content, MessageOptions options, Note note);
    Task<Result<Reply>> go_on(SessionId id, Note note);
    Task<Result<Reply>> cancel(SessionId id, CancelMode mode, Note note);

    // ---- waits
    using Results = std::vector<std::pair<CallId, ToolResult>>;
    Task<Result<Reply>> resume(SessionId id, std::optional<std::string> token, Results results,
                               Content input, Note note);
    Task<Result<Reply>> rotate_token(SessionId id);
    Task<Result<Reply>> extend(SessionId id, Timestamp deadline_at, Note note);

    // ---- pending calls
    Task<Result<Reply>> settle(PendingId id, Settlement settlement, Note note);
    Task<Result<Reply>> decide(PendingId id, Decision decision, Note note);
    Task<Result<Reply>> progress(PendingId id, Progress progress);
    // `fresh`: only a call that waits, not one that the same worker has already.
    enum class Claim : std::uint8_t { fresh, again };
    Task<Result<Reply>> claim(PendingId id, std::string worker, Milliseconds lease,
                              Claim which = Claim::again);
    Task<Result<Reply>> release(PendingId id, std::string worker);

    // Removes what has been idle for so long.
    Task<void> remove_finished(Milliseconds after);
    // What is due in the session now.
    Task<void> sweep(SessionId id);
    // The runs of children that this run of their parent asked for, as it was given up.
    Task<void> cancel_children(SessionId parent, RunId run);

    // Before the port opens: a session with an open run that the last process left.
    void meet(const SessionSummary& session);
    // After the port has opened: drives what was accepted, goes on with what died.
    Task<void> start(BootReport report, ResumePolicy policy);

    const BootId& boot() const { return parts_.boot; }

 private:
    struct Change {
        Records records = {};
        std::string answer = {};
        std::int32_t status = 202;
        RunId run = {};
        bool queued = false;  // a message that the run does not read
        bool drive = false;
        bool stop = false;    // whoever drives the run stops
        Records system = {};  // for the system log
        Urgency urgency = Urgency::normal;
    };
    using Plan = std::function<Result<Change>(const SessionState&)>;

    Task<Result<Reply>> change(SessionId id, Plan plan, Note note);
    // `unused_since`: not if somebody has used it since.
    Task<Result<Reply>> remove_whole(SessionId id, std::optional<Timestamp> unused_since);
    Task<Result<Reply>> remove_damaged(SessionId id);
    std::vector<SessionId> who_asks() const;
    Task<Result<Reply>> add_session(SessionId id, Records records, Change change, Note note);
    void add_note(Commit& commit, const Note& note, const Change& change,
                  const std::string& location) const;
    Reply finish(const SessionId& id, const Change& change, Seq last);
    // Commits; what follows from the change follows when it is durable, but for the run that it
    // starts or resumes, which may begin to work before.
    Task<Result<void>> carry_out(const SessionId& id, Commit commit, const Change& change,
                                 const Companions::Then& then);
    Result<Change> plan_past_resume(const SessionState& state, const ResumeCommand& command,
                                    Result<ResumePlan> planned);
    Result<Change> plan_past_decision(const SessionState& state, const PendingId& id,
                                      const Decision& decision);
    Result<Change> plan_past_settlement(const SessionId& session, const PendingId& id,
                                        const Settlement& settlement, const Error& refusal);
    Result<void> check_result(const PendingCall& call, const Settlement& settlement) const;
    // Puts the last that was heard of a call before what settles it, unless the log has it.
    void add_last_progress(const PendingCall& call, Records& settles) const;
    std::vector<SessionSummary> left_behind(ResumePolicy policy);
    void continue_all(std::vector<SessionId> sessions);
    Task<void> continue_one(SessionId session);
    Task<void> note_continued();
    // Of all that are lost, or of one.
    Task<void> answer_for_the_lost(std::vector<SessionId> askers,
                                   std::optional<SessionId> one = std::nullopt);
    using Runs = std::set<RunId>;
    using Children = std::vector<std::shared_ptr<const SessionState>>;
    Children children_of(const SessionId& parent);
    Children asked_by(const SessionId& parent, const Runs& runs);
    // Whether the child's run is wanted no more.
    using Unwanted = std::function<bool(const SessionState&)>;
    static Unwanted asked_by_any(Runs runs);
    Unwanted left_by(ChildrenLeft left);
    using Orphans = std::map<SessionId, Unwanted>;
    Orphans find_orphans(std::vector<SessionId> parents);
    Task<void> cancel_unwanted(SessionId child, Unwanted unwanted);
    Result<Change> change_of_cancel(const SessionState& state, CancelMode mode) const;
    Task<void> cancel_interrupted(SessionId child, Unwanted unwanted);
    class AliasClaim;
    Error refuse_past(const PendingId& id, Error refusal);
    Timestamp now() { return parts_.env.clock.now(); }
    static RunId run_of(const SessionState& state) {
        return state.run ? state.run->run_id : RunId();
    }
    static inline const Note kNoNote;

    Parts parts_;
    IdSource ids_;
    std::set<std::pair<std::string, std::string>> claimed_aliases_;  // task and alias
    std::size_t to_continue_ = 0;                                    // of what this boot found
    // What meet() found, until start() looks into it.
    std::vector<SessionId> met_parents_;  // of open children
    std::vector<SessionId> met_askers_;   // that wait for a child or an answer
};

}  // namespace rouse
